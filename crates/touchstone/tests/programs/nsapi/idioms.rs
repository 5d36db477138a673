//! Idioms of public plug-ins: `idioms.c` names the plug-ins.

use std::fs;
use std::path::Path;

use crate::nsapi::{compile, compile_text, text};
use crate::support::{Server, Tree, skipped};

const OBJ_CONF: &str = "\
<Object name=default>
NameTrans fn=idioms-name lines=\"ROOT/lines.txt\"
NameTrans fn=assign-name from=\"/idioms/check/*\" name=check
NameTrans fn=assign-name from=/idioms/post name=post
NameTrans fn=assign-name from=/idioms/redirect name=redirect
NameTrans fn=assign-name from=/idioms/conflict name=conflict
NameTrans fn=assign-name from=/idioms/virtual name=virtual
NameTrans fn=assign-name from=/idioms/raw name=raw
NameTrans fn=assign-name from=/secret.txt name=secret
PathCheck fn=unix-uri-clean
PathCheck fn=find-pathinfo
ObjectType fn=type-by-extension
ObjectType fn=force-type type=text/plain
Service method=(GET|HEAD) type=*~magnus-internal/* fn=send-file
Error fn=idioms-error code=409
AddLog fn=idioms-log
</Object>
<Object name=check>
Service fn=idioms-check
</Object>
<Object name=post>
Service fn=idioms-post method=POST
</Object>
<Object name=redirect>
Service fn=idioms-redirect
</Object>
<Object name=conflict>
Service fn=idioms-conflict
</Object>
<Object name=virtual>
Service fn=idioms-virtual
</Object>
<Object name=raw>
Service fn=idioms-raw
</Object>
<Object name=secret>
AuthTrans fn=basic-auth auth-type=basic userdb=garbage
          userfn=idioms-user
PathCheck fn=require-auth realm=\"test realm\" auth-type=basic
</Object>
";

fn start(tree: &Tree, host: &str) -> Option<Server> {
    let root = tree.root();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/nsapi/idioms.c");
    compile(&source, &root.join("idioms.so"))?;
    tree.write("lines.txt", b"first\nsecond");
    let shown = root.to_str().expect("the path is text");
    tree.write("obj.conf", OBJ_CONF.replace("ROOT", shown).as_bytes());
    let magnus = format!(
        "Init fn=load-modules shlib=idioms.so \
         funcs=\"idioms-init,idioms-name,idioms-check,idioms-post,idioms-redirect,\
         idioms-error,idioms-conflict,idioms-virtual,idioms-user,idioms-raw,idioms-log\"\n\
         Init fn=idioms-init log=\"{shown}/plugin.log\"\n"
    );
    tree.write("magnus.conf", magnus.as_bytes());
    let config = format!(
        "[error_log]\npath = \"stderr\"\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \".\"\n[[site.route]]\n\
         nsapi = {{ obj_conf = \"obj.conf\", magnus_conf = \"magnus.conf\", host = \"{host}\" }}\n"
    );
    Some(Server::configured(&root, &config))
}

#[test]
fn everything_that_public_plugins_use_works() {
    for host in ["server", "process"] {
        let tree = Tree::empty();
        let Some(server) = start(&tree, host) else { return };
        let mut client = server.connect();
        let answer = client.ask(
            "GET /idioms/check/a%20b?q=1&r=%20 HTTP/1.1\r\nHost: idioms.example:8081\r\nX-Test: a b\r\n\r\n",
        );
        let said = text(&answer.body);
        assert_eq!(answer.status, 200, "{host}: {said}");
        let wrong: Vec<&str> = said.lines().filter(|line| !line.starts_with("ok ")).collect();
        assert!(
            wrong.is_empty() && said.lines().count() == 50,
            "{host}: {wrong:?} of {}\n{said}",
            said.lines().count()
        );
        assert!(said.ends_with("ok net_flush\n"), "{host}: {said}");
    }
}

#[test]
fn bodies_of_either_kind_have_a_length_for_plugins() {
    for host in ["server", "process"] {
        let tree = Tree::empty();
        let Some(server) = start(&tree, host) else { return };
        let mut client = server.connect();
        for length in [0, 1, 70_000, 300_000] {
            let body = "x".repeat(length);
            let expected = format!("{length} bytes, 0 missing, sum {}\n", length * usize::from(b'x'));
            let whole =
                format!("POST /idioms/post HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}");
            let chunk = if length == 0 { String::new() } else { format!("{length:x}\r\n{body}\r\n") };
            let chunked = format!(
                "POST /idioms/post HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}0\r\n\r\n"
            );
            for request in [whole, chunked] {
                // The answer is whole, so REQ_EXIT does not change it, and the connection continues.
                let answer = client.ask(request);
                assert_eq!((answer.status, text(&answer.body)), (200, expected.clone()), "{host}");
            }
        }
    }
}

#[test]
fn redirects_errors_and_logs_are_as_plugins_expect() {
    for host in ["server", "process"] {
        let tree = Tree::empty();
        let Some(mut server) = start(&tree, host) else { return };
        let answer = server.get("/idioms/redirect");
        assert_eq!(
            (answer.status, answer.field("location")),
            (302, Some("http://other.example/a%20b")),
            "{host}"
        );
        let answer = server.get("/idioms/conflict");
        assert_eq!((answer.status, text(&answer.body).as_str()), (409, "made by the plug-in"), "{host}");
        // A function of the server that a plug-in has replaced, and calls.
        let answer = server.get("/lines.txt");
        assert_eq!((answer.status, answer.field("x-counted")), (200, Some("yes")), "{host}");
        let answer = server.get("/idioms/virtual?/lines.txt");
        assert_eq!(text(&answer.body), "[first\nsecond] 200 1", "{host}");
        let answer = server.get("/idioms/virtual?/none.txt");
        assert_eq!(text(&answer.body), "[] 404 1", "{host}");
        assert_eq!(text(&server.get("/idioms/raw").body), "raw", "{host}");
        server.stop();
        let log = fs::read_to_string(tree.root().join("plugin.log")).expect("the plug-in has written a log");
        let log = log.replace("302 Found", "302 Moved Temporarily");
        let requests = log.strip_suffix("ended\nended\n").unwrap_or_else(|| panic!("{host}: {log}"));
        // A line is written when the client has its answer: the next request may have written before.
        let mut requests: Vec<&str> = requests.lines().collect();
        requests.sort_unstable();
        let expected = [
            "200 OK /idioms/virtual",
            "200 OK /idioms/virtual",
            "200 OK /lines.txt",
            "203 Non-Authoritative Information /idioms/raw",
            "302 Moved Temporarily /idioms/redirect",
            "409 Conflict /idioms/conflict",
        ];
        assert_eq!(requests, expected, "{host}");
    }
}

#[test]
fn a_plugin_says_which_passwords_are_right() {
    for host in ["server", "process"] {
        let tree = Tree::empty();
        let Some(server) = start(&tree, host) else { return };
        tree.write("secret.txt", b"the secret");
        let mut client = server.connect();
        // joe:shmoe and joe:wrong
        for (authorization, status, body) in [
            ("", 401, None),
            ("Authorization: Basic am9lOndyb25n\r\n", 401, None),
            ("Authorization: Basic am9lOnNobW9l\r\n", 200, Some("the secret")),
        ] {
            let answer = client.ask(format!("GET /secret.txt HTTP/1.1\r\nHost: a\r\n{authorization}\r\n"));
            assert_eq!(answer.status, status, "{host} {authorization}");
            let challenge = (status == 401).then_some("Basic realm=\"test realm\"");
            assert_eq!(answer.field("www-authenticate"), challenge, "{host} {authorization}");
            assert!(body.is_none_or(|body| text(&answer.body) == body), "{host}");
        }
    }
}

#[test]
fn the_header_is_one_for_cpp_as_well() {
    let tree = Tree::empty();
    let root = tree.root();
    let source = "extern \"C\" {\n#include <nsapi.h>\n}\n#include <string>\n#include <fstream>\n\
        static std::filebuf other;\n\
        extern \"C\" NSAPI_PUBLIC int plus(pblock* pb, ::Session* sn, Request* rq)\n{\n\
        const std::string host = pblock_findval(\"host\", rq->headers);\n\
        const pb_entry* entry = rq->headers->ht[0];\n(void)entry; (void)pb;\n\
        param_free(pblock_remove(\"content-type\", rq->srvhdrs));\n\
        pblock_nvinsert(\"content-type\", \"text/plain\", rq->srvhdrs);\n\
        protocol_status(sn, rq, PROTOCOL_OK, nullptr);\n\
        if (vs_is_default_vs(request_get_vs(rq)) && protocol_start_response(sn, rq) != REQ_NOACTION)\n\
        net_write(sn->csd, const_cast<char*>(host.c_str()), host.length());\nreturn REQ_PROCEED;\n}\n";
    fs::write(root.join("plus.cpp"), source).expect("the source is written");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let Ok(output) = std::process::Command::new("c++")
        .args(["-shared", "-fPIC", "-Wall", "-I"])
        .arg(include)
        .args(["plus.cpp", "-o", "plus.so"])
        .current_dir(&root)
        .output()
    else {
        return skipped("plug-ins in C++ (install g++)");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let config = "[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \".\"\n[[site.route]]\n[site.route.nsapi]\n\
                  init = [\"fn=load-modules shlib=plus.so funcs=plus\"]\n\
                  directives = [\"Service fn=plus\"]\n";
    let server = Server::configured(&root, config);
    let answer = server.connect().ask("GET / HTTP/1.1\r\nHost: c.example\r\n\r\n");
    assert_eq!((answer.status, text(&answer.body).as_str()), (200, "c.example"));
}

/// As plug-ins did it before there were tables: without `nsapi.h`, by plain names.
const WITHOUT_HEADER: &str = r#"
extern void *session_alloc(void *, void *), *session_fill(void *), *cs_init(int);
extern void session_free(void *), cs_terminate(void *), protocol_status(void *, void *, int, char *);
extern int cs_trywait(void *), cs_release(void *), util_strcasecmp(char *, char *);
extern int util_strncasecmp(char *, char *, int), net_write(void *, char *, int);
extern int protocol_start_response(void *, void *);

struct session { void *client; void *csd; };

int plain_service(void *pb, struct session *sn, void *rq)
{
    void *count = cs_init(1);
    void *session = session_fill(session_alloc(0, 0));
    int right = session && cs_trywait(count) == 0 && cs_trywait(count) != 0 && cs_release(count) == 0
        && util_strcasecmp("Abc", "aBC") == 0 && util_strncasecmp("Abx", "aBC", 2) == 0;
    cs_terminate(count);
    session_free(session);
    protocol_status(sn, rq, 200, 0);
    protocol_start_response(sn, rq);
    net_write(sn->csd, right ? "right" : "wrong", 5);
    return 0;
}
"#;

#[test]
fn a_plugin_without_the_header_finds_the_functions_by_their_names() {
    let tree = Tree::empty();
    let root = tree.root();
    if compile_text(&root, "plain", WITHOUT_HEADER).is_none() {
        return;
    }
    let server = Server::configured(
        &root,
        "[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \".\"\n[[site.route]]\n[site.route.nsapi]\n\
         init = [\"fn=load-modules shlib=plain.so funcs=plain-service\"]\n\
         directives = [\"Service fn=plain-service\"]\n",
    );
    assert_eq!(text(&server.get("/").body), "right");
}
