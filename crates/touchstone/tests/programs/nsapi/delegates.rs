//! Requests that an obj.conf passes to other parts of the server: programs, pages with directives, listings.

use crate::nsapi::{compile_text, text};
use crate::support::{AnswerTo, Server, Tree, write_program};

const OBJ_CONF: &str = "\
<Object name=default>
NameTrans fn=pfx2dir from=/cgi-bin dir=\"ROOT/programs\" name=cgi
NameTrans fn=pfx2dir from=/docs dir=\"ROOT/elsewhere\"
NameTrans fn=document-root root=\"$docroot\"
PathCheck fn=unix-uri-clean
PathCheck fn=check-acl acl=\"default\"
PathCheck fn=find-pathinfo
PathCheck fn=find-index index-names=\"index.html,home.html\"
ObjectType fn=type-by-extension
ObjectType fn=force-type type=text/plain
Service method=(GET|HEAD) type=magnus-internal/imagemap fn=imagemap
Service method=(GET|HEAD) type=magnus-internal/directory fn=index-common
Service method=(GET|HEAD) type=magnus-internal/parsed-html fn=parse-html
Service type=magnus-internal/cgi fn=send-cgi
Service method=(GET|HEAD) type=*~magnus-internal/* fn=send-file
AddLog fn=flex-log name=access
</Object>
<Object name=cgi>
ObjectType fn=force-type type=magnus-internal/cgi
Service fn=send-cgi user=\"$user\" nice=\"$nice\"
</Object>
";

fn program(tree: &Tree, name: &str, text: &str) {
    write_program(&tree.file(name), format!("#!/bin/sh\n{text}"));
}

fn start(tree: &Tree, more: &str, route: &str, log: &str) -> Server {
    let root = tree.root();
    let shown = root.to_str().expect("the path is text");
    tree.write("obj.conf", OBJ_CONF.replace("ROOT", shown).replace("fn=flex-log name=access", log));
    program(
        tree,
        "programs/show",
        "echo Content-Type: text/plain; echo; echo \"$REQUEST_METHOD $SCRIPT_NAME $PATH_INFO $QUERY_STRING \
         $CONTENT_LENGTH\"; cat\n",
    );
    program(tree, "programs/fails", "exit 1\n");
    program(tree, "site/own.cgi", "echo X-Own: yes; echo Content-Type: text/plain; echo; echo $A_VARIABLE\n");
    tree.write(
        "site/page.shtml",
        "<!--#echo var=\"DOCUMENT_URI\" -->, <!--#include virtual=\"part.html\" -->",
    );
    tree.write("site/part.html", "the part");
    tree.write(
        "elsewhere/page.shtml",
        "<!--#include virtual=\"inner.shtml\" -->|<!--#include virtual=\"/cgi-bin/show?x\" -->",
    );
    tree.write("elsewhere/inner.shtml", "<!--#echo var=\"DOCUMENT_URI\" -->");
    tree.write("site/list/a&b.txt", "1");
    tree.write("site/list/.hidden", "1");
    tree.write(
        "site/where.map",
        "default /nowhere\nrect /left 0,0 49,99\ncircle (80,50) 10 /circle\npoly /corner 90,90 99,90 99,99\n",
    );
    let config = format!(
        "[error_log]\npath = \"stderr\"\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \"site\"\n\
         [[site.route]]\n\
         nsapi = {{ obj_conf = \"obj.conf\"{more} }}\n{route}"
    );
    Server::configured(&root, &config)
}

#[test]
fn programs_pages_and_listings_are_answered_where_an_obj_conf_finds_them() {
    for more in ["", ", host = \"process\""] {
        let tree = Tree::empty();
        let server =
            start(&tree, more, "cgi = { environment = { A_VARIABLE = \"of the route\" } }\n", "fn=flex-log");
        let mut client = server.connect();
        let body = |answer: &crate::support::Response| text(&answer.body);
        let answer = client.ask("GET /cgi-bin/show/more/path?q=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(
            (answer.status, body(&answer).as_str()),
            (200, "GET /cgi-bin/show /more/path q=1 \n"),
            "{more}"
        );
        // The program gets a body that no plug-in has read.
        for length in [3, 200_000] {
            let sent = "y".repeat(length);
            let answer = client.ask(format!(
                "POST /cgi-bin/show HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{sent}"
            ));
            let expected = format!("POST /cgi-bin/show   {length}\n{sent}");
            assert!(answer.status == 200 && body(&answer) == expected, "{more} {length}: {}", answer.status);
        }
        let answer = client.ask(
            "POST /cgi-bin/show HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                                 2\r\nab\r\n0\r\n\r\n",
        );
        assert_eq!(body(&answer), "POST /cgi-bin/show   2\nab", "{more}");
        let answer = client.ask("GET /own.cgi HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(
            (body(&answer).as_str(), answer.field("x-own")),
            ("of the route\n", Some("yes")),
            "{more}"
        );
        assert_eq!(client.ask("GET /cgi-bin/fails HTTP/1.1\r\nHost: a\r\n\r\n").status, 502, "{more}");
        assert_eq!(client.ask("GET /cgi-bin/none HTTP/1.1\r\nHost: a\r\n\r\n").status, 404, "{more}");
        let answer = client.ask("GET /page.shtml HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((answer.status, body(&answer).as_str()), (200, "/page.shtml, the part"), "{more}");
        assert_eq!(answer.field("content-type"), Some("text/html"), "{more}");
        // The page is elsewhere on the disk; its includes are paths of the site.
        let answer = client.ask("GET /docs/page.shtml HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(body(&answer), "/docs/inner.shtml|GET /cgi-bin/show  x \n", "{more}");
        client.send("HEAD /page.shtml HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.try_answer(AnswerTo::Head).map(|answer| answer.status).ok(), Some(200), "{more}");
        assert_eq!(
            client.ask("POST /page.shtml HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx").status,
            405,
            "{more}"
        );
        let answer = client.ask("GET /list/ HTTP/1.1\r\nHost: a\r\n\r\n");
        let listing = body(&answer);
        assert!(
            answer.status == 200 && listing.contains("a&amp;b.txt") && listing.contains("/list/"),
            "{more}: {listing}"
        );
        assert!(!listing.contains(".hidden"), "{more}: {listing}");
        assert_eq!(client.ask("GET /nothing/ HTTP/1.1\r\nHost: a\r\n\r\n").status, 404, "{more}");
        for (at, place) in [
            ("10,10", "/left"),
            ("85,52", "/circle"),
            ("97,91", "/corner"),
            ("60,5", "/nowhere"),
            ("x", "/nowhere"),
        ] {
            let answer = client.ask(format!("GET /where.map?{at} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!((answer.status, answer.field("location")), (302, Some(place)), "{more} {at}");
        }
    }
}

#[test]
fn a_plugin_counts_what_it_hands_on_to_send_cgi() {
    let counting = r#"
#include <nsapi.h>
static FuncPtr real;
static int count;
static int counting(pblock *pb, Session *sn, Request *rq)
{
    count++;
    return real(pb, sn, rq);
}
int watch_init(pblock *pb, Session *sn, Request *rq)
{
    real = func_replace("send-cgi", counting);
    return real ? REQ_PROCEED : REQ_ABORTED;
}
int watch_log(pblock *pb, Session *sn, Request *rq)
{
    log_error(LOG_INFORM, "watch", sn, rq, "%d programs, %s", count, pblock_findval("status", rq->srvhdrs));
    return REQ_PROCEED;
}
"#;
    let tree = Tree::empty();
    if compile_text(&tree.root(), "watch", counting).is_none() {
        return;
    }
    let more = ", init = [\"fn=load-modules shlib=watch.so funcs=watch-init,watch-log\", \"fn=watch-init\"]";
    let server = start(&tree, more, "", "fn=watch-log");
    for _ in 0..2 {
        assert_eq!(server.get("/cgi-bin/show").status, 200);
    }
    crate::support::wait_until("the log of the plug-in", std::time::Duration::from_secs(60), || {
        server.get("/part.html");
        server.error_text().contains("2 programs, 200 OK")
    });
}
