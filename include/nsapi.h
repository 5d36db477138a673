/*
 * nsapi.h: the interface between Touchstone and plug-ins of the NSAPI generation 3 (versions 300 to 303).
 *
 * A plug-in is a shared library with functions of the form
 *
 *     int name(pblock *pb, Session *sn, Request *rq);
 *
 * that an obj.conf, or the route of a Touchstone site, calls at a stage of a request. It reaches the server
 * through three tables of functions, which the server exports and the macros below use; nothing else of the
 * server is needed, so a plug-in is compiled with
 *
 *     cc -shared -fPIC -I include plugin.c -o plugin.so
 *
 * The order of the tables and the layout of the structures are the binary interface: they are checked by
 * tests and must not change. See docs/nsapi.md.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef TOUCHSTONE_NSAPI_H
#define TOUCHSTONE_NSAPI_H

/* Plug-ins test this name to detect whether the header was included. */
#ifndef PUBLIC_NSAPI_H
#define PUBLIC_NSAPI_H
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version to compile for: 303, or an older one with -DUSE_NSAPI_VERSION=300 to 302. */
#define NSAPI_VERSION 303
#ifdef USE_NSAPI_VERSION
#if USE_NSAPI_VERSION < 300 || USE_NSAPI_VERSION > 303
#error "USE_NSAPI_VERSION must be 300, 301, 302 or 303"
#endif
#undef NSAPI_VERSION
#define NSAPI_VERSION USE_NSAPI_VERSION
#endif

#ifndef XP_UNIX
#define XP_UNIX
#endif
#ifndef NSAPI_PUBLIC
#define NSAPI_PUBLIC
#endif
#ifndef TCPLEN_T
#define TCPLEN_T socklen_t
#endif
#define ZERO(to, length) memset((to), 0, (length))

#include <sys/types.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <netinet/in.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- Constants ----------------------------------------------------------------------------------------- */

/* The results of a function. */
#define REQ_PROCEED 0   /* it did its work */
#define REQ_ABORTED -1  /* the request has failed; its status states why */
#define REQ_NOACTION -2 /* it had nothing to do */
#define REQ_EXIT -3     /* close the connection, without further output */
#define REQ_RESTART -4  /* the request begins again, with the current uri */
#define REQ_TOOBUSY -5  /* the server is busy */

/* The results of input and output. */
#define IO_OKAY 1
#define IO_ERROR -1
#define IO_EOF 0
#define NETBUF_EOF -1
#define NETBUF_ERROR -2
#define NETBUF_FULL -3

/* The severity of an entry of the error log. */
#define LOG_WARN 0
#define LOG_MISCONFIG 1
#define LOG_SECURITY 2
#define LOG_FAILURE 3
#define LOG_CATASTROPHE 4
#define LOG_INFORM 5
#define LOG_VERBOSE 6
#define ERR_TIMEFMT "[%d/%b/%Y:%H:%M:%S]"
#define ERRORS_TO_SYSLOG NULL

/* Sizes. */
#define MAGNUS_ERROR_LEN 1024
#define MAX_ERROR_LEN 4096
#define REQ_MAX_LINE 4096
#define CONF_MAXLEN 16384
#define FILE_BUFFERSIZE 4096
#define CINFO_MAX_LEN 1024
#define SESSION_HASHSIZE 5
#define HTTP_DATE_LEN 30
#define HTTP_DATE_FMT "%a, %d %b %Y %T GMT"
#define NCC_MT_MAGIC "#--Netscape Communications Corporation MIME Information"
#define NCC_MT_MAGIC_LEN 55

/* Characters and names. */
#define CR 13
#define LF 10
#define ENDLINE "\n"
#define CINFO_SEPARATOR '.'
#define FILE_PATHSEP '/'
#define FILE_PARENT "../"
#define SYS_STDERR STDERR_FILENO
#define HTTP_PORT 80
#define HTTP_URL "http"
#define HTTPS_PORT 443
#define HTTPS_URL "https"

/* Timeouts of net_read, in seconds otherwise. */
#define NET_INFINITE_TIMEOUT 0
#define NET_ZERO_TIMEOUT -1

#define SYSTHREAD_DEFAULT_PRIORITY 16

/* The results of regexp_valid and shexp_valid: a plain text, an invalid pattern, a pattern. */
#define NON_WILDPAT -1
#define INVALID_WILDPAT -2
#define VALID_WILDPAT 1
#define NON_SXP NON_WILDPAT
#define INVALID_SXP INVALID_WILDPAT
#define VALID_SXP VALID_WILDPAT
#define NON_REGEXP NON_SXP
#define INVALID_REGEXP INVALID_SXP
#define VALID_REGEXP VALID_SXP

/* Patterns in parameters: shell expressions, or regular expressions if the plug-in requests them. */
#ifdef USE_REGEX
#define WILDPAT_VALID(expression) regexp_valid(expression)
#define WILDPAT_MATCH(str, expression) regexp_match(str, expression)
#define WILDPAT_CMP(str, expression) regexp_cmp(str, expression)
#define WILDPAT_CASECMP(str, expression) regexp_casecmp(str, expression)
#define WILDPAT_USES_REGEXP 1
#else
#define WILDPAT_VALID(expression) shexp_valid(expression)
#define WILDPAT_MATCH(str, expression) shexp_match(str, expression)
#define WILDPAT_CMP(str, expression) shexp_cmp(str, expression)
#define WILDPAT_CASECMP(str, expression) shexp_casecmp(str, expression)
#define WILDPAT_USES_SHEXP 1
#endif

/* Status codes (RFC 9110 section 15). */
#define PROTOCOL_CONTINUE 100
#define PROTOCOL_SWITCHING 101
#define PROTOCOL_OK 200
#define PROTOCOL_CREATED 201
#define PROTOCOL_ACCEPTED 202
#define PROTOCOL_NONAUTHORITATIVE 203
#define PROTOCOL_NO_RESPONSE 204
#define PROTOCOL_NO_CONTENT 204
#define PROTOCOL_RESET_CONTENT 205
#define PROTOCOL_PARTIAL_CONTENT 206
#define PROTOCOL_MULTI_STATUS 207
#define PROTOCOL_MULTIPLE_CHOICES 300
#define PROTOCOL_MOVED_PERMANENTLY 301
#define PROTOCOL_REDIRECT 302
#define PROTOCOL_SEE_OTHER 303
#define PROTOCOL_NOT_MODIFIED 304
#define PROTOCOL_USE_PROXY 305
#define PROTOCOL_TEMPORARY_REDIRECT 307
#define PROTOCOL_BAD_REQUEST 400
#define PROTOCOL_UNAUTHORIZED 401
#define PROTOCOL_PAYMENT_REQUIRED 402
#define PROTOCOL_FORBIDDEN 403
#define PROTOCOL_NOT_FOUND 404
#define PROTOCOL_METHOD_NOT_ALLOWED 405
#define PROTOCOL_NOT_ACCEPTABLE 406
#define PROTOCOL_PROXY_UNAUTHORIZED 407
#define PROTOCOL_REQUEST_TIMEOUT 408
#define PROTOCOL_CONFLICT 409
#define PROTOCOL_GONE 410
#define PROTOCOL_LENGTH_REQUIRED 411
#define PROTOCOL_PRECONDITION_FAIL 412
#define PROTOCOL_ENTITY_TOO_LARGE 413
#define PROTOCOL_URI_TOO_LARGE 414
#define PROTOCOL_UNSUPPORTED_MEDIA_TYPE 415
#define PROTOCOL_REQUESTED_RANGE_NOT_SATISFIABLE 416
#define PROTOCOL_EXPECTATION_FAILED 417
#define PROTOCOL_LOCKED 423
#define PROTOCOL_FAILED_DEPENDENCY 424
#define PROTOCOL_SERVER_ERROR 500
#define PROTOCOL_NOT_IMPLEMENTED 501
#define PROTOCOL_BAD_GATEWAY 502
#define PROTOCOL_SERVICE_UNAVAILABLE 503
#define PROTOCOL_GATEWAY_TIMEOUT 504
#define PROTOCOL_VERSION_NOT_SUPPORTED 505
#define PROTOCOL_INSUFFICIENT_STORAGE 507

/* rq->protv_num. HTTP/2 and HTTP/3 appear as HTTP/1.1. */
#define PROTOCOL_VERSION_HTTP09 9
#define PROTOCOL_VERSION_HTTP10 100
#define PROTOCOL_VERSION_HTTP11 101
#define CURRENT_PROTOCOL_VERSION PROTOCOL_VERSION_HTTP11

