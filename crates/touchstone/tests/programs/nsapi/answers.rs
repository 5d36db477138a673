//! Answers of plug-ins as clients see them: types of files, fields of one name, lengths, and what is sent
//! when.

use std::io::Read as _;
use std::time::Duration;

use crate::nsapi::{compile_text, text};
use crate::support::{AnswerTo, Server, Tree, wait_until};

const PLUGIN: &str = r#"
#include "base/pblock.h"
#include "frame/protocol.h"
#include <string.h>
#include <unistd.h>

/* As PHP's function: it never sends the file itself. */
NSAPI_PUBLIC int answers_page(pblock *pb, Session *sn, Request *rq)
{
    param_free(pblock_remove("content-type", rq->srvhdrs));
    pblock_nvinsert("content-type", "text/plain", rq->srvhdrs);
    protocol_status(sn, rq, PROTOCOL_OK, NULL);
    if (protocol_start_response(sn, rq) == REQ_NOACTION)
        return REQ_PROCEED;
    net_write(sn->csd, "a page", 6);
    return REQ_PROCEED;
}

/* Says the fields that it has got, and sets two cookies of one name. */
NSAPI_PUBLIC int answers_fields(pblock *pb, Session *sn, Request *rq)
{
    char line[512];
    char *joined = pblock_findval("x-joined", rq->headers);
    char *cookie = pblock_findval("cookie", rq->headers);

    pblock_nvinsert("set-cookie", "id=old", rq->srvhdrs);
    pblock_nvinsert("set-cookie", "id=new", rq->srvhdrs);
    util_snprintf(line, sizeof line, "%s|%s", joined ? joined : "-", cookie ? cookie : "-");
    if (pblock_findval("length", pb))
        pblock_nninsert("content-length", strlen(line), rq->srvhdrs);
    protocol_status(sn, rq, PROTOCOL_OK, NULL);
    if (protocol_start_response(sn, rq) == REQ_NOACTION)
        return REQ_PROCEED;
    net_write(sn->csd, line, strlen(line));
    return REQ_PROCEED;
}

/* Says a reason of its own, in one of the two ways. */
NSAPI_PUBLIC int answers_reason(pblock *pb, Session *sn, Request *rq)
{
    static const char raw[] = "HTTP/1.0 404 Gone fishing\r\nContent-length: 1\r\n\r\nx";

    if (pblock_findval("raw", pb)) {
        net_write(sn->csd, (char *)raw, sizeof raw - 1);
        return REQ_PROCEED;
    }
    protocol_status(sn, rq, PROTOCOL_NOT_FOUND, "Gone fishing");
    protocol_start_response(sn, rq);
    return REQ_PROCEED;
}

/* Answers as a server does: an interim response, then a body in chunks, in two pieces. */
NSAPI_PUBLIC int answers_chunks(pblock *pb, Session *sn, Request *rq)
{
    static const char head[] = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n5\r\nhel";
    char *rest = pblock_findval("rest", pb);

    net_write(sn->csd, (char *)head, sizeof head - 1);
    if (!strcmp(rest, "whole"))
        net_write(sn->csd, "lo\r\n6\r\n there\r\n0\r\n\r\n", 21);
    else if (!strcmp(rest, "short"))
        net_write(sn->csd, "lo\r\n", 4);
    else
        net_write(sn->csd, "lo wrong", 8);
    return REQ_PROCEED;
}

/* Writes, waits until the file of its parameter is there, and writes again. */
NSAPI_PUBLIC int answers_wait(pblock *pb, Session *sn, Request *rq)
{
    if (pblock_findval("first", pb)) {
        protocol_status(sn, rq, PROTOCOL_OK, NULL);
        protocol_start_response(sn, rq);
        net_write(sn->csd, "first,", 6);
    }
    while (access(pblock_findval("file", pb), F_OK) != 0)
        systhread_sleep(5);
    net_write(sn->csd, "second", 6);
    return REQ_PROCEED;
}
"#;

/// The three ways in which functions run.
const WAYS: [(&str, &str); 3] = [("", ""), (" inline=yes", ""), ("", "host = \"process\"\n")];

fn start(tree: &Tree, way: (&str, &str), site: &str, init: &str, directives: &str) -> Option<Server> {
    let root = tree.root();
    compile_text(&root, "answers", PLUGIN)?;
    let config = format!(
        "[error_log]\npath = \"stderr\"\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \".\"\n{site}\
         [[site.route]]\n[site.route.nsapi]\n{}\
         init = [\"fn=load-modules shlib=answers.so \
         funcs=answers-page,answers-fields,answers-reason,answers-chunks,answers-wait{}\"{init}]\n\
         directives = [{directives}]\n",
        way.1, way.0,
    );
    Some(Server::configured(&root, &config))
}

