/*
 * What public plug-ins do with the interface, in their ways: a line for each thing, "ok NAME" or "WRONG NAME:
 * value". The comments say whose way it is. The code is ours.
 */
#include <dlfcn.h>
#include <nsapi.h>
#include "base/crit.h"
#include "base/systhr.h"
#include "frame/conf.h"

static CRITICAL lock;
static volatile int thread_has_run;
static volatile int sites_told;
static FuncPtr before_replacing;
static int slot = -1;
static char *log_path;

typedef int (*stage_function)(Session *sn, Request *rq);

static void on_thread(void *argument)
{
    *(volatile int *)argument = 1;
}

static int site_begins(VirtualServer *incoming, const VirtualServer *current)
{
    (void)current;
    if (vs_get_id(incoming) != NULL)
        sites_told++;
    return REQ_PROCEED;
}

static int counting_send_file(pblock *pb, Session *sn, Request *rq)
{
    crit_enter(lock);
    pblock_nvinsert("x-counted", "yes", rq->srvhdrs);
    crit_exit(lock);
    return before_replacing(pb, sn, rq);
}

static void at_end(void *unused)
{
    SYS_FILE file = system_fopenWA(log_path);

    (void)unused;
    if (file != SYS_ERROR_FD) {
        system_fwrite_atomic(file, "ended\n", 6);
        system_fclose(file);
    }
}

/* mod_jk starts a thread and waits for it; the SDK's cgiwatch replaces a function of the server. */
NSAPI_PUBLIC int idioms_init(pblock *pb, Session *sn, Request *rq)
{
    SYS_THREAD thread;
    int waited;

    (void)sn;
    (void)rq;
    lock = crit_init();
    log_path = pblock_findval("log", pb) ? PERM_STRDUP(pblock_findval("log", pb)) : NULL;
    if (log_path == NULL) {
        pblock_nvinsert("error", "idioms-init needs log=", pb);
        return REQ_ABORTED;
    }
    thread = systhread_start(SYSTHREAD_DEFAULT_PRIORITY, 0, on_thread, (void *)&thread_has_run);
    if (thread == SYS_THREAD_ERROR)
        return REQ_ABORTED;
    for (waited = 0; waited < 600 && !thread_has_run; waited++)
        systhread_sleep(100);
    before_replacing = func_replace("send-file", counting_send_file);
    vs_register_cb(site_begins, NULL);
    slot = vs_alloc_slot();
    magnus_atrestart(at_end, NULL);
    daemon_atrestart(at_end, NULL);
    ereport(LOG_INFORM, "idioms: %s of %d threads", "begun", pool_maxthreads);
    return before_replacing != NULL && pool_maxthreads > 0 ? REQ_PROCEED : REQ_ABORTED;
}

static Session *out;

static void say(const char *name, int is_right, const char *value)
{
    char line[400];
    int length = util_snprintf(line, sizeof line, is_right ? "ok %s\n" : "WRONG %s: %s\n", name,
                               value ? value : "NULL");

    net_write(out->csd, line, length);
}

static void same(const char *name, const char *value, const char *wanted)
{
    say(name, value != NULL && strcmp(value, wanted) == 0, value);
}