/* rq->method_num; -1 where the method is none of these. */
#define METHOD_HEAD 0
#define METHOD_GET 1
#define METHOD_PUT 2
#define METHOD_POST 3
#define METHOD_DELETE 4
#define METHOD_TRACE 5
#define METHOD_OPTIONS 6
#define METHOD_MOVE 7
#define METHOD_INDEX 8
#define METHOD_MKDIR 9
#define METHOD_RMDIR 10
#define METHOD_COPY 11
#define METHOD_MAX 12

#define ISMGET(r) ((r)->method_num == METHOD_GET)
#define ISMHEAD(r) ((r)->method_num == METHOD_HEAD)
#define ISMPUT(r) ((r)->method_num == METHOD_PUT)
#define ISMPOST(r) ((r)->method_num == METHOD_POST)
#define ISMDELETE(r) ((r)->method_num == METHOD_DELETE)
#define ISMMOVE(r) ((r)->method_num == METHOD_MOVE)
#define ISMINDEX(r) ((r)->method_num == METHOD_INDEX)
#define ISMMKDIR(r) ((r)->method_num == METHOD_MKDIR)
#define ISMRMDIR(r) ((r)->method_num == METHOD_RMDIR)
#define ISMCOPY(r) ((r)->method_num == METHOD_COPY)
#define ISMTRACE(r) ((r)->method_num == METHOD_TRACE)
#define ISMOPTIONS(r) ((r)->method_num == METHOD_OPTIONS)

/* Of NSPR, the few types that plug-ins use without its headers. */
#ifndef prtypes_h___
#ifndef PR_TRUE
typedef int PRInt32;
typedef unsigned int PRUint32;
typedef int PRBool;
#define PR_TRUE 1
#define PR_FALSE 0
#endif
#endif

/* ---- Types --------------------------------------------------------------------------------------------- */

/* Files, sockets, locks and threads are represented by handles. */
#ifndef SYS_FILE_T
typedef void *SYS_FILE;
#define SYS_FILE_T void *
#endif
#define SYS_ERROR_FD ((SYS_FILE)-1)

#ifndef SYS_NETFD_T
typedef void *SYS_NETFD;
#define SYS_NETFD_T void *
#endif
#ifndef SYS_NET_ERRORFD
#define SYS_NET_ERRORFD ((SYS_NETFD)-1)
#endif

#ifndef SEMAPHORE_T
typedef void *SEMAPHORE;
#define SEMAPHORE_T void *
#endif

#ifndef POOL_HANDLE_T
#define POOL_HANDLE_T
typedef void *pool_handle_t;
#endif

typedef void *CRITICAL;
typedef void *CONDVAR;
typedef void *COUNTING_SEMAPHORE;
typedef void *SYS_THREAD;
#define SYS_THREAD_ERROR NULL
typedef DIR *SYS_DIR;
typedef struct dirent SYS_DIRENT;

/* Only the server has their definitions. */
typedef struct directive directive;
typedef struct dtable dtable;
typedef struct httpd_object httpd_object;
typedef struct httpd_objset httpd_objset;
typedef struct PListStruct_s PListStruct_s;
typedef struct ACLListHandle ACLListHandle;
typedef struct VirtualServer VirtualServer;
typedef struct Filter Filter;
#ifndef PR_AF_INET
typedef union PRNetAddr PRNetAddr;
#endif
struct hostent;

/* A file that is read through a buffer, or mapped into memory. */
typedef struct filebuffer filebuffer;
struct filebuffer {
    SYS_FILE fd;
    char *fp;             /* the bytes of the file */
    int len;              /* their number */
    unsigned char *inbuf; /* the bytes of the last filebuf_grab */
    int cursize;
    int pos;
    const char *errmsg;
};
typedef filebuffer filebuf_t;
#define filebuf_iseof(b) ((b)->pos == (b)->len)
#define filebuf_getc(b) (filebuf_iseof(b) ? IO_EOF : (int)((b)->fp)[(b)->pos++])

/* A connection that is read through a buffer; sn->inbuf is the body of the request. */
typedef struct netbuf netbuf;
struct netbuf {
    SYS_NETFD sd;
    int pos;
    int cursize;
    int maxsize;
    int rdtimeout;
    unsigned char *inbuf;
    char *errmsg;
    char address[64];
};
#define netbuf_getc(b) ((b)->pos != (b)->cursize ? (int)((b)->inbuf[(b)->pos++]) : netbuf_next((b), 1))
#define buffer_error(b) ((b)->errmsg)

/* For net_sendfile: an offset and length of 0 are the whole file. */
typedef struct sendfiledata sendfiledata;
struct sendfiledata {
    SYS_FILE fd;
    size_t offset;
    size_t len;
    const void *header;
    int hlen;
    const void *trailer;
    int tlen;
};

/* For net_writev. */
#ifdef _LP64
typedef struct NSAPIIOVec NSAPIIOVec;
struct NSAPIIOVec {
    char *iov_base;
    int iov_len;
};
#else
typedef struct iovec NSAPIIOVec;
#endif

/* The properties of a file that its extensions imply. */
typedef struct cinfo cinfo;
struct cinfo {
    char *type;
    char *encoding;
    char *language;
};

/* Parameter blocks: hash tables of names with values. */
typedef struct pb_param pb_param;
struct pb_param {
    char *name;
    char *value;
};
struct pb_entry {
    pb_param *param;
    struct pb_entry *next;
};
typedef struct pblock pblock;
struct pblock {
    int hsize;
    struct pb_entry **ht;
};

/* A connection with its client. */
typedef struct Session Session;
typedef struct Request Request;
struct Session {
    pblock *client; /* ip, dns, and of TLS: keysize, cipher, ssl-id... */
    SYS_NETFD csd;  /* the client, for net_write and net_read */
    netbuf *inbuf;  /* the body of the request */
    int csd_open;
    struct in_addr iaddr;
    pool_handle_t *pool; /* memory that lasts until the end of the request */
    void *clauth;
    struct Session *next;
    int fill;
    struct sockaddr_in local_addr;
    PListStruct_s *subject;
    int ssl; /* 1: TLS */
    int clientauth;
    PRNetAddr *pr_client_addr;
    PRNetAddr *pr_local_addr;
};

/* A request. */
#define RQATTR unsigned long
struct Request {
    pblock *vars;  /* values that stages pass on: path, ppath, name, auth-user... */
    pblock *reqpb; /* method, uri, query, protocol, clf-request */
    int loadhdrs;
    pblock *headers; /* the fields of the request, names in lower case */
    int senthdrs;    /* 1: the head of the answer is sent */
    pblock *srvhdrs; /* the fields of the answer, and its status */
    httpd_objset *os;
    httpd_objset *tmpos;
    char *statpath; /* of the last request_stat_path */
    char *staterr;
    struct stat *finfo;
    int aclstate;
    int acldirno;
    char *aclname;
    pblock *aclpb;
    ACLListHandle *acllist;
    int request_is_cacheable;
    int directive_is_cacheable;
    char *cached_headers;
    int cached_headers_len;
    char *unused;
    time_t req_start;
    short protv_num;
    short method_num;
    struct rq_attr {
        RQATTR abs_uri : 1;
        RQATTR chunked : 1;
        RQATTR keep_alive : 1;
        RQATTR pipelined : 1;
        RQATTR internal_req : 1;
        RQATTR perm_req : 1;
        RQATTR header_file_present : 1;
        RQATTR footer_file_present : 1;
        RQATTR jvm_attached : 1;
        RQATTR req_restarted : 1;
        RQATTR jvm_request_locked : 1;
        RQATTR default_type_set : 1;
        RQATTR is_web_app : 1;
        RQATTR ssl_unclean_shutdown : 1;
        RQATTR vary_accept_language : 1;
        RQATTR reserved : 17;
    } rq_attr;
    char *hostname; /* the host that the client requested; never NULL */
    int allowed;
    int byterange;
    short status_num;
    int staterrno;
    Request *orig_rq; /* the request of the client, where this one is internal */
};
#define REQ_TIME(x) (x)->req_start
#define ABS_URI(x) (x)->rq_attr.abs_uri
#define CHUNKED(x) (x)->rq_attr.chunked
#define KEEP_ALIVE(x) (x)->rq_attr.keep_alive
#define PIPELINED(x) (x)->rq_attr.pipelined
#define INTERNAL_REQUEST(x) (x)->rq_attr.internal_req
#define RESTARTED_REQUEST(x) (x)->rq_attr.req_restarted
#define PERM_REQUEST(x) (x)->rq_attr.perm_req
#define JVM_REQUEST_LOCKED(x) (x)->rq_attr.jvm_request_locked
#define SSL_UNCLEAN_SHUTDOWN(x) (x)->rq_attr.ssl_unclean_shutdown
#define VARY_ACCEPT_LANGUAGE(x) (x)->rq_attr.vary_accept_language

