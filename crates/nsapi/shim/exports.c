/*
 * The symbols of the server for plug-ins: the three tables, and the functions under their plain names, for
 * plug-ins that were not compiled with the macros of nsapi.h. sem_init is left out: the name belongs to
 * POSIX. build.rs reads the names after EXPORT from this file.
 */
#define INTNSAPI
#include "nsapi.h"

#define EXPORT(type, name, parameters) type name parameters
#define FORWARD(type, name, parameters, arguments) \
    type name parameters { return __nsapi30_table->f_##name arguments; }

/* src/slots.rs */
extern const void *const touchstone_nsapi30_slots[];
extern const void *const touchstone_nsapi302_slots[];
extern const void *const touchstone_nsapi303_slots[];

nsapi_dispatch_t *__nsapi30_table = (nsapi_dispatch_t *)touchstone_nsapi30_slots;
nsapi302_dispatch_t *__nsapi302_table = (nsapi302_dispatch_t *)touchstone_nsapi302_slots;
nsapi303_dispatch_t *__nsapi303_table = (nsapi303_dispatch_t *)touchstone_nsapi303_slots;

EXPORT(char *, system_version, (void))
{
    return __nsapi30_table->f_system_version();
}

EXPORT(void *, system_malloc, (int size))
{
    return __nsapi30_table->f_system_malloc(size);
}

EXPORT(void *, system_calloc, (int size))
{
    return __nsapi30_table->f_system_calloc(size);
}

EXPORT(void *, system_realloc, (void *ptr, int size))
{
    return __nsapi30_table->f_system_realloc(ptr, size);
}

EXPORT(void, system_free, (void *ptr))
{
    __nsapi30_table->f_system_free(ptr);
}

EXPORT(char *, system_strdup, (const char *str))
{
    return __nsapi30_table->f_system_strdup(str);
}

EXPORT(void *, system_malloc_perm, (int size))
{
    return __nsapi30_table->f_system_malloc_perm(size);
}

EXPORT(void *, system_calloc_perm, (int size))
{
    return __nsapi30_table->f_system_calloc_perm(size);
}

EXPORT(void *, system_realloc_perm, (void *ptr, int size))
{
    return __nsapi30_table->f_system_realloc_perm(ptr, size);
}

EXPORT(void, system_free_perm, (void *ptr))
{
    __nsapi30_table->f_system_free_perm(ptr);
}

EXPORT(char *, system_strdup_perm, (const char *str))
{
    return __nsapi30_table->f_system_strdup_perm(str);
}

EXPORT(void, magnus_atrestart, (void (*fn)(void *), void *data))
{
    __nsapi30_table->f_magnus_atrestart(fn, data);
}

EXPORT(filebuf_t *, filebuf_open, (SYS_FILE fd, int size))
{
    return __nsapi30_table->f_filebuf_open(fd, size);
}

EXPORT(filebuf_t *, filebuf_open_nostat, (SYS_FILE fd, int size, struct stat *finfo))
{
    return __nsapi30_table->f_filebuf_open_nostat(fd, size, finfo);
}

EXPORT(void, filebuf_close, (filebuf_t *buf))
{
    __nsapi30_table->f_filebuf_close(buf);
}

EXPORT(int, filebuf_buf2sd, (filebuf_t *buf, SYS_NETFD sd))
{
    return __nsapi30_table->f_filebuf_buf2sd(buf, sd);
}

EXPORT(int, filebuf_grab, (filebuf_t *buf, int size))
{
    return __nsapi30_table->f_filebuf_grab(buf, size);
}

EXPORT(netbuf *, netbuf_open, (SYS_NETFD sd, int size))
{
    return __nsapi30_table->f_netbuf_open(sd, size);
}

EXPORT(int, netbuf_next, (netbuf *buf, int advance))
{
    return __nsapi30_table->f_netbuf_next(buf, advance);
}

EXPORT(void, netbuf_close, (netbuf *buf))
{
    __nsapi30_table->f_netbuf_close(buf);
}

EXPORT(int, netbuf_grab, (netbuf *buf, int size))
{
    return __nsapi30_table->f_netbuf_grab(buf, size);
}

EXPORT(int, netbuf_buf2sd, (netbuf *buf, SYS_NETFD sd, int length))
{
    return __nsapi30_table->f_netbuf_buf2sd(buf, sd, length);
}

EXPORT(int, netbuf_getbytes, (netbuf *buf, char *to, int size))
{
    return __nsapi30_table->f_netbuf_getbytes(buf, to, size);
}

EXPORT(cinfo *, cinfo_find, (char *uri))
{
    return __nsapi30_table->f_cinfo_find(uri);
}

EXPORT(cinfo *, cinfo_lookup, (char *type))
{
    return __nsapi30_table->f_cinfo_lookup(type);
}

EXPORT(CRITICAL, crit_init, (void))
{
    return __nsapi30_table->f_crit_init();
}

EXPORT(void, crit_enter, (CRITICAL id))
{
    __nsapi30_table->f_crit_enter(id);
}

EXPORT(void, crit_exit, (CRITICAL id))
{
    __nsapi30_table->f_crit_exit(id);
}

EXPORT(void, crit_terminate, (CRITICAL id))
{
    __nsapi30_table->f_crit_terminate(id);
}

EXPORT(CONDVAR, condvar_init, (CRITICAL id))
{
    return __nsapi30_table->f_condvar_init(id);
}

EXPORT(void, condvar_wait, (CONDVAR cv))
{
    __nsapi30_table->f_condvar_wait(cv);
}

EXPORT(void, condvar_notify, (CONDVAR cv))
{
    __nsapi30_table->f_condvar_notify(cv);
}

EXPORT(void, condvar_notifyAll, (CONDVAR cv))
{
    __nsapi30_table->f_condvar_notifyAll(cv);
}

EXPORT(void, condvar_terminate, (CONDVAR cv))
{
    __nsapi30_table->f_condvar_terminate(cv);
}

EXPORT(void, daemon_atrestart, (void (*fn)(void *), void *data))
{
    __nsapi30_table->f_daemon_atrestart(fn, data);
}

EXPORT(SYS_FILE, system_fopenRO, (const char *path))
{
    return __nsapi30_table->f_system_fopenRO(path);
}

EXPORT(SYS_FILE, system_fopenWA, (const char *path))
{
    return __nsapi30_table->f_system_fopenWA(path);
}

EXPORT(SYS_FILE, system_fopenRW, (const char *path))
{
    return __nsapi30_table->f_system_fopenRW(path);
}

EXPORT(SYS_FILE, system_fopenWT, (const char *path))
{
    return __nsapi30_table->f_system_fopenWT(path);
}

EXPORT(int, system_fread, (SYS_FILE fd, void *buf, int size))
{
    return __nsapi30_table->f_system_fread(fd, buf, size);
}

EXPORT(int, system_fwrite, (SYS_FILE fd, const void *buf, int size))
{
    return __nsapi30_table->f_system_fwrite(fd, buf, size);
}

EXPORT(int, system_fwrite_atomic, (SYS_FILE fd, const void *buf, int size))
{
    return __nsapi30_table->f_system_fwrite_atomic(fd, buf, size);
}

EXPORT(int, system_lseek, (SYS_FILE fd, int offset, int whence))
{
    return __nsapi30_table->f_system_lseek(fd, offset, whence);
}

EXPORT(int, system_fclose, (SYS_FILE fd))
{
    return __nsapi30_table->f_system_fclose(fd);
}

EXPORT(int, system_stat, (const char *path, struct stat *finfo))
{
    return __nsapi30_table->f_system_stat(path, finfo);
}

EXPORT(int, system_rename, (const char *from, const char *to))
{
    return __nsapi30_table->f_system_rename(from, to);
}

EXPORT(int, system_unlink, (const char *path))
{
    return __nsapi30_table->f_system_unlink(path);
}

EXPORT(int, system_tlock, (SYS_FILE fd))
{
    return __nsapi30_table->f_system_tlock(fd);
}

EXPORT(int, system_flock, (SYS_FILE fd))
{
    return __nsapi30_table->f_system_flock(fd);
}

EXPORT(int, system_ulock, (SYS_FILE fd))
{
    return __nsapi30_table->f_system_ulock(fd);
}

EXPORT(int, file_notfound, (void))
{
    return __nsapi30_table->f_file_notfound();
}

EXPORT(char *, system_errmsg, (void))
{
    return __nsapi30_table->f_system_errmsg();
}

EXPORT(int, system_errmsg_fn, (char **buf, size_t size))
{
    return __nsapi30_table->f_system_errmsg_fn(buf, size);
}

EXPORT(SYS_NETFD, net_socket, (int domain, int type, int protocol))
{
    return __nsapi30_table->f_net_socket(domain, type, protocol);
}

EXPORT(int, net_connect, (SYS_NETFD sd, const void *address, int length))
{
    return __nsapi30_table->f_net_connect(sd, address, length);
}

EXPORT(int, net_close, (SYS_NETFD sd))
{
    return __nsapi30_table->f_net_close(sd);
}

EXPORT(int, net_read, (SYS_NETFD sd, void *buf, int size, int timeout_seconds))
{
    return __nsapi30_table->f_net_read(sd, buf, size, timeout_seconds);
}

EXPORT(int, net_write, (SYS_NETFD sd, const void *buf, int size))
{
    return __nsapi30_table->f_net_write(sd, buf, size);
}

EXPORT(int, net_writev, (SYS_NETFD sd, const NSAPIIOVec *parts, int count))
{
    return __nsapi30_table->f_net_writev(sd, parts, count);
}

EXPORT(int, net_isalive, (SYS_NETFD sd))
{
    return __nsapi30_table->f_net_isalive(sd);
}

EXPORT(char *, net_ip2host, (const char *ip, int verify))
{
    return __nsapi30_table->f_net_ip2host(ip, verify);
}

EXPORT(pb_param *, param_create, (const char *name, const char *value))
{
    return __nsapi30_table->f_param_create(name, value);
}

EXPORT(int, param_free, (pb_param *pp))
{
    return __nsapi30_table->f_param_free(pp);
}

EXPORT(pblock *, pblock_create, (int size))
{
    return __nsapi30_table->f_pblock_create(size);
}

EXPORT(void, pblock_free, (pblock *pb))
{
    __nsapi30_table->f_pblock_free(pb);
}

EXPORT(char *, pblock_findval, (const char *name, const pblock *pb))
{
    return __nsapi30_table->f_pblock_findval(name, pb);
}

EXPORT(pb_param *, pblock_nvinsert, (const char *name, const char *value, pblock *pb))
{
    return __nsapi30_table->f_pblock_nvinsert(name, value, pb);
}

EXPORT(pb_param *, pblock_nninsert, (const char *name, int value, pblock *pb))
{
    return __nsapi30_table->f_pblock_nninsert(name, value, pb);
}

EXPORT(void, pblock_pinsert, (pb_param *pp, pblock *pb))
{
    __nsapi30_table->f_pblock_pinsert(pp, pb);
}

EXPORT(int, pblock_str2pblock, (const char *str, pblock *pb))
{
    return __nsapi30_table->f_pblock_str2pblock(str, pb);
}

EXPORT(char *, pblock_pblock2str, (const pblock *pb, char *str))
{
    return __nsapi30_table->f_pblock_pblock2str(pb, str);
}

EXPORT(int, pblock_copy, (const pblock *from, pblock *to))
{
    return __nsapi30_table->f_pblock_copy(from, to);
}

EXPORT(pblock *, pblock_dup, (const pblock *pb))
{
    return __nsapi30_table->f_pblock_dup(pb);
}

EXPORT(char **, pblock_pb2env, (const pblock *pb, char **env))
{
    return __nsapi30_table->f_pblock_pb2env(pb, env);
}

EXPORT(pb_param *, pblock_fr, (const char *name, pblock *pb, int remove))
{
    return __nsapi30_table->f_pblock_fr(name, pb, remove);
}

EXPORT(char *, pblock_replace, (const char *name, char *value, pblock *pb))
{
    return __nsapi30_table->f_pblock_replace(name, value, pb);
}

EXPORT(pool_handle_t *, pool_create, (void))
{
    return __nsapi30_table->f_pool_create();
}

EXPORT(void, pool_destroy, (pool_handle_t *pool))
{
    __nsapi30_table->f_pool_destroy(pool);
}

EXPORT(int, pool_enabled, (void))
{
    return __nsapi30_table->f_pool_enabled();
}

EXPORT(void *, pool_malloc, (pool_handle_t *pool, size_t size))
{
    return __nsapi30_table->f_pool_malloc(pool, size);
}

EXPORT(void, pool_free, (pool_handle_t *pool, void *ptr))
{
    __nsapi30_table->f_pool_free(pool, ptr);
}

EXPORT(void *, pool_calloc, (pool_handle_t *pool, size_t count, size_t size))
{
    return __nsapi30_table->f_pool_calloc(pool, count, size);
}

EXPORT(void *, pool_realloc, (pool_handle_t *pool, void *ptr, size_t size))
{
    return __nsapi30_table->f_pool_realloc(pool, ptr, size);
}

EXPORT(char *, pool_strdup, (pool_handle_t *pool, const char *str))
{
    return __nsapi30_table->f_pool_strdup(pool, str);
}

EXPORT(int, regexp_valid, (const char *expression))
{
    return __nsapi30_table->f_regexp_valid(expression);
}

EXPORT(int, regexp_match, (const char *str, const char *expression))
{
    return __nsapi30_table->f_regexp_match(str, expression);
}

EXPORT(int, regexp_cmp, (const char *str, const char *expression))
{
    return __nsapi30_table->f_regexp_cmp(str, expression);
}

EXPORT(int, regexp_casecmp, (const char *str, const char *expression))
{
    return __nsapi30_table->f_regexp_casecmp(str, expression);
}

EXPORT(char *, session_dns_lookup, (Session *sn, int verify))
{
    return __nsapi30_table->f_session_dns_lookup(sn, verify);
}

EXPORT(int, shexp_valid, (const char *expression))
{
    return __nsapi30_table->f_shexp_valid(expression);
}

EXPORT(int, shexp_match, (const char *str, const char *expression))
{
    return __nsapi30_table->f_shexp_match(str, expression);
}

EXPORT(int, shexp_cmp, (const char *str, const char *expression))
{
    return __nsapi30_table->f_shexp_cmp(str, expression);
}

EXPORT(int, shexp_casecmp, (const char *str, const char *expression))
{
    return __nsapi30_table->f_shexp_casecmp(str, expression);
}

EXPORT(SYS_THREAD, systhread_start, (int priority, int stack_size, void (*fn)(void *), void *argument))
{
    return __nsapi30_table->f_systhread_start(priority, stack_size, fn, argument);
}

EXPORT(SYS_THREAD, systhread_current, (void))
{
    return __nsapi30_table->f_systhread_current();
}

EXPORT(void, systhread_yield, (void))
{
    __nsapi30_table->f_systhread_yield();
}

EXPORT(SYS_THREAD, systhread_attach, (void))
{
    return __nsapi30_table->f_systhread_attach();
}

EXPORT(void, systhread_detach, (SYS_THREAD thread))
{
    __nsapi30_table->f_systhread_detach(thread);
}

EXPORT(void, systhread_sleep, (int milliseconds))
{
    __nsapi30_table->f_systhread_sleep(milliseconds);
}

EXPORT(int, systhread_newkey, (void))
{
    return __nsapi30_table->f_systhread_newkey();
}

EXPORT(void *, systhread_getdata, (int key))
{
    return __nsapi30_table->f_systhread_getdata(key);
}

EXPORT(void, systhread_setdata, (int key, void *data))
{
    __nsapi30_table->f_systhread_setdata(key, data);
}

EXPORT(int, util_getline, (filebuffer *buf, int line_number, int size, char *line))
{
    return __nsapi30_table->f_util_getline(buf, line_number, size, line);
}

EXPORT(char **, util_env_create, (char **env, int count, int *position))
{
    return __nsapi30_table->f_util_env_create(env, count, position);
}

EXPORT(char *, util_env_str, (const char *name, const char *value))
{
    return __nsapi30_table->f_util_env_str(name, value);
}

EXPORT(void, util_env_replace, (char **env, const char *name, const char *value))
{
    __nsapi30_table->f_util_env_replace(env, name, value);
}

EXPORT(void, util_env_free, (char **env))
{
    __nsapi30_table->f_util_env_free(env);
}

EXPORT(char **, util_env_copy, (char **from, char **to))
{
    return __nsapi30_table->f_util_env_copy(from, to);
}

EXPORT(char *, util_env_find, (char **env, const char *name))
{
    return __nsapi30_table->f_util_env_find(env, name);
}

EXPORT(char *, util_hostname, (void))
{
    return __nsapi30_table->f_util_hostname();
}

EXPORT(int, util_chdir2path, (char *path))
{
    return __nsapi30_table->f_util_chdir2path(path);
}

EXPORT(int, util_is_mozilla, (char *user_agent, char *major, char *minor))
{
    return __nsapi30_table->f_util_is_mozilla(user_agent, major, minor);
}

EXPORT(int, util_is_url, (const char *url))
{
    return __nsapi30_table->f_util_is_url(url);
}

EXPORT(int, util_later_than, (const struct tm *modified, const char *since))
{
    return __nsapi30_table->f_util_later_than(modified, since);
}

EXPORT(int, util_time_equal, (const struct tm *modified, const char *since))
{
    return __nsapi30_table->f_util_time_equal(modified, since);
}

EXPORT(int, util_str_time_equal, (const char *one, const char *other))
{
    return __nsapi30_table->f_util_str_time_equal(one, other);
}

EXPORT(int, util_uri_is_evil, (const char *uri))
{
    return __nsapi30_table->f_util_uri_is_evil(uri);
}

EXPORT(void, util_uri_parse, (char *uri))
{
    __nsapi30_table->f_util_uri_parse(uri);
}

EXPORT(void, util_uri_unescape, (char *str))
{
    __nsapi30_table->f_util_uri_unescape(str);
}

EXPORT(char *, util_uri_escape, (char *to, const char *from))
{
    return __nsapi30_table->f_util_uri_escape(to, from);
}

EXPORT(char *, util_url_escape, (char *to, const char *from))
{
    return __nsapi30_table->f_util_url_escape(to, from);
}

EXPORT(char *, util_sh_escape, (char *str))
{
    return __nsapi30_table->f_util_sh_escape(str);
}

EXPORT(int, util_mime_separator, (char *separator))
{
    return __nsapi30_table->f_util_mime_separator(separator);
}

EXPORT(int, util_itoa, (int number, char *str))
{
    return __nsapi30_table->f_util_itoa(number, str);
}

EXPORT(int, util_strftime, (char *str, const char *format, const struct tm *time))
{
    return __nsapi30_table->f_util_strftime(str, format, time);
}

EXPORT(char *, util_strtok, (char *str, const char *separators, char **rest))
{
    return __nsapi30_table->f_util_strtok(str, separators, rest);
}

EXPORT(struct tm *, util_localtime, (const time_t *clock, struct tm *result))
{
    return __nsapi30_table->f_util_localtime(clock, result);
}

EXPORT(char *, util_ctime, (const time_t *clock, char *buf, int size))
{
    return __nsapi30_table->f_util_ctime(clock, buf, size);
}

EXPORT(char *, util_strerror, (int number, char *buf, int size))
{
    return __nsapi30_table->f_util_strerror(number, buf, size);
}

EXPORT(struct tm *, util_gmtime, (const time_t *clock, struct tm *result))
{
    return __nsapi30_table->f_util_gmtime(clock, result);
}

EXPORT(char *, util_asctime, (const struct tm *time, char *buf, int size))
{
    return __nsapi30_table->f_util_asctime(time, buf, size);
}

EXPORT(int, util_can_exec, (struct stat *finfo, uid_t user, gid_t group))
{
    return __nsapi30_table->f_util_can_exec(finfo, user, group);
}

EXPORT(struct passwd *, util_getpwnam, (const char *name, struct passwd *result, char *buf, int size))
{
    return __nsapi30_table->f_util_getpwnam(name, result, buf, size);
}

EXPORT(pid_t, util_waitpid, (pid_t pid, int *status, int options))
{
    return __nsapi30_table->f_util_waitpid(pid, status, options);
}

EXPORT(conf_global_vars_s *, conf_getglobals, (void))
{
    return __nsapi30_table->f_conf_getglobals();
}

EXPORT(FuncPtr, func_find, (char *name))
{
    return __nsapi30_table->f_func_find(name);
}

EXPORT(int, func_exec, (pblock *pb, Session *sn, Request *rq))
{
    return __nsapi30_table->f_func_exec(pb, sn, rq);
}

EXPORT(struct FuncStruct *, func_insert, (char *name, FuncPtr function))
{
    return __nsapi30_table->f_func_insert(name, function);
}

EXPORT(FuncPtr, func_replace, (char *name, FuncPtr function))
{
    return __nsapi30_table->f_func_replace(name, function);
}

EXPORT(int, object_execute, (directive *instance, Session *sn, Request *rq))
{
    return __nsapi30_table->f_object_execute(instance, sn, rq);
}

EXPORT(int, http_parse_request, (char *line, Request *rq, Session *sn))
{
    return __nsapi30_table->f_http_parse_request(line, rq, sn);
}

EXPORT(int, http_start_response, (Session *sn, Request *rq))
{
    return __nsapi30_table->f_http_start_response(sn, rq);
}

EXPORT(char **, http_hdrs2env, (pblock *headers))
{
    return __nsapi30_table->f_http_hdrs2env(headers);
}

EXPORT(void, http_status, (Session *sn, Request *rq, int status, const char *reason))
{
    __nsapi30_table->f_http_status(sn, rq, status, reason);
}

EXPORT(int, http_set_finfo, (Session *sn, Request *rq, struct stat *finfo))
{
    return __nsapi30_table->f_http_set_finfo(sn, rq, finfo);
}

EXPORT(char *, http_dump822, (pblock *pb, char *str, int *position, int size))
{
    return __nsapi30_table->f_http_dump822(pb, str, position, size);
}

EXPORT(void, http_finish_request, (Session *sn, Request *rq))
{
    __nsapi30_table->f_http_finish_request(sn, rq);
}

EXPORT(char *, http_uri2url, (const char *prefix, const char *suffix))
{
    return __nsapi30_table->f_http_uri2url(prefix, suffix);
}

EXPORT(char *, http_uri2url_dynamic, (const char *prefix, const char *suffix, Session *sn, Request *rq))
{
    return __nsapi30_table->f_http_uri2url_dynamic(prefix, suffix, sn, rq);
}

EXPORT(Request *, request_create, (void))
{
    return __nsapi30_table->f_request_create();
}

EXPORT(void, request_free, (Request *rq))
{
    __nsapi30_table->f_request_free(rq);
}

EXPORT(Request *, request_restart_internal, (const char *uri, Request *rq))
{
    return __nsapi30_table->f_request_restart_internal(uri, rq);
}

EXPORT(int, request_header, (char *name, char **value, Session *sn, Request *rq))
{
    return __nsapi30_table->f_request_header(name, value, sn, rq);
}

EXPORT(struct stat *, request_stat_path, (const char *path, Request *rq))
{
    return __nsapi30_table->f_request_stat_path(path, rq);
}

EXPORT(const char *, conf_getServerString, (void))
{
    return __nsapi30_table->f_conf_getServerString();
}

EXPORT(char *, servact_translate_uri, (char *uri, Session *sn))
{
    return __nsapi30_table->f_servact_translate_uri(uri, sn);
}

EXPORT(char *, util_cookie_find, (char *cookie, const char *name))
{
    return __nsapi30_table->f_util_cookie_find(cookie, name);
}

EXPORT(char *, util_cookie_next, (char *cookie, char **name, char **value))
{
    return __nsapi30_table->f_util_cookie_next(cookie, name, value);
}

EXPORT(char *, util_cookie_next_av_pair, (char *cookie, char **name, char **value))
{
    return __nsapi30_table->f_util_cookie_next_av_pair(cookie, name, value);
}

EXPORT(const VirtualServer *, request_get_vs, (Request *rq))
{
    return __nsapi30_table->f_request_get_vs(rq);
}

EXPORT(const char *, vs_get_id, (const VirtualServer *vs))
{
    return __nsapi30_table->f_vs_get_id(vs);
}

EXPORT(char *, vs_get_doc_root, (const VirtualServer *vs))
{
    return __nsapi30_table->f_vs_get_doc_root(vs);
}

EXPORT(const char *, vs_lookup_config_var, (const VirtualServer *vs, const char *name))
{
    return __nsapi30_table->f_vs_lookup_config_var(vs, name);
}

EXPORT(int, vs_is_default_vs, (const VirtualServer *vs))
{
    return __nsapi30_table->f_vs_is_default_vs(vs);
}

EXPORT(void, prepare_nsapi_thread, (Request *rq, Session *sn))
{
    __nsapi30_table->f_prepare_nsapi_thread(rq, sn);
}

EXPORT(int, net_flush, (SYS_NETFD sd))
{
    return __nsapi302_table->f_net_flush(sd);
}

EXPORT(int, net_sendfile, (SYS_NETFD sd, sendfiledata *data))
{
    return __nsapi302_table->f_net_sendfile(sd, data);
}

EXPORT(void, protocol_status, (Session *sn, Request *rq, int status, const char *reason))
{
    __nsapi30_table->f_http_status(sn, rq, status, reason);
}

EXPORT(int, protocol_start_response, (Session *sn, Request *rq))
{
    return __nsapi30_table->f_http_start_response(sn, rq);
}

EXPORT(int, protocol_set_finfo, (Session *sn, Request *rq, struct stat *finfo))
{
    return __nsapi30_table->f_http_set_finfo(sn, rq, finfo);
}

EXPORT(void, protocol_finish_request, (Session *sn, Request *rq))
{
    __nsapi30_table->f_http_finish_request(sn, rq);
}

EXPORT(char *, protocol_uri2url, (const char *prefix, const char *suffix))
{
    return __nsapi30_table->f_http_uri2url(prefix, suffix);
}

EXPORT(char *, protocol_uri2url_dynamic, (const char *prefix, const char *suffix, Session *sn, Request *rq))
{
    return __nsapi30_table->f_http_uri2url_dynamic(prefix, suffix, sn, rq);
}

EXPORT(char *, request_translate_uri, (char *uri, Session *sn))
{
    return __nsapi30_table->f_servact_translate_uri(uri, sn);
}

EXPORT(pb_param *, _pblock_fr, (const char *name, pblock *pb, int remove))
{
    return __nsapi30_table->f_pblock_fr(name, pb, remove);
}

/* Some plug-ins look for the stages of a request by name: src/api/stage.rs. */
extern int servact_uri2path(Session *sn, Request *rq);
extern int servact_pathchecks(Session *sn, Request *rq);
extern int servact_fileinfo(Session *sn, Request *rq);
extern int servact_service(Session *sn, Request *rq);

EXPORT(int, INTservact_uri2path, (Session *sn, Request *rq))
{
    return servact_uri2path(sn, rq);
}

EXPORT(int, INTservact_pathchecks, (Session *sn, Request *rq))
{
    return servact_pathchecks(sn, rq);
}

EXPORT(int, INTservact_fileinfo, (Session *sn, Request *rq))
{
    return servact_fileinfo(sn, rq);
}

EXPORT(int, INTservact_service, (Session *sn, Request *rq))
{
    return servact_service(sn, rq);
}

FORWARD(void, cinfo_init, (void), ())
FORWARD(void, cinfo_terminate, (void), ())
FORWARD(int, conf_getboolean, (const char *name, int otherwise), (name, otherwise))
FORWARD(int, conf_getboundedinteger,
        (const char *name, int least, int most, int otherwise),
        (name, least, most, otherwise))
FORWARD(const char *, conf_getfilename, (void), ())
FORWARD(int, conf_getinteger, (const char *name, int otherwise), (name, otherwise))
FORWARD(const char *, conf_getstring, (const char *name, const char *otherwise), (name, otherwise))
FORWARD(COUNTING_SEMAPHORE, cs_init, (int initial_count), (initial_count))
FORWARD(int, cs_release, (COUNTING_SEMAPHORE cs), (cs))
FORWARD(void, cs_terminate, (COUNTING_SEMAPHORE cs), (cs))
FORWARD(int, cs_trywait, (COUNTING_SEMAPHORE cs), (cs))
FORWARD(int, cs_wait, (COUNTING_SEMAPHORE cs), (cs))
FORWARD(int, dir_create_all, (char *path), (path))
FORWARD(SYS_FILE, ereport_getfd, (void), ())
FORWARD(char *, ereport_init,
        (const char *file, const char *email, struct passwd *user, const char *version, int restart),
        (file, email, user, version, restart))
FORWARD(void, ereport_terminate, (void), ())
FORWARD(int, file_are_files_distinct, (SYS_FILE one, SYS_FILE other), (one, other))
FORWARD(char *, file_canonicalize_path, (const char *path), (path))
FORWARD(int, file_is_path_abs, (const char *path), (path))
FORWARD(int, file_setinherit, (SYS_FILE fd, int inherit), (fd, inherit))
FORWARD(void, filebuf_close_buffer, (filebuf_t *buf, int unmap), (buf, unmap))
FORWARD(filebuf_t *, filebuf_create,
        (SYS_FILE fd, char *mapped, int mapped_length, int size),
        (fd, mapped, mapped_length, size))
FORWARD(int, filebuf_next, (filebuf_t *buf, int advance), (buf, advance))
FORWARD(void, func_init, (struct FuncStruct *functions), (functions))
FORWARD(int, func_set_native_thread_flag, (char *name, int flags), (name, flags))
FORWARD(void, http_set_keepalive_timeout, (int seconds), (seconds))
FORWARD(int, internal_request, (Request *rq), (rq))
FORWARD(SYS_NETFD, net_accept, (SYS_NETFD sd, struct sockaddr *address, int *length), (sd, address, length))
FORWARD(int, net_bind, (SYS_NETFD sd, const struct sockaddr *address, int length), (sd, address, length))
FORWARD(SYS_NETFD, net_create_listener, (const char *address, int port), (address, port))
FORWARD(SYS_NETFD, net_dup2, (SYS_NETFD sd, int os_fd), (sd, os_fd))
FORWARD(int, net_getpeername, (SYS_NETFD sd, struct sockaddr *address, int *length), (sd, address, length))
FORWARD(int, net_getsockopt,
        (SYS_NETFD sd, int level, int name, void *value, int *length),
        (sd, level, name, value, length))
FORWARD(int, net_ioctl, (SYS_NETFD sd, int tag, void *result), (sd, tag, result))
FORWARD(int, net_listen, (SYS_NETFD sd, int backlog), (sd, backlog))
FORWARD(int, net_native_handle, (SYS_NETFD sd), (sd))
FORWARD(int, net_select,
        (int count, fd_set *readable, fd_set *writable, fd_set *failed, struct timeval *timeout),
        (count, readable, writable, failed, timeout))
FORWARD(int, net_setsockopt,
        (SYS_NETFD sd, int level, int name, const void *value, int length),
        (sd, level, name, value, length))
FORWARD(int, net_socketpair, (SYS_NETFD *pair), (pair))
FORWARD(void, servssl_init, (void), ())
FORWARD(Session *, session_alloc, (SYS_NETFD csd, struct sockaddr_in *address), (csd, address))
FORWARD(Session *, session_create, (SYS_NETFD csd, struct sockaddr_in *address), (csd, address))
FORWARD(Session *, session_fill, (Session *sn), (sn))
FORWARD(void, session_free, (Session *sn), (sn))
FORWARD(shmem_s *, shmem_alloc, (char *name, int size, int expose), (name, size, expose))
FORWARD(void, shmem_free, (shmem_s *region), (region))
FORWARD(int, system_nocoredumps, (void), ())
FORWARD(void, systhread_init, (char *name), (name))
FORWARD(void, systhread_set_default_stacksize, (unsigned long size), (size))
FORWARD(void, systhread_terminate, (SYS_THREAD thread), (thread))
FORWARD(void, systhread_timerset, (int microseconds), (microseconds))
FORWARD(int, vs_alloc_slot, (void), ())
FORWARD(void *, vs_get_acllist, (const VirtualServer *vs), (vs))
FORWARD(void *, vs_get_data, (const VirtualServer *vs, int slot), (vs, slot))
FORWARD(char *, vs_get_mime_type, (const VirtualServer *vs, const char *uri), (vs, uri))
FORWARD(int, vs_register_cb, (VSInitFunc *init, VSDestroyFunc *destroy), (init, destroy))
FORWARD(void *, vs_set_data, (const VirtualServer *vs, int *slot, void *data), (vs, slot, data))
FORWARD(char *, vs_substitute_vars, (const VirtualServer *vs, const char *str), (vs, str))
FORWARD(char *, vs_translate_uri, (const VirtualServer *vs, const char *uri), (vs, uri))

#undef util_strcasecmp
#undef util_strncasecmp

EXPORT(int, util_strcasecmp, (const char *one, const char *other))
{
    return strcasecmp(one, other);
}

EXPORT(int, util_strncasecmp, (const char *one, const char *other, int length))
{
    return length <= 0 ? 0 : strncasecmp(one, other, (size_t)length);
}