/// A site as the readme of PHP describes it: a file with the ending is its function's, and never sent.
#[test]
fn types_of_the_site_and_of_load_types_keep_sources_from_being_sent() {
    let directives = "\"ObjectType fn=type-by-extension\", \"ObjectType fn=force-type type=text/plain\", \
        \"Service fn=answers-page type=magnus-internal/x-httpd-php\", \
        \"Service method=(GET|HEAD) type=*~magnus-internal/* fn=send-file\"";
    let of_site = "mime_types = { php = \"magnus-internal/x-httpd-php\", txt = \"text/x-own\" }\n";
    let loaded = ", \"fn=load-types mime-types=mime.types\"";
    for way in WAYS {
        for (site, init) in [(of_site, ""), ("", loaded)] {
            let tree = Tree::empty();
            tree.write("mime.types", b"type=magnus-internal/x-httpd-php exts=php\ntext/x-own txt\n");
            tree.write("page.php", b"<?php $password = 'secret';");
            tree.write("page.txt", b"plain");
            let Some(server) = start(&tree, way, site, init, directives) else { return };
            let page = server.get("/page.php");
            assert_eq!((page.status, text(&page.body).as_str()), (200, "a page"), "{way:?} {init}");
            let plain = server.get("/page.txt");
            assert_eq!(
                (plain.status, plain.field("content-type")),
                (200, Some("text/x-own")),
                "{way:?} {init}"
            );
        }
    }
    let tree = Tree::empty();
    let Some(server) = start(&tree, WAYS[0], "", "", directives) else { return };
    let words = "no file name extension and no ObjectType line has the type magnus-internal/x-httpd-php";
    server.get("/");
    server.wait_for_error_line(words, |line| line.contains(words));
}

#[test]
fn fields_of_one_name_keep_their_order_both_ways() {
    for way in WAYS {
        let tree = Tree::empty();
        let directives = "\"Service fn=answers-fields\"";
        let Some(server) = start(&tree, way, "", "", directives) else { return };
        let answer = server.connect().ask(
            "GET / HTTP/1.1\r\nHost: a\r\nX-Joined: 1.1.1.1\r\nCookie: a=1\r\n\
             X-Joined: 2.2.2.2, 3.3.3.3\r\nCookie: b=2\r\n\r\n",
        );
        assert_eq!(text(&answer.body), "1.1.1.1, 2.2.2.2, 3.3.3.3|a=1; b=2", "{way:?}");
        let cookies: Vec<&str> = answer.values("set-cookie").collect();
        assert_eq!(cookies, ["id=old", "id=new"], "{way:?}");
    }
}

#[test]
fn chunks_that_a_function_writes_are_taken_apart() {
    for way in WAYS {
        for rest in ["whole", "short", "wrong"] {
            let tree = Tree::empty();
            let directives = format!("\"Service fn=answers-chunks rest={rest}\"");
            let Some(server) = start(&tree, way, "", "", &directives) else { return };
            let mut client = server.connect();
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let answer = client.try_answer(AnswerTo::Other);
            if rest == "whole" {
                let answer = answer.unwrap();
                assert_eq!((answer.status, answer.field("x-a")), (200, Some("b")), "{way:?}");
                assert_eq!(text(&answer.body), "hello there", "{way:?}");
            } else {
                assert!(!answer.is_ok_and(|answer| answer.status == 200), "{way:?} {rest}");
            }
        }
    }
}

#[test]
fn the_reason_that_a_function_gives_reaches_the_client() {
    for way in WAYS {
        for parameter in ["", " raw=yes"] {
            let tree = Tree::empty();
            let directives = format!("\"Service fn=answers-reason{parameter}\"");
            let Some(server) = start(&tree, way, "", "", &directives) else { return };
            let answer = server.get("/");
            assert_eq!((answer.status, answer.reason.as_str()), (404, "Gone fishing"), "{way:?} {parameter}");
        }
    }
}

/// RFC 9110 section 8.6: none, or the right one.
#[test]
fn head_has_the_length_that_the_function_says_or_none() {
    for way in WAYS {
        for (parameter, expected) in [("", None), (" length=yes", Some("3"))] {
            let tree = Tree::empty();
            let directives = format!("\"Service fn=answers-fields{parameter}\"");
            let Some(server) = start(&tree, way, "", "", &directives) else { return };
            let mut client = server.connect();
            client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
            let answer = client.try_answer(AnswerTo::Head).expect("an answer to HEAD");
            assert_eq!(
                (answer.status, answer.field("content-length")),
                (200, expected),
                "{way:?} {parameter}"
            );
        }
    }
}