/* A function of a plug-in. */
typedef int Func(pblock *pb, Session *sn, Request *rq);
typedef Func *FuncPtr;
typedef struct FuncStruct FuncStruct;
struct FuncStruct {
    const char *name;
    FuncPtr func;
    struct FuncStruct *next;
    unsigned flags;
    unsigned poolID;
    unsigned pool_resolved;
};

/* Notified of virtual servers; in Touchstone, a site is one. */
typedef int VSInitFunc(VirtualServer *incoming, const VirtualServer *current);
typedef void VSDestroyFunc(VirtualServer *outgoing);
typedef VSInitFunc *VSInitFuncPtr;
typedef VSDestroyFunc *VSDestroyFuncPtr;
typedef int VSDirectiveInitFunc(const directive *instance, VirtualServer *incoming,
                                const VirtualServer *current);
typedef void VSDirectiveDestroyFunc(const directive *instance, VirtualServer *outgoing);
typedef VSDirectiveInitFunc *VSDirectiveInitFuncPtr;
typedef VSDirectiveDestroyFunc *VSDirectiveDestroyFuncPtr;

/* Filters between the functions and the client. */
typedef struct FilterContext FilterContext;
struct FilterContext {
    pool_handle_t *pool;
    Session *sn;
    Request *rq;
    void *data;
};
typedef struct FilterLayer FilterLayer;
struct FilterLayer {
    Filter *filter;
    FilterContext *context;
    SYS_NETFD lower; /* the next layer towards the client */
};
typedef int(FilterInsertFunc)(FilterLayer *layer, pblock *pb);
typedef void(FilterRemoveFunc)(FilterLayer *layer);
typedef int(FilterFlushFunc)(FilterLayer *layer);
typedef int(FilterReadFunc)(FilterLayer *layer, void *buf, int size, int timeout_seconds);
typedef int(FilterWriteFunc)(FilterLayer *layer, const void *buf, int size);
typedef int(FilterWritevFunc)(FilterLayer *layer, const NSAPIIOVec *parts, int count);
typedef int(FilterSendfileFunc)(FilterLayer *layer, sendfiledata *data);
typedef struct FilterMethods FilterMethods;
struct FilterMethods {
    size_t size;
#if NSAPI_VERSION >= 302
    FilterInsertFunc *insert;
    FilterRemoveFunc *remove;
    FilterFlushFunc *flush;
    FilterReadFunc *read;
    FilterWriteFunc *write;
    FilterWritevFunc *writev;
    FilterSendfileFunc *sendfile;
#else
    void *reserved[7];
#endif
};
#define FILTER_METHODS_INITIALIZER {sizeof(FilterMethods), NULL, NULL, NULL, NULL, NULL, NULL, NULL}
#define FILTER_CONTENT_GENERATION 0xf0000
#define FILTER_CONTENT_TRANSLATION_HIGH 0xa0000
#define FILTER_CONTENT_TRANSLATION 0x90000
#define FILTER_CONTENT_TRANSLATION_LOW 0x80000
#define FILTER_CONTENT_CODING 0x50000
#define FILTER_TRANSFER_CODING 0x40000
#define FILTER_MESSAGE_CODING 0x30000
#define FILTER_TRANSPORT_CODING 0x20000
#define FILTER_NETWORK 0x10000

/* Memory that processes share. */
typedef struct shmem_s shmem_s;
struct shmem_s {
    void *data;
    int size;
    char *name;
    SYS_FILE fd;
};

/* The values of the server, and of the calling thread's request. */
typedef struct conf_global_vars_s conf_global_vars_s;
struct conf_global_vars_s {
    int Vport;
    char *Vaddr;
    struct passwd *Vuserpw;
    char *Vchr;
    char *Vpidfn;
    int Vpool_max;
    int Vpool_min;
    int Vpool_life;
    int Vpool_maxthreads;
    int Vpool_minthreads;
    char *Vsecure_keyfn;
    char *Vsecure_certfn;
    int Vsecurity_active;
    int Vssl3_active;
    int Vssl2_active;
    int Vsecure_auth;
    int Vsecurity_session_timeout;
    long Vssl3_session_timeout;
    char *Vserver_hostname;
    char *Vroot_object;
    httpd_objset *Vstd_os;
    void *Vacl_root;
    char *Vmaster_error_log;
    char *Vserver_root;
    char *Vserver_id;
    char *Vadmin_users;
    char *Vnetsite_root;
    int digest_stale_timeout;
    int single_accept;
    int num_keep_alives;
    int log_verbose;
    int mmap_flags;
    int mmap_prots;
    int unused1;
    int unused2;
    int accept_language;
    char *mtahost;
    char *nntphost;
    void *Vacl_root_30;
    char *agentFilePath;
    int Allowed;
    pblock *genericGlobals;
    char *agentsACLFile;
    int wait_for_cgi;
    int cgiwatch_timeout;
    int started_by_watchdog;
    int restarted_by_watchdog;
    int old_accel_cache_enabled;
    int Vssl_cache_entries;
    int blocking_listen_socket;
    pblock **initfns;
    char *vs_config_file;
};
#define server_portnum conf_getglobals()->Vport
#define pool_max conf_getglobals()->Vpool_max
#define pool_min conf_getglobals()->Vpool_min
#define pool_life conf_getglobals()->Vpool_life
#define pool_maxthreads conf_getglobals()->Vpool_maxthreads
#define pool_minthreads conf_getglobals()->Vpool_minthreads
#define security_active conf_getglobals()->Vsecurity_active
#define server_hostname conf_getglobals()->Vserver_hostname
#define root_object conf_getglobals()->Vroot_object
#define std_os conf_getglobals()->Vstd_os
#define server_root conf_getglobals()->Vserver_root
#define server_id conf_getglobals()->Vserver_id

/* ---- The tables ---------------------------------------------------------------------------------------- */

