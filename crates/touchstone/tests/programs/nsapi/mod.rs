//! NSAPI from the outside: plug-ins in C, compiled here against `include/nsapi.h`, in a running server.

mod answers;
mod conditions;
mod delegates;
mod endings;
mod idioms;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::{Server, Tree, run, skipped, wait_until};

/// A plug-in that uses every stage, and crashes on request.
const STAGES: &str = r#"
#include "base/pblock.h"
#include "frame/protocol.h"

static char *greeting;

NSAPI_PUBLIC int stages_init(pblock *pb, Session *sn, Request *rq)
{
    greeting = STRDUP(pblock_findval("greeting", pb) ? pblock_findval("greeting", pb) : "hello");
    if (NSAPI_RUNTIME_VERSION != 303) {
        pblock_nvinsert("error", "another version", pb);
        return REQ_ABORTED;
    }
    return REQ_PROCEED;
}

NSAPI_PUBLIC int stages_auth(pblock *pb, Session *sn, Request *rq)
{
    char *token = NULL;
    if (request_header("x-user", &token, sn, rq) == REQ_ABORTED || token == NULL)
        return REQ_NOACTION;
    pblock_nvinsert("auth-user", token, rq->vars);
    return REQ_PROCEED;
}

NSAPI_PUBLIC int stages_name(pblock *pb, Session *sn, Request *rq)
{
    char *ppath = pblock_findval("ppath", rq->vars);
    if (strncmp(ppath, "/plugin/", 8))
        return REQ_NOACTION;
    pblock_nvinsert("name", "plugin", rq->vars);
    return REQ_PROCEED;
}

NSAPI_PUBLIC int stages_check(pblock *pb, Session *sn, Request *rq)
{
    char *uri = pblock_findval("uri", rq->reqpb);
    if (strstr(uri, "forbidden")) {
        protocol_status(sn, rq, PROTOCOL_FORBIDDEN, NULL);
        return REQ_ABORTED;
    }
    return strstr(uri, "exit") ? REQ_EXIT : REQ_PROCEED;
}

/* Says what it knows, and sends the body back. */
NSAPI_PUBLIC int stages_service(pblock *pb, Session *sn, Request *rq)
{
    char line[512], piece[1000];
    int i, count = 0, got;
    struct pb_entry *entry;
    pb_param *old = pblock_remove("content-type", rq->srvhdrs);

    param_free(old);
    pblock_nvinsert("content-type", "text/plain", rq->srvhdrs);
    pblock_nvinsert("X-Greeting", greeting, rq->srvhdrs);
    protocol_status(sn, rq, PROTOCOL_OK, NULL);
    if (protocol_start_response(sn, rq) == REQ_NOACTION)
        return REQ_PROCEED;
    for (i = 0; i < rq->headers->hsize; i++)
        for (entry = rq->headers->ht[i]; entry; entry = entry->next)
            count++;
    util_sprintf(line, "user=%s host=%s port=%d secure=%d ip=%s query=%s fields=%d\n",
        pblock_findval("auth-user", rq->vars) ? pblock_findval("auth-user", rq->vars) : "-", server_hostname,
        server_portnum, security_active, pblock_findval("ip", sn->client),
        pblock_findval("query", rq->reqpb) ? pblock_findval("query", rq->reqpb) : "-", count);
    if (net_write(sn->csd, line, (int)strlen(line)) == IO_ERROR)
        return REQ_EXIT;
    if (ISMPOST(rq)) {
        int first = netbuf_getc(sn->inbuf);
        if (first != NETBUF_EOF) {
            piece[0] = (char)first;
            net_write(sn->csd, piece, 1);
        }
        while ((got = netbuf_getbytes(sn->inbuf, piece, sizeof piece)) > 0)
            if (net_write(sn->csd, piece, got) == IO_ERROR)
                return REQ_EXIT;
    }
    return REQ_PROCEED;
}

NSAPI_PUBLIC int stages_crash(pblock *pb, Session *sn, Request *rq)
{
    *(volatile int *)0 = 1;
    return REQ_PROCEED;
}

NSAPI_PUBLIC int stages_log(pblock *pb, Session *sn, Request *rq)
{
    log_error(LOG_INFORM, "stages-log", sn, rq, "answered %s", pblock_findval("status", rq->srvhdrs));
    return REQ_PROCEED;
}
"#;

const OBJ_CONF: &str = "\
<Object name=default>
AuthTrans fn=stages-auth
NameTrans fn=stages-name
PathCheck fn=unix-uri-clean
PathCheck fn=find-index
  index-names=index.html