/* PHP, nsapi_perl and the FastCGI plug-ins make an environment of everything. */
static void environment(Session *sn, Request *rq)
{
    char **env = http_hdrs2env(rq->headers), *value, *url, *path;
    pblock *copy = pblock_dup(rq->reqpb), *other = pblock_create(5);
    char **more;
    int at = 0, count = 0;

    same("http_hdrs2env", util_env_find(env, "HTTP_X_TEST"), "a b");
    while (env[count])
        count++;
    env = util_env_create(env, 3, &at);
    env[at++] = util_env_str("GATEWAY_INTERFACE", "CGI/1.1");
    env[at] = NULL;
    util_env_replace(env, "HTTP_X_TEST", "changed");
    same("util_env_create", util_env_find(env, "GATEWAY_INTERFACE"), "CGI/1.1");
    same("util_env_replace", util_env_find(env, "HTTP_X_TEST"), "changed");
    more = util_env_copy(env, NULL);
    same("util_env_copy", more ? util_env_find(more, "GATEWAY_INTERFACE") : NULL, "CGI/1.1");
    util_env_free(env);
    same("pblock_dup", pblock_findval("uri", copy), "/idioms/check/a b");
    pblock_copy(copy, other);
    same("pblock_copy", pblock_findval("query", other), "q=1&r=%20");
    more = pblock_pb2env(other, NULL);
    say("pblock_pb2env", more != NULL && util_env_find(more, "query") != NULL, "nothing");
    pblock_free(copy);
    pblock_free(other);
    same("server_hostname", conf_getglobals()->Vserver_hostname, "idioms.example");
    say("Vport", conf_getglobals()->Vport == 8081, "another port");
    url = http_uri2url_dynamic("", "", sn, rq);
    same("http_uri2url_dynamic", url, "http://idioms.example:8081");
    FREE(url);
    url = http_uri2url("/a", "/b");
    say("http_uri2url", url && strstr(url, "/a/b") != NULL, url);
    /* PHP takes the last character off, and frees what it gets. */
    path = request_translate_uri("/", sn);
    say("request_translate_uri", path && path[0] == '/' && path[strlen(path) - 1] == '/', path);
    FREE(path);
    value = session_dns(sn);
    say("session_dns", value == NULL || *value, value);
    if (value)
        FREE(value);
    say("session_maxdns", session_maxdns(sn) == NULL, "a name");
    say("system_version", system_version() && strlen(system_version()) > 3, system_version());
    value = util_hostname();
    say("util_hostname", value && *value, value);
    FREE(value);
    say("REQ_TIME", REQ_TIME(rq) > 1000000000, "another time");
    say("vs_is_default_vs", vs_is_default_vs(request_get_vs(rq)) == 1, "another");
    vs_set_data(request_get_vs(rq), &slot, &slot);
    say("vs_get_data", vs_get_data(request_get_vs(rq), slot) == &slot, "another");
}

/* Disney's plug-ins walk through blocks, change values in place, and write files;
 * thumb-handler does its own. */
static void blocks_and_memory(Session *sn, Request *rq)
{
    pblock *block = pblock_create(19);
    struct pb_entry *entry;
    pb_param *param;
    char *text = (char *)MALLOC(4), number[32], date[64];
    struct tm broken_down;
    time_t noon = 43200;
    int i, count = 0;

    strcpy(text, "abc");
    text = (char *)REALLOC(text, 100);
    same("REALLOC", text, "abc");
    FREE(text);
    text = (char *)CALLOC(10);
    say("CALLOC", text[0] == 0 && text[9] == 0, "not zero");
    FREE(text);
    text = (char *)pool_malloc(sn->pool, 10);
    strcpy(text, "pooled");
    same("pool_strdup", (char *)pool_strdup(sn->pool, text), "pooled");
    pool_free(sn->pool, text);
    pblock_nvinsert("width", "100", block);
    pblock_nninsert("page", 7, block);
    param = pblock_find("width", block);
    FREE(param->value);
    param->value = STRDUP("200");
    for (i = 0; i < block->hsize; ++i)
        for (entry = block->ht[i]; entry; entry = entry->next)
            count++;
    say("walk", count == 2, "another count");
    same("in place", pblock_findval("width", block), "200");
    same("pblock_nninsert", pblock_findval("page", block), "7");
    pblock_str2pblock("a=1 b=\"2 3\" four", block);
    same("pblock_str2pblock", pblock_findval("b", block), "2 3");
    param_free(pblock_remove("a", block));
    say("pblock_remove", pblock_find("a", block) == NULL, "there");
    param_free(pblock_remove("never there", block));
    pblock_free(block);
    util_itoa(-12, number);
    same("util_itoa", number, "-12");
    util_sprintf(number, "%d %s %6.2f", 5, "x", 1.5);
    same("util_sprintf", number, "5 x   1.50");
    util_gmtime(&noon, &broken_down);
    util_strftime(date, HTTP_DATE_FMT, &broken_down);
    same("util_strftime", date, "Thu, 01 Jan 1970 12:00:00 GMT");
    say("util_localtime", util_localtime(&noon, &broken_down) != NULL, "none");
    say("util_uri_is_evil", util_uri_is_evil("/a/../b") && !util_uri_is_evil("/a/b"), "wrong");
    say("util_is_mozilla",
        util_is_mozilla("Mozilla/4.5 (X11)", "1", "1") && !util_is_mozilla("curl/7", "1", "1"), "wrong");
    say("shexp_match",
        shexp_match("/servlet/a", "/servlet/*") == 0 && shexp_match("/b", "/servlet/*") != 0, "wrong");
    say("shexp_cmp", shexp_cmp("a.gif", "*.(gif|jpg)") == 0, "wrong");
    say("WILDPAT", WILDPAT_VALID("*.gif") == VALID_WILDPAT && WILDPAT_VALID("gif") == NON_WILDPAT, "wrong");
    (void)rq;
}