typedef struct nsapi_dispatch_s nsapi_dispatch_t;
struct nsapi_dispatch_s {
    char *(*f_system_version)(void);
    void *(*f_system_malloc)(int size);
    void *(*f_system_calloc)(int size);
    void *(*f_system_realloc)(void *ptr, int size);
    void (*f_system_free)(void *ptr);
    char *(*f_system_strdup)(const char *str);
    void *(*f_system_malloc_perm)(int size);
    void *(*f_system_calloc_perm)(int size);
    void *(*f_system_realloc_perm)(void *ptr, int size);
    void (*f_system_free_perm)(void *ptr);
    char *(*f_system_strdup_perm)(const char *str);
    int (*f_getThreadMallocKey)(void);
    void (*f_magnus_atrestart)(void (*fn)(void *), void *data);
    filebuf_t *(*f_filebuf_open)(SYS_FILE fd, int size);
    netbuf *(*f_netbuf_open)(SYS_NETFD sd, int size);
    filebuf_t *(*f_filebuf_create)(SYS_FILE fd, char *mapped, int mapped_length, int size);
    void (*f_filebuf_close_buffer)(filebuf_t *buf, int unmap);
    filebuf_t *(*f_filebuf_open_nostat)(SYS_FILE fd, int size, struct stat *finfo);
    void *(*f_pipebuf_open)(void);
    int (*f_filebuf_next)(filebuf_t *buf, int advance);
    int (*f_netbuf_next)(netbuf *buf, int advance);
    int (*f_pipebuf_next)(void);
    void (*f_filebuf_close)(filebuf_t *buf);
    void (*f_netbuf_close)(netbuf *buf);
    void (*f_pipebuf_close)(void);
    int (*f_filebuf_grab)(filebuf_t *buf, int size);
    int (*f_netbuf_grab)(netbuf *buf, int size);
    int (*f_pipebuf_grab)(void);
    int (*f_netbuf_buf2sd)(netbuf *buf, SYS_NETFD sd, int length);
    int (*f_filebuf_buf2sd)(filebuf_t *buf, SYS_NETFD sd);
    int (*f_pipebuf_buf2sd)(void);
    int (*f_pipebuf_netbuf2sd)(void);
    int (*f_pipebuf_netbuf2pipe)(void);
    void (*f_cinfo_init)(void);
    void (*f_cinfo_terminate)(void);
    char *(*f_cinfo_merge)(char *filename);
    cinfo *(*f_cinfo_find)(char *uri);
    cinfo *(*f_cinfo_lookup)(char *type);
    void (*f_cinfo_dump_database)(FILE *out);
    CRITICAL (*f_crit_init)(void);
    void (*f_crit_enter)(CRITICAL id);
    void (*f_crit_exit)(CRITICAL id);
    void (*f_crit_terminate)(CRITICAL id);
    CONDVAR (*f_condvar_init)(CRITICAL id);
    void (*f_condvar_wait)(CONDVAR cv);
    void (*f_condvar_notify)(CONDVAR cv);
    void (*f_condvar_notifyAll)(CONDVAR cv);
    void (*f_condvar_terminate)(CONDVAR cv);
    COUNTING_SEMAPHORE (*f_cs_init)(int initial_count);
    void (*f_cs_terminate)(COUNTING_SEMAPHORE cs);
    int (*f_cs_wait)(COUNTING_SEMAPHORE cs);
    int (*f_cs_trywait)(COUNTING_SEMAPHORE cs);
    int (*f_cs_release)(COUNTING_SEMAPHORE cs);
    void (*f_daemon_atrestart)(void (*fn)(void *), void *data);
    void (*f_servssl_init)(void);
    int (*f_ereport)(int degree, const char *format, ...);
    int (*f_ereport_v)(int degree, const char *format, va_list arguments);
    char *(*f_ereport_init)(const char *file, const char *email, struct passwd *user, const char *version,
        int restart);
    void (*f_ereport_terminate)(void);
    SYS_FILE (*f_ereport_getfd)(void);
    SYS_FILE (*f_system_fopenRO)(const char *path);
    SYS_FILE (*f_system_fopenWA)(const char *path);
    SYS_FILE (*f_system_fopenRW)(const char *path);
    SYS_FILE (*f_system_fopenWT)(const char *path);
    int (*f_system_fread)(SYS_FILE fd, void *buf, int size);
    int (*f_system_fwrite)(SYS_FILE fd, const void *buf, int size);
    int (*f_system_fwrite_atomic)(SYS_FILE fd, const void *buf, int size);
    int (*f_system_lseek)(SYS_FILE fd, int offset, int whence);
    int (*f_system_fclose)(SYS_FILE fd);
    int (*f_system_stat)(const char *path, struct stat *finfo);
    int (*f_system_rename)(const char *from, const char *to);
    int (*f_system_unlink)(const char *path);
    int (*f_system_tlock)(SYS_FILE fd);
    int (*f_system_flock)(SYS_FILE fd);
    int (*f_system_ulock)(SYS_FILE fd);
    void *(*f_dir_open)(void);
    void *(*f_dir_read)(void);
    void (*f_dir_close)(void);
    int (*f_dir_create_all)(char *path);
    void *(*f_system_winsockerr)(void);
    void *(*f_system_winerr)(void);
    int (*f_system_pread)(void);
    int (*f_system_pwrite)(void);
    void (*f_file_unix2local)(void);
    int (*f_system_nocoredumps)(void);
    int (*f_file_setinherit)(SYS_FILE fd, int inherit);
    int (*f_file_notfound)(void);
    char *(*f_system_errmsg)(void);
    int (*f_system_errmsg_fn)(char **buf, size_t size);
    SYS_NETFD (*f_net_socket)(int domain, int type, int protocol);
    int (*f_net_listen)(SYS_NETFD sd, int backlog);
    SYS_NETFD (*f_net_create_listener)(const char *address, int port);
    int (*f_net_connect)(SYS_NETFD sd, const void *address, int length);
    int (*f_net_getpeername)(SYS_NETFD sd, struct sockaddr *address, int *length);
    int (*f_net_close)(SYS_NETFD sd);
    int (*f_net_bind)(SYS_NETFD sd, const struct sockaddr *address, int length);
    SYS_NETFD (*f_net_accept)(SYS_NETFD sd, struct sockaddr *address, int *length);
    int (*f_net_read)(SYS_NETFD sd, void *buf, int size, int timeout_seconds);
    int (*f_net_write)(SYS_NETFD sd, const void *buf, int size);
    int (*f_net_writev)(SYS_NETFD sd, const NSAPIIOVec *parts, int count);
    int (*f_net_isalive)(SYS_NETFD sd);
    char *(*f_net_ip2host)(const char *ip, int verify);
    int (*f_net_getsockopt)(SYS_NETFD sd, int level, int name, void *value, int *length);
    int (*f_net_setsockopt)(SYS_NETFD sd, int level, int name, const void *value, int length);
    int (*f_net_select)(int count, fd_set *readable, fd_set *writable, fd_set *failed,
        struct timeval *timeout);
    int (*f_net_ioctl)(SYS_NETFD sd, int tag, void *result);
    pb_param *(*f_param_create)(const char *name, const char *value);
    int (*f_param_free)(pb_param *pp);
    pblock *(*f_pblock_create)(int size);
    void (*f_pblock_free)(pblock *pb);
    char *(*f_pblock_findval)(const char *name, const pblock *pb);
    pb_param *(*f_pblock_nvinsert)(const char *name, const char *value, pblock *pb);
    pb_param *(*f_pblock_nninsert)(const char *name, int value, pblock *pb);
    void (*f_pblock_pinsert)(pb_param *pp, pblock *pb);
    int (*f_pblock_str2pblock)(const char *str, pblock *pb);
    char *(*f_pblock_pblock2str)(const pblock *pb, char *str);
    int (*f_pblock_copy)(const pblock *from, pblock *to);
    pblock *(*f_pblock_dup)(const pblock *pb);
    char **(*f_pblock_pb2env)(const pblock *pb, char **env);
    pb_param *(*f_pblock_fr)(const char *name, pblock *pb, int remove);
    char *(*f_pblock_replace)(const char *name, char *value, pblock *pb);
    pool_handle_t *(*f_pool_create)(void);
    void (*f_pool_destroy)(pool_handle_t *pool);
    int (*f_pool_enabled)(void);
    void *(*f_pool_malloc)(pool_handle_t *pool, size_t size);
    void (*f_pool_free)(pool_handle_t *pool, void *ptr);
    void *(*f_pool_calloc)(pool_handle_t *pool, size_t count, size_t size);
    void *(*f_pool_realloc)(pool_handle_t *pool, void *ptr, size_t size);
    char *(*f_pool_strdup)(pool_handle_t *pool, const char *str);
    int (*f_regexp_valid)(const char *expression);
    int (*f_regexp_match)(const char *str, const char *expression);
    int (*f_regexp_cmp)(const char *str, const char *expression);
    int (*f_regexp_casecmp)(const char *str, const char *expression);
    SEMAPHORE (*f_sem_init)(char *name, int number);
    void (*f_sem_terminate)(SEMAPHORE id);
    int (*f_sem_grab)(SEMAPHORE id);
    int (*f_sem_tgrab)(SEMAPHORE id);
    int (*f_sem_release)(SEMAPHORE id);
    Session *(*f_session_alloc)(SYS_NETFD csd, struct sockaddr_in *address);
    Session *(*f_session_fill)(Session *sn);
    Session *(*f_session_create)(SYS_NETFD csd, struct sockaddr_in *address);
    void (*f_session_free)(Session *sn);
    char *(*f_session_dns_lookup)(Session *sn, int verify);
    int (*f_shexp_valid)(const char *expression);
    int (*f_shexp_match)(const char *str, const char *expression);
    int (*f_shexp_cmp)(const char *str, const char *expression);
    int (*f_shexp_casecmp)(const char *str, const char *expression);
    shmem_s *(*f_shmem_alloc)(char *name, int size, int expose);
    void (*f_shmem_free)(shmem_s *region);
    SYS_THREAD (*f_systhread_start)(int priority, int stack_size, void (*fn)(void *), void *argument);
    SYS_THREAD (*f_systhread_current)(void);
    void (*f_systhread_yield)(void);
    SYS_THREAD (*f_systhread_attach)(void);
    void (*f_systhread_detach)(SYS_THREAD thread);
    void (*f_systhread_terminate)(SYS_THREAD thread);
    void (*f_systhread_sleep)(int milliseconds);
    void (*f_systhread_init)(char *name);
    void (*f_systhread_timerset)(int microseconds);
    int (*f_systhread_newkey)(void);
    void *(*f_systhread_getdata)(int key);
    void (*f_systhread_setdata)(int key, void *data);
    void (*f_systhread_set_default_stacksize)(unsigned long size);
    int (*f_util_getline)(filebuffer *buf, int line_number, int size, char *line);
    char **(*f_util_env_create)(char **env, int count, int *position);
    char *(*f_util_env_str)(const char *name, const char *value);
    void (*f_util_env_replace)(char **env, const char *name, const char *value);
    void (*f_util_env_free)(char **env);
    char **(*f_util_env_copy)(char **from, char **to);
    char *(*f_util_env_find)(char **env, const char *name);
    char *(*f_util_hostname)(void);
    int (*f_util_chdir2path)(char *path);
    int (*f_util_is_mozilla)(char *user_agent, char *major, char *minor);
    int (*f_util_is_url)(const char *url);
    int (*f_util_later_than)(const struct tm *modified, const char *since);
    int (*f_util_time_equal)(const struct tm *modified, const char *since);
    int (*f_util_str_time_equal)(const char *one, const char *other);
    int (*f_util_uri_is_evil)(const char *uri);
    void (*f_util_uri_parse)(char *uri);
    void (*f_util_uri_unescape)(char *str);
    char *(*f_util_uri_escape)(char *to, const char *from);
    char *(*f_util_url_escape)(char *to, const char *from);
    char *(*f_util_sh_escape)(char *str);
    int (*f_util_mime_separator)(char *separator);
    int (*f_util_itoa)(int number, char *str);
    int (*f_util_vsprintf)(char *str, const char *format, va_list arguments);
    int (*f_util_sprintf)(char *str, const char *format, ...);
    int (*f_util_vsnprintf)(char *str, int size, const char *format, va_list arguments);
    int (*f_util_snprintf)(char *str, int size, const char *format, ...);
    int (*f_util_strftime)(char *str, const char *format, const struct tm *time);
    char *(*f_util_strtok)(char *str, const char *separators, char **rest);
    struct tm *(*f_util_localtime)(const time_t *clock, struct tm *result);
    char *(*f_util_ctime)(const time_t *clock, char *buf, int size);
    char *(*f_util_strerror)(int number, char *buf, int size);
    struct tm *(*f_util_gmtime)(const time_t *clock, struct tm *result);
    char *(*f_util_asctime)(const struct tm *time, char *buf, int size);
    int (*f_util_strcasecmp)(void);
    int (*f_util_strncasecmp)(void);
    int (*f_util_can_exec)(struct stat *finfo, uid_t user, gid_t group);
    struct passwd *(*f_util_getpwnam)(const char *name, struct passwd *result, char *buf, int size);
    pid_t (*f_util_waitpid)(pid_t pid, int *status, int options);
    void (*f_util_delete_directory)(void);
    void *(*f_conf_init)(void);
    void *(*f_conf_run_init_functions)(void);
    void (*f_conf_terminate)(void);
    conf_global_vars_s *(*f_conf_getglobals)(void);
    void (*f_func_init)(struct FuncStruct *functions);
    FuncPtr (*f_func_find)(char *name);
    int (*f_func_exec)(pblock *pb, Session *sn, Request *rq);
    struct FuncStruct *(*f_func_insert)(char *name, FuncPtr function);
    int (*f_object_execute)(directive *instance, Session *sn, Request *rq);
    void *(*f_http_find_request)(void);
    int (*f_http_parse_request)(char *line, Request *rq, Session *sn);
    int (*f_http_scan_headers)(void);
    int (*f_http_start_response)(Session *sn, Request *rq);
    char **(*f_http_hdrs2env)(pblock *headers);
    void (*f_http_status)(Session *sn, Request *rq, int status, const char *reason);
    int (*f_http_set_finfo)(Session *sn, Request *rq, struct stat *finfo);
    char *(*f_http_dump822)(pblock *pb, char *str, int *position, int size);
    void (*f_http_finish_request)(Session *sn, Request *rq);
    void (*f_http_handle_session)(void);
    char *(*f_http_uri2url)(const char *prefix, const char *suffix);
    char *(*f_http_uri2url_dynamic)(const char *prefix, const char *suffix, Session *sn, Request *rq);
    void (*f_http_set_keepalive_timeout)(int seconds);
    int (*f_log_error_v)(int degree, const char *function, Session *sn, Request *rq, const char *format,
        va_list arguments);
    int (*f_log_error)(int degree, const char *function, Session *sn, Request *rq, const char *format, ...);
    int (*f_log_ereport_v)(int degree, const char *format, va_list arguments);
    int (*f_log_ereport)(int degree, const char *format, ...);
    httpd_object *(*f_object_create)(int directive_count, pblock *name);
    void (*f_object_free)(httpd_object *object);
    void (*f_object_add_directive)(int directive_class, pblock *parameters, pblock *client,
        httpd_object *object);
    httpd_objset *(*f_objset_scan_buffer)(filebuffer *buf, char *error, httpd_objset *os);
    httpd_objset *(*f_objset_create)(void);
    void (*f_objset_free)(httpd_objset *os);
    void (*f_objset_free_setonly)(httpd_objset *os);
    httpd_object *(*f_objset_new_object)(pblock *name, httpd_objset *os);
    void (*f_objset_add_object)(httpd_object *object, httpd_objset *os);
    void (*f_objset_add_init)(pblock *init, httpd_objset *os);
    httpd_object *(*f_objset_findbyname)(const char *name, httpd_objset *ignore, httpd_objset *os);
    httpd_object *(*f_objset_findbyppath)(char *ppath, httpd_objset *ignore, httpd_objset *os);
    Request *(*f_request_create)(void);
    void (*f_request_free)(Request *rq);
    Request *(*f_request_restart_internal)(const char *uri, Request *rq);
    int (*f_request_header)(char *name, char **value, Session *sn, Request *rq);
    struct stat *(*f_request_stat_path)(const char *path, Request *rq);
    const char *(*f_conf_getServerString)(void);
    FuncPtr (*f_func_replace)(char *name, FuncPtr function);
    int (*f_net_socketpair)(SYS_NETFD *pair);
    SYS_NETFD (*f_net_dup2)(SYS_NETFD sd, int os_fd);
    int (*f_net_is_STDOUT)(SYS_NETFD sd);
    int (*f_net_is_STDIN)(SYS_NETFD sd);
    int (*f_func_set_native_thread_flag)(char *name, int flags);
    void *(*f_random_create)(void);
    void (*f_random_update)(void *context, unsigned char *input, int length);
    void (*f_random_generate)(void *context, unsigned char *output, int length);
    void (*f_random_destroy)(void *context);
    void *(*f_md5hash_create)(void);
    void *(*f_md5hash_copy)(void *context);
    void (*f_md5hash_begin)(void *context);
    void (*f_md5hash_update)(void *context, unsigned char *input, int length);
    void (*f_md5hash_end)(void *context, unsigned char *output);
    void (*f_md5hash_destroy)(void *context);
    void (*f_md5hash_data)(unsigned char *output, unsigned char *input, int length);
    int (*f_ACL_SetupEval)(struct ACLListHandle *acllist, Session *sn, Request *rq, char **rights,
        char **generic, const char *user);
    int (*f_netbuf_getbytes)(netbuf *buf, char *to, int size);
    char *(*f_servact_translate_uri)(char *uri, Session *sn);
    int (*f_rsa_set_priv_fn)(void *function);
    int (*f_net_native_handle)(SYS_NETFD sd);
    int (*f_internal_request)(Request *rq);
    char *(*f_util_cookie_find)(char *cookie, const char *name);
    char *(*f_util_cookie_next)(char *cookie, char **name, char **value);
    char *(*f_util_cookie_next_av_pair)(char *cookie, char **name, char **value);
    int (*f_objset_get_number_objects)(const httpd_objset *os);
    const httpd_object *(*f_objset_get_object)(const httpd_objset *os, int position);
    const pblock *const *(*f_objset_get_initfns)(const httpd_objset *os);
    const pblock *(*f_object_get_name)(const httpd_object *object);
    int (*f_object_get_num_directives)(const httpd_object *object);
    const dtable *(*f_object_get_directive_table)(const httpd_object *object, int directive_class);
    int (*f_directive_table_get_num_directives)(const dtable *table);
    const directive *(*f_directive_table_get_directive)(const dtable *table, int position);
    const pblock *(*f_directive_get_pblock)(const directive *instance);
    const FuncStruct *(*f_directive_get_funcstruct)(const directive *instance);
    const pblock *(*f_directive_get_client_pblock)(const directive *instance);
#if NSAPI_VERSION >= 301
    int (*f_vs_register_cb)(VSInitFunc *init, VSDestroyFunc *destroy);
    const char *(*f_vs_get_id)(const VirtualServer *vs);
    const char *(*f_vs_lookup_config_var)(const VirtualServer *vs, const char *name);
    int (*f_vs_alloc_slot)(void);
    void *(*f_vs_set_data)(const VirtualServer *vs, int *slot, void *data);
    void *(*f_vs_get_data)(const VirtualServer *vs, int slot);
    const VirtualServer *(*f_request_get_vs)(Request *rq);
    httpd_objset *(*f_vs_get_httpd_objset)(VirtualServer *vs);
    httpd_object *(*f_vs_get_default_httpd_object)(VirtualServer *vs);
    char *(*f_vs_get_doc_root)(const VirtualServer *vs);
    char *(*f_vs_translate_uri)(const VirtualServer *vs, const char *uri);
    char *(*f_vs_get_mime_type)(const VirtualServer *vs, const char *uri);
    int (*f_vs_is_default_vs)(const VirtualServer *vs);
    void *(*f_vs_get_acllist)(const VirtualServer *vs);
    void (*f_vs_set_acllist)(VirtualServer *vs, void *acllist);
    int (*f_file_is_path_abs)(const char *path);
    char *(*f_file_canonicalize_path)(const char *path);
    int (*f_file_are_files_distinct)(SYS_FILE one, SYS_FILE other);
    int (*f_vs_directive_register_cb)(FuncPtr function, VSDirectiveInitFunc *init,
        VSDirectiveDestroyFunc *destroy);
    char *(*f_vs_substitute_vars)(const VirtualServer *vs, const char *str);
    const char *(*f_conf_getfilename)(void);
    const char *(*f_conf_getstring)(const char *name, const char *otherwise);
    int (*f_conf_getboolean)(const char *name, int otherwise);
    int (*f_conf_getinteger)(const char *name, int otherwise);
    int (*f_conf_getboundedinteger)(const char *name, int least, int most, int otherwise);
    void (*f_prepare_nsapi_thread)(Request *rq, Session *sn);
#endif
};