/// The ways in which a function may wait.
const WAITING_WAYS: [(&str, &str); 2] = [WAYS[0], WAYS[2]];

/// Server push, and lines that a page flushes: they arrive while the function still works.
#[test]
fn what_is_written_arrives_while_the_function_waits() {
    for way in WAITING_WAYS {
        let tree = Tree::empty();
        let go = tree.root().join("go");
        let directives = format!("\"Service fn=answers-wait first=yes file={}\"", go.display());
        let Some(server) = start(&tree, way, "", "", &directives) else { return };
        let mut client = server.connect();
        client.send("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
        let mut received = Vec::new();
        while !received.ends_with(b"first,") {
            let mut piece = [0; 1_000];
            let got = client.stream().read(&mut piece).expect("the beginning arrives before the end is made");
            assert_ne!(got, 0, "{way:?}: {}", text(&received));
            received.extend_from_slice(&piece[..got]);
        }
        tree.write("go", b"");
        let (rest, end) = client.read_to_end();
        assert!(end.is_ok() && rest.ends_with(b"second"), "{way:?}: {}", text(&rest));
    }
}

#[test]
fn functions_that_hang_are_given_up_and_their_threads_replaced() {
    for way in WAITING_WAYS {
        let tree = Tree::empty();
        let go = tree.root().join("go");
        let lines = "\"NameTrans fn=assign-name from=/hangs name=hangs\", \"Service fn=answers-page\"]\n\
             obj_conf = \"obj.conf\"\nthreads = 2\nfunction_timeout = \"100ms\"\ninline = [";
        tree.write(
            "obj.conf",
            format!("<Object name=hangs>\nService fn=answers-wait file={}\n</Object>\n", go.display())
                .as_bytes(),
        );
        let Some(server) = start(&tree, way, "", "", lines) else { return };
        // A process is ended when as many hang as there are threads; threads are replaced up to as many
        // again.
        let hanging = if way == WAYS[0] { 3 } else { 2 };
        for _ in 0..hanging {
            assert_eq!(server.get("/hangs").status, 504, "{way:?}");
        }
        wait_until("a thread or process for others", Duration::from_secs(60), || {
            server.get("/").body == b"a page"
        });
        let words = "the function answers-wait of the plug-in answers.so has not returned, read or written";
        if way == WAYS[0] {
            server.wait_for_error_line(words, |line| line.contains(words));
        }
        tree.write("go", b"");
    }
}

/// No rule denies the path that an obj.conf computes, without the path parameters.
#[test]
fn no_way_of_writing_a_path_leads_past_a_rule() {
    let tree = Tree::empty();
    let root = tree.root();
    std::fs::create_dir_all(root.join("admin")).expect("a directory is made");
    tree.write("admin/secret", b"the secret");
    tree.write("open", b"open");
    let nsapi = "[site.route.nsapi]\ndirectives = [\"NameTrans fn=strip-params\", \
        \"NameTrans fn=document-root root=$docroot\", \"PathCheck fn=unix-uri-clean\", \
        \"PathCheck fn=find-pathinfo\", \"Service fn=send-file\"]\n";
    let config = format!(
        "[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \".\"\n[[site.route]]\npath = \"/admin/\"\n\
         deny = [\"0.0.0.0/0\", \"::/0\"]\n{nsapi}[[site.route]]\n{nsapi}"
    );
    let server = Server::configured(&root, &config);
    assert_eq!(server.get("/open;a=b").body, b"open");
    for target in [
        "/admin/secret",
        "/admin//secret",
        "/admin;x/secret",
        "/admin;/secret",
        "/admin/;/secret",
        "/admin%3bx/secret",
        "/;/admin/secret",
        "/;a=b/admin/secret",
        "/x/..;/admin/secret",
        "/x/..;a=b/admin/secret",
        "/x/%2e%2e;/admin/secret",
        "/.;/admin/secret",
        "/./admin/./secret",
        "/x/../admin/secret;y",
        "/admin%2fsecret",
        "/admin%2f..%2fadmin%2fsecret",
        "/admin\\secret",
        "/%61dmin/secret",
        "/open/../admin/secret",
        "/open/..;/admin/secret",
    ] {
        let answer = server.connect().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(answer.status >= 300 && answer.body != b"the secret", "{target}: {}", answer.status);
    }
}