/* The SDK's send-images reads a file by lines; htaccess by characters. */
static void files(Session *sn, Request *rq)
{
    char *path = pblock_findval("lines", rq->vars), line[100], *header = NULL;
    struct stat *facts, other;
    filebuffer *buffer;
    SYS_FILE file;
    cinfo *kind;
    int read;

    facts = request_stat_path(path, rq);
    say("request_stat_path", facts != NULL && facts->st_size == 12, rq->staterr);
    say("system_stat", system_stat(path, &other) == 0 && other.st_size == 12, system_errmsg());
    file = system_fopenRO(path);
    buffer = file == SYS_ERROR_FD ? NULL : filebuf_open_nostat(file, FILE_BUFFERSIZE, facts);
    if (buffer == NULL) {
        say("filebuf_open_nostat", 0, system_errmsg());
        return;
    }
    read = util_getline(buffer, 1, sizeof line, line);
    say("util_getline", read == 0 && strcmp(line, "first") == 0, line);
    read = util_getline(buffer, 2, sizeof line, line);
    say("util_getline at the end", strcmp(line, "second") == 0, line);
    say("filebuf_getc", filebuf_getc(buffer) == IO_EOF, "more");
    filebuf_close(buffer);
    say("file_notfound", system_fopenRO("/no/such/file") == SYS_ERROR_FD && file_notfound(), system_errmsg());
    kind = cinfo_find("page.html.gz");
    say("cinfo_find", kind && kind->type && strcmp(kind->type, "text/html") == 0, kind ? kind->type : NULL);
    FREE(kind);
    say("request_header", request_header("X-Test", &header, sn, rq) == REQ_PROCEED, "not there");
    same("request_header's value", header, "a b");
    say("request_header of none",
        request_header("x-none", &header, sn, rq) != REQ_ABORTED && header == NULL, header);
    say("func_find", func_find("send-file") == counting_send_file, "another");
}

NSAPI_PUBLIC int idioms_name(pblock *pb, Session *sn, Request *rq)
{
    (void)sn;
    pblock_nvinsert("lines", pblock_findval("lines", pb), rq->vars);
    return REQ_NOACTION;
}

NSAPI_PUBLIC int idioms_check(pblock *pb, Session *sn, Request *rq)
{
    out = sn;
    param_free(pblock_remove("content-type", rq->srvhdrs));
    pblock_nvinsert("content-type", "text/plain", rq->srvhdrs);
    protocol_status(sn, rq, PROTOCOL_OK, NULL);
    if (protocol_start_response(sn, rq) == REQ_NOACTION)
        return REQ_PROCEED;
    same("Directive of the block", pblock_findval("Directive", pb), "Service");
    say("a thread of its own", thread_has_run, "it did not run");
    environment(sn, rq);
    blocks_and_memory(sn, rq);
    files(sn, rq);
    say("net_flush", net_flush(sn->csd) != IO_ERROR, "failed");
    return REQ_PROCEED;
}

/* PHP takes what netbuf holds, then reads the socket, as many bytes as Content-Length says. */
NSAPI_PUBLIC int idioms_post(pblock *pb, Session *sn, Request *rq)
{
    char *length = pblock_findval("content-length", rq->headers), piece[1000], answer[100];
    int left = length ? atoi(length) : 0, held = sn->inbuf->cursize - sn->inbuf->pos, read;
    unsigned long sum = 0;

    (void)pb;
    sn->inbuf->pos += held;
    left -= held;
    while (left > 0) {
        read = net_read(sn->csd, piece, left < (int)sizeof piece ? left : (int)sizeof piece, 60);
        if (read == IO_ERROR || read == IO_EOF)
            break;
        left -= read;
        while (read > 0)
            sum += (unsigned char)piece[--read];
    }
    read = util_sprintf(answer, "%s bytes, %d missing, sum %lu\n", length ? length : "no", left, sum);
    protocol_status(sn, rq, PROTOCOL_OK, NULL);
    pblock_nninsert("content-length", read, rq->srvhdrs);
    pblock_nvinsert("connection", "close", rq->srvhdrs);
    protocol_start_response(sn, rq);
    net_write(sn->csd, answer, read);
    /* Shibboleth ends every answer of its own so. */
    return REQ_EXIT;
}

/* Redirections: by a variable and a status, or by Error functions such as printLocation. */
NSAPI_PUBLIC int idioms_redirect(pblock *pb, Session *sn, Request *rq)
{
    (void)pb;
    protocol_status(sn, rq, PROTOCOL_REDIRECT, NULL);
    pblock_nvinsert("url", "http://other.example/a b", rq->vars);
    return REQ_ABORTED;
}