#if NSAPI_VERSION >= 302
typedef struct nsapi302_dispatch_s nsapi302_dispatch_t;
struct nsapi302_dispatch_s {
    int (*f_net_flush)(SYS_NETFD sd);
    int (*f_net_sendfile)(SYS_NETFD sd, sendfiledata *data);
    const Filter *(*f_filter_create)(const char *name, int order, const FilterMethods *methods);
    const char *(*f_filter_name)(const Filter *filter);
    const Filter *(*f_filter_find)(const char *name);
    FilterLayer *(*f_filter_layer)(SYS_NETFD sd, const Filter *filter);
    int (*f_filter_insert)(SYS_NETFD sd, pblock *pb, Session *sn, Request *rq, void *data,
        const Filter *filter);
    int (*f_filter_remove)(SYS_NETFD sd, const Filter *filter);
    SYS_NETFD (*f_filter_create_stack)(Session *sn);
};
#endif

#if NSAPI_VERSION >= 303
typedef struct nsapi303_dispatch_s nsapi303_dispatch_t;
struct nsapi303_dispatch_s {
    int (*f_dns_set_hostent)(struct hostent *entry, Session *sn, Request *rq);
};
#endif

/* All that a plug-in needs of the server. */
extern nsapi_dispatch_t *__nsapi30_table;
#if NSAPI_VERSION >= 302
extern nsapi302_dispatch_t *__nsapi302_table;
#endif
#if NSAPI_VERSION >= 303
extern nsapi303_dispatch_t *__nsapi303_table;
#endif