ObjectType fn=type-by-extension
Service method=(GET|HEAD) type=*~magnus-internal/* fn=send-file
Error fn=send-error code=403 path=ERRORS/403.html
AddLog fn=stages-log
</Object>
<Object name=plugin>
PathCheck fn=stages-check
ObjectType fn=force-type type=magnus-internal/stages
<Client uri=*crash*>
Service fn=stages-crash
</Client>
Service fn=stages-service type=magnus-internal/stages method=(GET|HEAD|POST)
</Object>
";

/// Compiles a plug-in; `None`, with a visible word, where there is no compiler.
fn compile(source: &Path, to: &Path) -> Option<PathBuf> {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let command = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-I"])
        .arg(include)
        .arg(source)
        .arg("-o")
        .arg(to)
        .output();
    match command {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(to.to_path_buf())
        }
        Err(_) => {
            skipped("plug-ins in C (install gcc)");
            None
        }
    }
}

fn compile_text(directory: &Path, name: &str, text: &str) -> Option<PathBuf> {
    let source = directory.join(format!("{name}.c"));
    fs::write(&source, text).expect("the source is written");
    compile(&source, &directory.join(format!("{name}.so")))
}

/// A server with the plug-in of every stage.
fn stages_server(tree: &Tree, more: &str) -> Option<Server> {
    let root = tree.root();
    compile_text(&root, "stages", STAGES)?;
    tree.write("403.html", b"not for you");
    tree.write("index.html", b"the index");
    let obj_conf = OBJ_CONF.replace("ERRORS", root.to_str().expect("the path is text"));
    tree.write("obj.conf", obj_conf.as_bytes());
    tree.write(
        "magnus.conf",
        b"ServerName www.example.org\nInit fn=load-modules shlib=stages.so\n  \
          funcs=stages-init,stages-auth,stages-name,stages-check,stages-service,stages-log,stages-crash\n\
          Init fn=stages-init greeting=\"good day\"\nRqThrottle 512\n",
    );
    let config = format!(
        "[error_log]\npath = \"stderr\"\n[proxies]\ntrusted = [\"127.0.0.1\"]\n[[site]]\n\
         listen = [\"127.0.0.1:0\"]\nroot = \".\"\n[[site.route]]\n\
         nsapi = {{ obj_conf = \"obj.conf\", magnus_conf = \"magnus.conf\"{more} }}\n"
    );
    Some(Server::configured(&root, &config))
}

fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}

#[test]
fn every_stage_runs_in_its_order() {
    for more in [
        "",
        ", inline = [\"stages-service\", \"stages-auth\", \"stages-name\", \"stages-check\", \"stages-log\"]",
        ", host = \"process\"",
    ] {
        let tree = Tree::empty();
        let Some(server) = stages_server(&tree, more) else { return };
        let mut client = server.connect();
        let answer =
            client.ask("GET /plugin/a%20b?q=1 HTTP/1.1\r\nHost: plug.example:81\r\nX-User: ann\r\n\r\n");
        assert_eq!(answer.status, 200, "{more}");
        assert_eq!(
            text(&answer.body),
            "user=ann host=plug.example port=81 secure=0 ip=127.0.0.1 query=q=1 fields=2\n",
            "{more}"
        );
        let forwarded = "GET /plugin/b HTTP/1.1\r\nHost: plug.example\r\nX-Forwarded-Proto: https\r\n\r\n";
        let told = text(&client.ask(forwarded).body);
        assert!(told.contains("host=plug.example port=443 secure=1 "), "{more}: {told}");
        assert_eq!(answer.field("x-greeting"), Some("good day"), "{more}");
        assert_eq!(answer.field("content-type"), Some("text/plain"), "{more}");
        let body = "x".repeat(100_000);
        let post =
            format!("POST /plugin/p HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let answer = client.ask(post);
        assert!(text(&answer.body).ends_with(&format!("\n{body}")), "{more}: {} bytes", answer.body.len());
        // The built-in functions answer what the plug-in does not.
        let answer = client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((answer.status, text(&answer.body).as_str()), (200, "the index"), "{more}");
        let answer = client.ask("GET /plugin/forbidden HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((answer.status, text(&answer.body).as_str()), (403, "not for you"), "{more}");
        assert_eq!(client.ask("GET /missing HTTP/1.1\r\nHost: a\r\n\r\n").status, 404, "{more}");
        let answer = client.ask("DELETE /index.html HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((answer.status, answer.field("allow")), (405, Some("GET, HEAD")), "{more}");
        wait_until("the log of the plug-in", Duration::from_secs(60), || {
            server.get("/plugin/again");
            server
                .error_text()
                .contains("stages-log: for host 127.0.0.1: GET /plugin/forbidden: answered 403 Forbidden")
        });
    }
}

#[test]
fn the_nsapi_send_programs_answer_with_6250_bytes() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/nsapi");
    for (file, function) in [
        ("nsapi-send", "nsapi-send"),
        ("nsapi-send-a", "nsapi-send-a"),
        ("nsapi-send-b", "nsapi-send-b"),
        ("nsapi-send-c", "nsapi-send-c"),
    ] {
        for inline in ["", "inline=yes"] {
            let tree = Tree::empty();
            let plugin = tree.root().join(format!("{file}.so"));
            if compile(&programs.join(format!("{file}.c")), &plugin).is_none() {
                return;
            }
            let config = format!(
                "[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \".\"\n[[site.route]]\n[site.route.nsapi]\n\
                 init = [\"fn=load-modules shlib={file}.so funcs={function} {inline}\"]\n\
                 directives = [\"Service fn={function} method=(GET|HEAD)\"]\n"
            );
            let server = Server::configured(&tree.root(), &config);
            let mut client = server.connect();
            // WebStone requests files of megabytes from nsapi-send; the report's versions have theirs on the
            // stack.
            let most = if function == "nsapi-send" { 8_388_608 } else { 204_800 };
            for (target, expected) in [
                ("/", 6_250),
                ("/x.dyn-send?size=100000", 100_000),
                ("/?size=99999999", most),
                ("/?size=0", 0),
            ] {
                let answer = client.ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
                assert_eq!((answer.status, answer.body.len()), (200, expected), "{file} {inline} {target}");
            }
        }
    }
}

#[test]
fn a_plugin_that_does_not_fit_is_refused_at_the_start() {
    let tree = Tree::empty();
    let root = tree.root();
    let missing =
        "extern int nobody_has_this(void);\nint f(void *a, void *b, void *c) { return nobody_has_this(); }\n";
    if compile_text(&root, "missing", missing).is_none() {
        return;
    }
    compile_text(&root, "plain", "int f(void *a, void *b, void *c) { return 0; }\n");
    tree.write("text.so", b"this is not a library");
    for (init, directive, expected) in [
        ("fn=load-modules shlib=missing.so funcs=f", "Service fn=f", "undefined symbol: nobody_has_this"),
        ("fn=load-modules shlib=plain.so funcs=g", "Service fn=g", "plain.so has no function g"),
        ("fn=load-modules shlib=text.so funcs=f", "Service fn=f", "not a shared library for this machine"),
        ("fn=load-modules shlib=none.so funcs=f", "Service fn=f", "none.so cannot be read"),
        ("fn=load-modules shlib=plain.so funcs=f", "Service fn=send-fil", "did you mean \"send-file\"?"),
        (
            "fn=load-modules shlib=plain.so funcs=f",
            "PathCheck fn=check-acl acl=secret",
            "check-acl is not supported",
        ),
    ] {
        for host in ["server", "process"] {
            let config = format!(
                "[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \".\"\n[[site.route]]\n[site.route.nsapi]\n\
                 host = \"{host}\"\n\
                 init = [\"{init}\"]\ndirectives = [\"{directive}\"]\n"
            );
            tree.write("touchstone.toml", config.as_bytes());
            let path = root.join("touchstone.toml");
            let path = path.to_str().expect("the path is text");
            for output in [run(["check", "--config", path]), run(["serve", "--config", path])] {
                let said = text(&output.stderr);
                assert!(
                    !output.status.success() && said.contains(expected),
                    "{host} {init} {directive}: {said}"
                );
            }
        }
    }
}

/// The obj.conf that the installers of 6.1 and 7.0 wrote, except for directories.
const DEFAULT_OBJ_CONFS: [&str; 2] = [
    r#"
<Object name="default">
AuthTrans fn="match-browser" browser="*MSIE*" ssl-unclean-shutdown="true"
NameTrans fn="ntrans-j2ee" name="j2ee"
NameTrans fn=pfx2dir from=/mc-icons dir="/opt/SUNWwbsvr/ns-icons" name="es-internal"
NameTrans fn=document-root root="$docroot"
PathCheck fn=unix-uri-clean
PathCheck fn="check-acl" acl="default"
PathCheck fn=find-pathinfo
PathCheck fn=find-index index-names="index.html,home.html"
ObjectType fn=type-by-extension
ObjectType fn=force-type type=text/plain
Service method=(GET|HEAD) type=magnus-internal/imagemap fn=imagemap
Service method=(GET|HEAD) type=magnus-internal/directory fn=index-common
Service method=(GET|HEAD|POST) type=*~magnus-internal/* fn=send-file
Service method=TRACE fn=service-trace
Error fn="error-j2ee"
AddLog fn=flex-log name="access"
</Object>
<Object name=j2ee>
Service fn=service-j2ee method="*"
</Object>
<Object name="cgi">
ObjectType fn=force-type type=magnus-internal/cgi
Service fn=send-cgi user="$user" group="$group" chroot="$chroot" dir="$dir" nice="$nice"
</Object>
<Object name="es-internal">
PathCheck fn="check-acl" acl="es-internal"
</Object>
<Object name="send-compressed">
PathCheck fn="find-compressed"
</Object>
<Object name="compress-on-demand">
Output fn="insert-filter" filter="http-compression"
</Object>
<Object name="plugin-filter">
Input fn="insert-filter" filter="own-filter"
</Object>
"#,
    r#"
<Object name="default">
AuthTrans fn="match-browser" browser="*MSIE*" ssl-unclean-shutdown="true"
NameTrans fn="ntrans-j2ee" name="j2ee"
NameTrans fn="pfx2dir" from="/mc-icons" dir="/opt/webserver7/lib/icons" name="es-internal"
PathCheck fn="uri-clean"
PathCheck fn="check-acl" acl="default"
PathCheck fn="find-pathinfo"
PathCheck fn="find-index-j2ee"
PathCheck fn="find-index" index-names="index.html,home.html,index.jsp"
ObjectType fn="type-j2ee"
ObjectType fn="type-by-extension"
ObjectType fn="force-type" type="text/plain"
Service method="(GET|HEAD)" type="magnus-internal/directory" fn="index-common"
Service method="(GET|HEAD|POST)" type="*~magnus-internal/*" fn="send-file"
Service method="TRACE" fn="service-trace"
Error fn="error-j2ee"
AddLog fn="flex-log"
</Object>
<Object name="j2ee">
Service fn="service-j2ee" method="*"
</Object>
<Object name="es-internal">
PathCheck fn="check-acl" acl="es-internal"
</Object>
<Object name="send-precompressed">
PathCheck fn="find-compressed"
</Object>
<Object name="compress-on-demand">
Output fn="insert-filter" filter="http-compression"
</Object>
<Object name="cgi">
ObjectType fn="force-type" type="magnus-internal/cgi"
Service fn="send-cgi"
</Object>
"#,
];

#[test]
fn the_default_obj_conf_of_sun_is_taken() {
    for obj_conf in DEFAULT_OBJ_CONFS {
        let tree = Tree::empty();
        let root = tree.root();
        tree.write("obj.conf", obj_conf.as_bytes());
        tree.write("index.html", b"the index");
        let config = "[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \".\"\n[[site.route]]\n\
            nsapi = { obj_conf = \"obj.conf\" }\n";
        let server = Server::configured(&root, config);
        assert_eq!(server.get("/").body, b"the index");
        let answer = server.connect().ask("TRACE / HTTP/1.1\r\nHost: a\r\nCookie: secret=1\r\n\r\n");
        assert!(answer.status >= 400 && !text(&answer.body).contains("secret"), "{}", answer.status);
        // In an object that requests reach, a missing filter is an error.
        tree.write(
            "obj.conf",
            obj_conf
                .replace("http-compression", "own")
                .replace("\"j2ee\"", "\"compress-on-demand\"")
                .as_bytes(),
        );
        tree.write("touchstone.toml", config.as_bytes());
        let path = root.join("touchstone.toml");
        let output = run(["check", "--config", path.to_str().expect("the path is text")]);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains("the stage Output is not supported"), "{said}");
    }
}

#[test]
fn a_plugin_that_crashes_in_its_own_process_costs_its_requests_only() {
    let tree = Tree::empty();
    let Some(server) = stages_server(&tree, ", host = \"process\"") else { return };
    for _ in 0..2 {
        assert_eq!(server.get("/plugin/crash").status, 502);
        wait_until("another process takes over", Duration::from_secs(60), || {
            server.get("/plugin/ok").status == 200
        });
    }
    let named = "the function stages-crash of the plug-in stages.so has crashed with SIGSEGV";
    for words in [named, "the process for plug-ins ended (by signal 11)"] {
        server.wait_for_error_line(words, |line| line.contains(words));
    }
}