NSAPI_PUBLIC int idioms_error(pblock *pb, Session *sn, Request *rq)
{
    if (strcmp(pblock_findval("Directive", pb), "Error") || rq->status_num != 409)
        return REQ_NOACTION;
    param_free(pblock_remove("content-type", rq->srvhdrs));
    pblock_nvinsert("content-type", "text/plain", rq->srvhdrs);
    if (protocol_start_response(sn, rq) != REQ_NOACTION)
        net_write(sn->csd, "made by the plug-in", 19);
    return REQ_PROCEED;
}

NSAPI_PUBLIC int idioms_conflict(pblock *pb, Session *sn, Request *rq)
{
    (void)pb;
    log_error(LOG_WARN, "idioms-conflict", sn, rq, "%s is in conflict", pblock_findval("uri", rq->reqpb));
    protocol_status(sn, rq, PROTOCOL_CONFLICT, NULL);
    return REQ_ABORTED;
}

/* PHP's nsapi_virtual: another page within this one, by functions that are looked up by their names. */
NSAPI_PUBLIC int idioms_virtual(pblock *pb, Session *sn, Request *rq)
{
    stage_function uri2path = (stage_function)dlsym(RTLD_DEFAULT, "INTservact_uri2path");
    stage_function pathchecks = (stage_function)dlsym(RTLD_DEFAULT, "INTservact_pathchecks");
    stage_function fileinfo = (stage_function)dlsym(RTLD_DEFAULT, "INTservact_fileinfo");
    stage_function service = (stage_function)dlsym(RTLD_DEFAULT, "INTservact_service");
    char *query = pblock_findval("query", rq->reqpb), status[40];
    Request *inner;
    int answer;

    (void)pb;
    param_free(pblock_remove("content-type", rq->srvhdrs));
    pblock_nvinsert("content-type", "text/html", rq->srvhdrs);
    protocol_status(sn, rq, PROTOCOL_OK, NULL);
    protocol_start_response(sn, rq);
    net_write(sn->csd, "[", 1);
    if (!uri2path || !pathchecks || !fileinfo || !service || !(inner = request_restart_internal(query, NULL)))
        return REQ_EXIT;
    do {
        answer = uri2path(sn, inner);
        if (answer == REQ_PROCEED)
            answer = pathchecks(sn, inner);
        if (answer == REQ_PROCEED)
            answer = fileinfo(sn, inner);
        if (answer == REQ_PROCEED)
            answer = service(sn, inner);
    } while (answer == REQ_RESTART);
    util_sprintf(status, "] %d %d", inner->status_num, request_is_internal(inner));
    request_free(inner);
    net_write(sn->csd, status, (int)strlen(status));
    return REQ_PROCEED;
}

/* The SDK's hardcoded-auth: the server asks for the password, the plug-in says whether it is right. */
NSAPI_PUBLIC int idioms_user(pblock *pb, Session *sn, Request *rq)
{
    char *user = pblock_findval("user", pb), *pw = pblock_findval("pw", pb);
    PRBool is_right = PR_FALSE;

    if (!strcmp(user, "joe") && !strcmp(pw, "shmoe") && !strcmp(pblock_findval("userdb", pb), "garbage"))
        is_right = PR_TRUE;
    if (!is_right)
        log_error(LOG_SECURITY, "idioms-user", sn, rq, "user %s entered wrong password", user);
    return is_right ? REQ_PROCEED : REQ_NOACTION;
}

/* Some write the whole answer themselves. */
NSAPI_PUBLIC int idioms_raw(pblock *pb, Session *sn, Request *rq)
{
    static char answer[] = "HTTP/1.0 203 Mine\r\nContent-type: text/plain\r\n\r\nraw";

    (void)pb;
    (void)rq;
    return net_write(sn->csd, answer, (int)strlen(answer)) == IO_ERROR ? REQ_EXIT : REQ_PROCEED;
}

/* Disney's cookie logger: what was answered is known in AddLog. */
NSAPI_PUBLIC int idioms_log(pblock *pb, Session *sn, Request *rq)
{
    char line[200], *status = pblock_findval("status", rq->srvhdrs);
    SYS_FILE file = system_fopenWA(log_path);
    int length;

    (void)pb;
    (void)sn;
    if (file == SYS_ERROR_FD)
        return REQ_ABORTED;
    length = util_snprintf(line, sizeof line, "%s %s\n", status ? status : "-",
                           pblock_findval("uri", rq->reqpb));
    system_fwrite_atomic(file, line, length);
    system_fclose(file);
    return REQ_PROCEED;
}