/* The version of the server that the plug-in runs in. */
#if NSAPI_VERSION >= 301
#define __NSAPI_RUNTIME_VERSION ((*__nsapi30_table->f_http_parse_request)((char *)"", NULL, NULL))
#define NSAPI_RUNTIME_VERSION (__NSAPI_RUNTIME_VERSION > 0 ? __NSAPI_RUNTIME_VERSION : 301)
#endif

/* ---- The names ----------------------------------------------------------------------------------------- */

/* The server itself defines functions of these names, and leaves the macros out. */
#ifndef INTNSAPI

/* Memory that lasts until the end of the request; memory requested in Init is never freed. */
#define MALLOC (*__nsapi30_table->f_system_malloc)
#define CALLOC (*__nsapi30_table->f_system_calloc)
#define REALLOC (*__nsapi30_table->f_system_realloc)
#define FREE (*__nsapi30_table->f_system_free)
#define STRDUP (*__nsapi30_table->f_system_strdup)

/* Memory that lasts until it is freed. */
#define PERM_MALLOC (*__nsapi30_table->f_system_malloc_perm)
#define PERM_CALLOC (*__nsapi30_table->f_system_calloc_perm)
#define PERM_REALLOC (*__nsapi30_table->f_system_realloc_perm)
#define PERM_FREE (*__nsapi30_table->f_system_free_perm)
#define PERM_STRDUP (*__nsapi30_table->f_system_strdup_perm)

#define system_version (*__nsapi30_table->f_system_version)
#define system_malloc (*__nsapi30_table->f_system_malloc)
#define system_calloc (*__nsapi30_table->f_system_calloc)
#define system_realloc (*__nsapi30_table->f_system_realloc)
#define system_free (*__nsapi30_table->f_system_free)
#define system_strdup (*__nsapi30_table->f_system_strdup)
#define system_malloc_perm (*__nsapi30_table->f_system_malloc_perm)
#define system_calloc_perm (*__nsapi30_table->f_system_calloc_perm)
#define system_realloc_perm (*__nsapi30_table->f_system_realloc_perm)
#define system_free_perm (*__nsapi30_table->f_system_free_perm)
#define system_strdup_perm (*__nsapi30_table->f_system_strdup_perm)
#define getThreadMallocKey (*__nsapi30_table->f_getThreadMallocKey)
#define magnus_atrestart (*__nsapi30_table->f_magnus_atrestart)
#define filebuf_open (*__nsapi30_table->f_filebuf_open)
#define netbuf_open (*__nsapi30_table->f_netbuf_open)
#define filebuf_create (*__nsapi30_table->f_filebuf_create)
#define filebuf_close_buffer (*__nsapi30_table->f_filebuf_close_buffer)
#define filebuf_open_nostat (*__nsapi30_table->f_filebuf_open_nostat)
#define filebuf_next (*__nsapi30_table->f_filebuf_next)
#define netbuf_next (*__nsapi30_table->f_netbuf_next)
#define filebuf_close (*__nsapi30_table->f_filebuf_close)
#define netbuf_close (*__nsapi30_table->f_netbuf_close)
#define filebuf_grab (*__nsapi30_table->f_filebuf_grab)
#define netbuf_grab (*__nsapi30_table->f_netbuf_grab)
#define netbuf_buf2sd (*__nsapi30_table->f_netbuf_buf2sd)
#define filebuf_buf2sd (*__nsapi30_table->f_filebuf_buf2sd)
#define cinfo_init (*__nsapi30_table->f_cinfo_init)
#define cinfo_terminate (*__nsapi30_table->f_cinfo_terminate)
#define cinfo_merge (*__nsapi30_table->f_cinfo_merge)
#define cinfo_find (*__nsapi30_table->f_cinfo_find)
#define cinfo_lookup (*__nsapi30_table->f_cinfo_lookup)
#define cinfo_dump_database (*__nsapi30_table->f_cinfo_dump_database)
#define crit_init (*__nsapi30_table->f_crit_init)
#define crit_enter (*__nsapi30_table->f_crit_enter)
#define crit_exit (*__nsapi30_table->f_crit_exit)
#define crit_terminate (*__nsapi30_table->f_crit_terminate)
#define condvar_init (*__nsapi30_table->f_condvar_init)
#define condvar_wait (*__nsapi30_table->f_condvar_wait)
#define condvar_notify (*__nsapi30_table->f_condvar_notify)
#define condvar_notifyAll (*__nsapi30_table->f_condvar_notifyAll)
#define condvar_terminate (*__nsapi30_table->f_condvar_terminate)
#define cs_init (*__nsapi30_table->f_cs_init)
#define cs_terminate (*__nsapi30_table->f_cs_terminate)
#define cs_wait (*__nsapi30_table->f_cs_wait)
#define cs_trywait (*__nsapi30_table->f_cs_trywait)
#define cs_release (*__nsapi30_table->f_cs_release)
#define daemon_atrestart (*__nsapi30_table->f_daemon_atrestart)
#define servssl_init (*__nsapi30_table->f_servssl_init)
#define ereport (*__nsapi30_table->f_ereport)
#define ereport_v (*__nsapi30_table->f_ereport_v)
#define ereport_init (*__nsapi30_table->f_ereport_init)
#define ereport_terminate (*__nsapi30_table->f_ereport_terminate)
#define ereport_getfd (*__nsapi30_table->f_ereport_getfd)
#define system_fopenRO (*__nsapi30_table->f_system_fopenRO)
#define system_fopenWA (*__nsapi30_table->f_system_fopenWA)
#define system_fopenRW (*__nsapi30_table->f_system_fopenRW)
#define system_fopenWT (*__nsapi30_table->f_system_fopenWT)
#define system_fread (*__nsapi30_table->f_system_fread)
#define system_fwrite (*__nsapi30_table->f_system_fwrite)
#define system_fwrite_atomic (*__nsapi30_table->f_system_fwrite_atomic)
#define system_lseek (*__nsapi30_table->f_system_lseek)
#define system_fclose (*__nsapi30_table->f_system_fclose)
#define system_stat (*__nsapi30_table->f_system_stat)
#define system_rename (*__nsapi30_table->f_system_rename)
#define system_unlink (*__nsapi30_table->f_system_unlink)
#define system_tlock (*__nsapi30_table->f_system_tlock)
#define system_flock (*__nsapi30_table->f_system_flock)
#define system_ulock (*__nsapi30_table->f_system_ulock)
#define dir_create_all (*__nsapi30_table->f_dir_create_all)
#define system_nocoredumps (*__nsapi30_table->f_system_nocoredumps)
#define file_setinherit (*__nsapi30_table->f_file_setinherit)
#define file_notfound (*__nsapi30_table->f_file_notfound)
#define system_errmsg (*__nsapi30_table->f_system_errmsg)
#define system_errmsg_fn (*__nsapi30_table->f_system_errmsg_fn)
#define net_socket (*__nsapi30_table->f_net_socket)
#define net_listen (*__nsapi30_table->f_net_listen)
#define net_create_listener (*__nsapi30_table->f_net_create_listener)
#define net_connect (*__nsapi30_table->f_net_connect)
#define net_getpeername (*__nsapi30_table->f_net_getpeername)
#define net_close (*__nsapi30_table->f_net_close)
#define net_bind (*__nsapi30_table->f_net_bind)
#define net_accept (*__nsapi30_table->f_net_accept)
#define net_read (*__nsapi30_table->f_net_read)
#define net_write (*__nsapi30_table->f_net_write)
#define net_writev (*__nsapi30_table->f_net_writev)
#define net_isalive (*__nsapi30_table->f_net_isalive)
#define net_ip2host (*__nsapi30_table->f_net_ip2host)
#define net_getsockopt (*__nsapi30_table->f_net_getsockopt)
#define net_setsockopt (*__nsapi30_table->f_net_setsockopt)
#define net_select (*__nsapi30_table->f_net_select)
#define net_ioctl (*__nsapi30_table->f_net_ioctl)
#define param_create (*__nsapi30_table->f_param_create)
#define param_free (*__nsapi30_table->f_param_free)
#define pblock_create (*__nsapi30_table->f_pblock_create)
#define pblock_free (*__nsapi30_table->f_pblock_free)
#define pblock_findval (*__nsapi30_table->f_pblock_findval)
#define pblock_nvinsert (*__nsapi30_table->f_pblock_nvinsert)
#define pblock_nninsert (*__nsapi30_table->f_pblock_nninsert)
#define pblock_pinsert (*__nsapi30_table->f_pblock_pinsert)
#define pblock_str2pblock (*__nsapi30_table->f_pblock_str2pblock)
#define pblock_pblock2str (*__nsapi30_table->f_pblock_pblock2str)
#define pblock_copy (*__nsapi30_table->f_pblock_copy)
#define pblock_dup (*__nsapi30_table->f_pblock_dup)
#define pblock_pb2env (*__nsapi30_table->f_pblock_pb2env)
#define pblock_fr (*__nsapi30_table->f_pblock_fr)
#define pblock_replace (*__nsapi30_table->f_pblock_replace)
#define pool_create (*__nsapi30_table->f_pool_create)
#define pool_destroy (*__nsapi30_table->f_pool_destroy)
#define pool_enabled (*__nsapi30_table->f_pool_enabled)
#define pool_malloc (*__nsapi30_table->f_pool_malloc)
#define pool_free (*__nsapi30_table->f_pool_free)
#define pool_calloc (*__nsapi30_table->f_pool_calloc)
#define pool_realloc (*__nsapi30_table->f_pool_realloc)
#define pool_strdup (*__nsapi30_table->f_pool_strdup)
#define regexp_valid (*__nsapi30_table->f_regexp_valid)
#define regexp_match (*__nsapi30_table->f_regexp_match)
#define regexp_cmp (*__nsapi30_table->f_regexp_cmp)
#define regexp_casecmp (*__nsapi30_table->f_regexp_casecmp)
#define sem_init (*__nsapi30_table->f_sem_init)
#define sem_terminate (*__nsapi30_table->f_sem_terminate)
#define sem_grab (*__nsapi30_table->f_sem_grab)
#define sem_tgrab (*__nsapi30_table->f_sem_tgrab)
#define sem_release (*__nsapi30_table->f_sem_release)
#define session_create (*__nsapi30_table->f_session_create)
#define session_free (*__nsapi30_table->f_session_free)
#define session_dns_lookup (*__nsapi30_table->f_session_dns_lookup)
#define shexp_valid (*__nsapi30_table->f_shexp_valid)
#define shexp_match (*__nsapi30_table->f_shexp_match)
#define shexp_cmp (*__nsapi30_table->f_shexp_cmp)
#define shexp_casecmp (*__nsapi30_table->f_shexp_casecmp)
#define shmem_alloc (*__nsapi30_table->f_shmem_alloc)
#define shmem_free (*__nsapi30_table->f_shmem_free)
#define systhread_start (*__nsapi30_table->f_systhread_start)
#define systhread_current (*__nsapi30_table->f_systhread_current)
#define systhread_yield (*__nsapi30_table->f_systhread_yield)
#define systhread_attach (*__nsapi30_table->f_systhread_attach)
#define systhread_detach (*__nsapi30_table->f_systhread_detach)
#define systhread_terminate (*__nsapi30_table->f_systhread_terminate)
#define systhread_sleep (*__nsapi30_table->f_systhread_sleep)
#define systhread_init (*__nsapi30_table->f_systhread_init)
#define systhread_timerset (*__nsapi30_table->f_systhread_timerset)
#define systhread_newkey (*__nsapi30_table->f_systhread_newkey)
#define systhread_getdata (*__nsapi30_table->f_systhread_getdata)
#define systhread_setdata (*__nsapi30_table->f_systhread_setdata)
#define systhread_set_default_stacksize (*__nsapi30_table->f_systhread_set_default_stacksize)
#define util_getline (*__nsapi30_table->f_util_getline)
#define util_env_create (*__nsapi30_table->f_util_env_create)
#define util_env_str (*__nsapi30_table->f_util_env_str)
#define util_env_replace (*__nsapi30_table->f_util_env_replace)
#define util_env_free (*__nsapi30_table->f_util_env_free)
#define util_env_copy (*__nsapi30_table->f_util_env_copy)
#define util_env_find (*__nsapi30_table->f_util_env_find)
#define util_hostname (*__nsapi30_table->f_util_hostname)
#define util_chdir2path (*__nsapi30_table->f_util_chdir2path)
#define util_is_mozilla (*__nsapi30_table->f_util_is_mozilla)
#define util_is_url (*__nsapi30_table->f_util_is_url)
#define util_later_than (*__nsapi30_table->f_util_later_than)
#define util_time_equal (*__nsapi30_table->f_util_time_equal)
#define util_str_time_equal (*__nsapi30_table->f_util_str_time_equal)
#define util_uri_is_evil (*__nsapi30_table->f_util_uri_is_evil)
#define util_uri_parse (*__nsapi30_table->f_util_uri_parse)
#define util_uri_unescape (*__nsapi30_table->f_util_uri_unescape)
#define util_uri_escape (*__nsapi30_table->f_util_uri_escape)
#define util_url_escape (*__nsapi30_table->f_util_url_escape)
#define util_sh_escape (*__nsapi30_table->f_util_sh_escape)
#define util_mime_separator (*__nsapi30_table->f_util_mime_separator)
#define util_itoa (*__nsapi30_table->f_util_itoa)
#define util_vsprintf (*__nsapi30_table->f_util_vsprintf)
#define util_sprintf (*__nsapi30_table->f_util_sprintf)
#define util_vsnprintf (*__nsapi30_table->f_util_vsnprintf)
#define util_snprintf (*__nsapi30_table->f_util_snprintf)
#define util_strftime (*__nsapi30_table->f_util_strftime)
#define util_strtok (*__nsapi30_table->f_util_strtok)
#define util_localtime (*__nsapi30_table->f_util_localtime)
#define util_ctime (*__nsapi30_table->f_util_ctime)
#define util_strerror (*__nsapi30_table->f_util_strerror)
#define util_gmtime (*__nsapi30_table->f_util_gmtime)
#define util_asctime (*__nsapi30_table->f_util_asctime)
#define util_can_exec (*__nsapi30_table->f_util_can_exec)
#define util_getpwnam (*__nsapi30_table->f_util_getpwnam)
#define util_waitpid (*__nsapi30_table->f_util_waitpid)
#define conf_getglobals (*__nsapi30_table->f_conf_getglobals)
#define func_init (*__nsapi30_table->f_func_init)
#define func_find (*__nsapi30_table->f_func_find)
#define func_exec (*__nsapi30_table->f_func_exec)
#define func_insert (*__nsapi30_table->f_func_insert)
#define object_execute (*__nsapi30_table->f_object_execute)
#define http_parse_request (*__nsapi30_table->f_http_parse_request)
#define http_start_response (*__nsapi30_table->f_http_start_response)
#define http_hdrs2env (*__nsapi30_table->f_http_hdrs2env)
#define http_status (*__nsapi30_table->f_http_status)
#define http_set_finfo (*__nsapi30_table->f_http_set_finfo)
#define http_dump822 (*__nsapi30_table->f_http_dump822)
#define http_finish_request (*__nsapi30_table->f_http_finish_request)
#define http_uri2url (*__nsapi30_table->f_http_uri2url)
#define http_uri2url_dynamic (*__nsapi30_table->f_http_uri2url_dynamic)
#define http_set_keepalive_timeout (*__nsapi30_table->f_http_set_keepalive_timeout)
#define log_error_v (*__nsapi30_table->f_log_error_v)
#define log_error (*__nsapi30_table->f_log_error)
#define log_ereport_v (*__nsapi30_table->f_log_ereport_v)
#define log_ereport (*__nsapi30_table->f_log_ereport)
#define object_create (*__nsapi30_table->f_object_create)
#define object_free (*__nsapi30_table->f_object_free)
#define object_add_directive (*__nsapi30_table->f_object_add_directive)
#define objset_scan_buffer (*__nsapi30_table->f_objset_scan_buffer)
#define objset_create (*__nsapi30_table->f_objset_create)
#define objset_free (*__nsapi30_table->f_objset_free)
#define objset_free_setonly (*__nsapi30_table->f_objset_free_setonly)
#define objset_new_object (*__nsapi30_table->f_objset_new_object)
#define objset_add_object (*__nsapi30_table->f_objset_add_object)
#define objset_add_init (*__nsapi30_table->f_objset_add_init)
#define objset_findbyname (*__nsapi30_table->f_objset_findbyname)
#define objset_findbyppath (*__nsapi30_table->f_objset_findbyppath)
#define request_create (*__nsapi30_table->f_request_create)
#define request_free (*__nsapi30_table->f_request_free)
#define request_restart_internal (*__nsapi30_table->f_request_restart_internal)
#define request_header (*__nsapi30_table->f_request_header)
#define request_stat_path (*__nsapi30_table->f_request_stat_path)
#define conf_getServerString (*__nsapi30_table->f_conf_getServerString)
#define func_replace (*__nsapi30_table->f_func_replace)
#define net_socketpair (*__nsapi30_table->f_net_socketpair)
#define net_dup2 (*__nsapi30_table->f_net_dup2)
#define net_is_STDOUT (*__nsapi30_table->f_net_is_STDOUT)
#define net_is_STDIN (*__nsapi30_table->f_net_is_STDIN)
#define func_set_native_thread_flag (*__nsapi30_table->f_func_set_native_thread_flag)
#define random_create (*__nsapi30_table->f_random_create)
#define random_update (*__nsapi30_table->f_random_update)
#define random_generate (*__nsapi30_table->f_random_generate)
#define random_destroy (*__nsapi30_table->f_random_destroy)
#define md5hash_create (*__nsapi30_table->f_md5hash_create)
#define md5hash_copy (*__nsapi30_table->f_md5hash_copy)
#define md5hash_begin (*__nsapi30_table->f_md5hash_begin)
#define md5hash_update (*__nsapi30_table->f_md5hash_update)
#define md5hash_end (*__nsapi30_table->f_md5hash_end)
#define md5hash_destroy (*__nsapi30_table->f_md5hash_destroy)
#define md5hash_data (*__nsapi30_table->f_md5hash_data)
#define ACL_SetupEval (*__nsapi30_table->f_ACL_SetupEval)
#define netbuf_getbytes (*__nsapi30_table->f_netbuf_getbytes)
#define servact_translate_uri (*__nsapi30_table->f_servact_translate_uri)
#define rsa_set_priv_fn (*__nsapi30_table->f_rsa_set_priv_fn)
#define net_native_handle (*__nsapi30_table->f_net_native_handle)
#define util_cookie_find (*__nsapi30_table->f_util_cookie_find)
#define util_cookie_next (*__nsapi30_table->f_util_cookie_next)
#define util_cookie_next_av_pair (*__nsapi30_table->f_util_cookie_next_av_pair)
#define objset_get_number_objects (*__nsapi30_table->f_objset_get_number_objects)
#define objset_get_object (*__nsapi30_table->f_objset_get_object)
#define objset_get_initfns (*__nsapi30_table->f_objset_get_initfns)
#define object_get_name (*__nsapi30_table->f_object_get_name)
#define object_get_num_directives (*__nsapi30_table->f_object_get_num_directives)
#define object_get_directive_table (*__nsapi30_table->f_object_get_directive_table)
#define directive_table_get_num_directives (*__nsapi30_table->f_directive_table_get_num_directives)
#define directive_table_get_directive (*__nsapi30_table->f_directive_table_get_directive)
#define directive_get_pblock (*__nsapi30_table->f_directive_get_pblock)
#define directive_get_funcstruct (*__nsapi30_table->f_directive_get_funcstruct)
#define directive_get_client_pblock (*__nsapi30_table->f_directive_get_client_pblock)
#define vs_register_cb (*__nsapi30_table->f_vs_register_cb)
#define vs_get_id (*__nsapi30_table->f_vs_get_id)
#define vs_lookup_config_var (*__nsapi30_table->f_vs_lookup_config_var)
#define vs_alloc_slot (*__nsapi30_table->f_vs_alloc_slot)
#define vs_set_data (*__nsapi30_table->f_vs_set_data)
#define vs_get_data (*__nsapi30_table->f_vs_get_data)
#define request_get_vs (*__nsapi30_table->f_request_get_vs)
#define vs_get_httpd_objset (*__nsapi30_table->f_vs_get_httpd_objset)
#define vs_get_default_httpd_object (*__nsapi30_table->f_vs_get_default_httpd_object)
#define vs_get_doc_root (*__nsapi30_table->f_vs_get_doc_root)
#define vs_translate_uri (*__nsapi30_table->f_vs_translate_uri)
#define vs_get_mime_type (*__nsapi30_table->f_vs_get_mime_type)
#define vs_is_default_vs (*__nsapi30_table->f_vs_is_default_vs)
#define vs_get_acllist (*__nsapi30_table->f_vs_get_acllist)
#define file_is_path_abs (*__nsapi30_table->f_file_is_path_abs)
#define file_canonicalize_path (*__nsapi30_table->f_file_canonicalize_path)
#define file_are_files_distinct (*__nsapi30_table->f_file_are_files_distinct)
#define vs_directive_register_cb (*__nsapi30_table->f_vs_directive_register_cb)
#define vs_substitute_vars (*__nsapi30_table->f_vs_substitute_vars)
#define conf_getfilename (*__nsapi30_table->f_conf_getfilename)
#define conf_getstring (*__nsapi30_table->f_conf_getstring)
#define conf_getboolean (*__nsapi30_table->f_conf_getboolean)
#define conf_getinteger (*__nsapi30_table->f_conf_getinteger)
#define conf_getboundedinteger (*__nsapi30_table->f_conf_getboundedinteger)
#define prepare_nsapi_thread (*__nsapi30_table->f_prepare_nsapi_thread)

#if NSAPI_VERSION >= 302
#define net_flush (*__nsapi302_table->f_net_flush)
#define net_sendfile (*__nsapi302_table->f_net_sendfile)
#define filter_create (*__nsapi302_table->f_filter_create)
#define filter_name (*__nsapi302_table->f_filter_name)
#define filter_find (*__nsapi302_table->f_filter_find)
#define filter_layer (*__nsapi302_table->f_filter_layer)
#define filter_insert (*__nsapi302_table->f_filter_insert)
#define filter_remove (*__nsapi302_table->f_filter_remove)
#define filter_create_stack (*__nsapi302_table->f_filter_create_stack)
#endif

#if NSAPI_VERSION >= 303
#define dns_set_hostent (*__nsapi303_table->f_dns_set_hostent)
#endif

#define request_is_internal (*__nsapi30_table->f_internal_request)
#define request_translate_uri servact_translate_uri
#define protocol_start_response http_start_response
#define protocol_status http_status
#define protocol_set_finfo http_set_finfo
#define protocol_finish_request http_finish_request
#define protocol_uri2url http_uri2url
#define protocol_uri2url_dynamic http_uri2url_dynamic
#define pblock_find(name, pb) (pblock_fr((name), (pb), 0))
#define pblock_remove(name, pb) (pblock_fr((name), (pb), 1))
#define session_dns(sn) session_dns_lookup((sn), 0)
#define session_maxdns(sn) session_dns_lookup((sn), 1)
#define system_localtime(clock, result) util_localtime((clock), (result))
#define system_gmtime(clock, result) util_gmtime((clock), (result))

#endif /* !INTNSAPI */

/* Functions that libc already has. */
#define dir_open opendir
#define dir_read readdir
#define dir_close closedir
#define dir_create(path) mkdir(path, 0755)
#define dir_remove rmdir
#define system_chdir chdir
#define file_unix2local(path, local) strcpy(local, path)
#define util_strcasecmp strcasecmp
#define util_strncasecmp strncasecmp

#ifdef __cplusplus
}
#endif

#endif
