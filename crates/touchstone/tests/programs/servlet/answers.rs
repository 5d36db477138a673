//! What applications do with their answers, uploads and connections beyond the usual, as Tomcat does it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use http::Request;

use super::certificates::make_certificates;
use super::http::{connect, exchange, runtime};
use super::{
    BOTH, START, ask, caller, copy, get_patiently, on_one_core, pack, route, start, text, trial, with_trial,
};
use crate::support::{AnswerTo, Server, Tree, curl, wait_until};

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn a_reader_is_told_that_its_body_broke_off() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        let told = |name: &str| text(&server.get(&format!("/trial/reader?name={name}")));
        for (name, framing, body) in [
            ("length", "Content-Length: 5000000", vec![b'x'; 300_000]),
            (
                "chunks",
                "Transfer-Encoding: chunked",
                [b"30000\r\n".to_vec(), vec![b'x'; 0x30000], b"\r\n".to_vec()].concat(),
            ),
        ] {
            for round in 0..4 {
                let name = format!("{name}-{round}");
                let mut client = server.connect();
                client
                    .send(format!("POST /trial/reader?name={name} HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"));
                client.send(&body);
                wait_until("it reads", START, || told(&name) != "nothing");
                client.vanish();
                wait_until("it is told", START, || told(&name) != "begun");
                assert_eq!(told(&name), "error", "{isolation} {name}");
            }
        }
        let whole = "POST /trial/reader?name=whole HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\
                     Connection: close\r\n\r\nabcdef";
        assert_eq!(text(&server.connect().ask(whole)), "all 6");
    }
}

#[test]
fn a_request_that_fails_behind_start_async_costs_no_other() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        for how in [
            "plain",
            "listener",
            "listener-completes",
            "flush",
            "flush-listener-completes",
            "thread",
            "thread-flush",
            "thread-listener-completes",
            "timeout",
            "timeout-listener",
            "timeout-thread-flush",
            "thread-flush-busy",
            "timeout-thread-flush-busy",
        ] {
            for _ in 0..3 {
                let mut client = server.connect();
                client.set_patience(START);
                client.send(get(&format!("/trial/async-throws?how={how}")));
                // What becomes of it itself depends on what it has sent.
                let first = client.try_answer(AnswerTo::Other);
                if ["plain", "listener", "listener-completes"].contains(&how) {
                    assert_eq!(first.unwrap().status, 500, "{isolation} {how}");
                }
                for _ in 0..6 {
                    let facts = server.get("/trial/facts?name=next");
                    assert_eq!(facts.status, 200, "{isolation} {how}");
                    let facts = text(&facts);
                    assert!(
                        facts.starts_with("method=GET\n") && facts.contains("\nname=next\n"),
                        "{how}: {facts}"
                    );
                    assert!(!facts.contains("of another request"), "{how}: {facts}");
                }
            }
        }
    }
}

#[test]
fn an_answer_has_the_length_that_was_said_or_is_none() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        let mut client = server.connect();
        client.send(get("/trial/answers?how=short"));
        let (received, _) = client.read_to_end();
        let received = String::from_utf8_lossy(&received).into_owned();
        assert!(
            received.contains("Content-Length: 20\r\n") && received.ends_with(&"\0".repeat(10)),
            "{received}"
        );
        assert!(!received.ends_with(&"\0".repeat(11)), "{received}");
        server.wait_for_error_line("says so", |line| {
            line.contains("has 10 bytes, and its Content-Length says 20")
        });
        let long = server.get("/trial/answers?how=long");
        assert_eq!((long.field("content-length"), text(&long).as_str()), (Some("5"), "01234"), "{isolation}");
        runtime().block_on(async {
            let mut requests = connect(&server).await;
            let request = Request::get("http://a/trial/answers?how=short").body(()).unwrap();
            let mut body = requests.send_request(request, true).unwrap().0.await.unwrap().into_body();
            let mut last = body.data().await;
            while let Some(Ok(_)) = last {
                last = body.data().await;
            }
            assert!(last.expect("an end that is not an end").unwrap_err().is_reset());
        });
    }
}

#[test]
fn half_an_answer_of_a_call_is_none() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let server = on_one_core(&tree, trial);
    let mut client = caller(&server);
    client.send(get("/trial/answers?how=short"));
    let (received, _) = client.read_to_end();
    assert!(
        String::from_utf8_lossy(&received).contains("Content-Length: 20\r\n") && received.ends_with(&[0; 10])
    );
    let mut client = caller(&server);
    assert_eq!(text(&client.ask(get("/trial/answers?how=long"))), "01234");
    for how in ["closed", "full"] {
        // The call waits for a file that is made once its answer is there.
        let until = tree.root().join(format!("until-{how}"));
        let mut client = caller(&server);
        client.set_patience(START);
        let answer = client.ask(get(&format!("/trial/answers?how={how}&until={}", until.display())));
        assert_eq!(answer.status, 200, "{how}");
        fs::write(&until, "").unwrap();
    }
    assert_eq!(caller(&server).ask(get("/trial/facts")).status, 200);
}

#[test]
fn what_is_closed_or_complete_goes_out_before_the_servlet_returns() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        for (how, body) in [("closed", "closed".to_string()), ("full", "f".repeat(20_000))] {
            let until = tree.root().join(format!("until-{how}"));
            let mut client = server.connect();
            client.set_patience(START);
            let answer = client.ask(get(&format!("/trial/answers?how={how}&until={}", until.display())));
            assert!(text(&answer) == body && answer.status == 200, "{isolation} {how}");
            // The connection can be used for the next request while the servlet still is at work.
            assert_eq!(client.ask(get("/trial/facts")).status, 200);
            fs::write(&until, "").unwrap();
        }
        assert_eq!(server.get("/trial/facts").status, 200);
    }
}

#[test]
fn trailers_texts_and_posts_without_a_length_are_as_in_tomcat() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let hidden =
            route("/hidden/", &format!("app = {trial:?}, isolation = {isolation:?}, error_text = false"));
        let routes = route("/trial/", &format!("app = {trial:?}, isolation = {isolation:?}")) + &hidden;
        let server = start(&tree, "", &routes, 2);
        assert_eq!(text(&server.get("/trial/answers?how=trailers")), "ok");
        // The answer is complete, and sent, before the servlet continues.
        wait_until("it has thrown", START, || text(&server.get("/trial/answers?how=thrown")) == "true");
        let told = server.get("/trial/answers?how=text");
        assert_eq!(told.status, 409);
        assert!(text(&told).contains("a &lt;text&gt; of the application"), "{}", text(&told));
        assert!(!text(&told).contains("Tomcat"));
        assert!(!text(&server.get("/hidden/answers?how=text")).contains("of the application"));
        // An error that the application leaves empty stays so.
        for _ in 0..3 {
            let empty = exchange(&server, "GET /trial/answers?how=empty HTTP/1.0\r\nHost: a\r\n\r\n");
            assert!(empty.starts_with("HTTP/1.1 404") && empty.ends_with("\r\n\r\n"), "{empty}");
            assert!(empty.contains("Content-Length: 0\r\n") && !empty.contains("Content-Type"), "{empty}");
        }
        let old = "POST /trial/answers HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n";
        let answer = exchange(&server, old);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("posted 0"), "{answer}");
        // Others still need the length.
        let refused = exchange(&server, "POST /plain.txt HTTP/1.0\r\nHost: a\r\n\r\n");
        assert!(refused.starts_with("HTTP/1.1 411"), "{refused}");
    }
}

#[test]
fn an_answer_that_is_refused_is_named_in_the_log() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        for (how, reason) in [
            ("name", "GET /trial/answers of route 1 is refused: the header field \"a b\" is refused"),
            ("late-name", "an answer is refused: the header field \"a b\" is refused"),
            ("status", "42 is not a valid status"),
        ] {
            assert_eq!(server.get(&format!("/trial/answers?how={how}")).status, 502, "{how}");
            server.wait_for_error_line("says why", |line| line.contains(reason));
        }
        server
            .wait_for_error_line("says for whom", |line| line.contains("GET /trial/answers cannot be sent"));
    }
}

#[test]
fn a_switched_connection_ends_when_its_handler_closes_it() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        for how in ["init", "thread"] {
            let received = switched(&server, how);
            assert!(received.starts_with("HTTP/1.1 101 "), "{isolation} {how}: {received}");
            assert!(received.ends_with("\r\n\r\nhello"), "{isolation} {how}: {received}");
        }
        assert!(text(&ask(&server, "GET /trial/facts HTTP/1.1")).starts_with("method=GET"));
    }
}

/// The bytes of a connection that switches, until the server ends it.
fn switched(server: &Server, how: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(START)).unwrap();
    let head = "HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: trial\r\n\r\n";
    stream.write_all(format!("GET /trial/switch?how={how} {head}").as_bytes()).unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).unwrap_or_else(|error| panic!("{how}: {error}: {received}"));
    received
}

#[test]
fn a_trusted_proxy_says_whether_the_client_came_over_https() {
    let Some(trial) = trial() else { return };
    for (isolation, trusted) in [("in-process", true), ("isolated", true), ("in-process", false)] {
        let tree = Tree::empty();
        let proxies = if trusted { "[proxies]\ntrusted = [\"127.0.0.0/8\"]\n" } else { "" };
        let keys = format!("app = {trial:?}, isolation = {isolation:?}, https_port = 8443");
        let server = start(&tree, proxies, &route("/trial/", &keys), 1);
        let ask = |path: &str, fields: &str| {
            server.connect().ask(format!(
                "GET /trial/{path} HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n{fields}\r\n"
            ))
        };
        let plain = "secure=false http 80 http://shop.example/trial/connection\n";
        let secure = "secure=true https 443 https://shop.example/trial/connection\n";
        for (fields, expected) in [
            ("X-Forwarded-Proto: https\r\n", secure),
            ("X-Forwarded-Proto: https, http\r\n", secure),
            ("Forwarded: for=192.0.2.1;proto=https\r\n", secure),
            (
                "X-Forwarded-Proto: https\r\nX-Forwarded-Port: 8443\r\n",
                "secure=true https 8443 https://shop.example:8443/trial/connection\n",
            ),
            ("X-Forwarded-Proto: http\r\n", plain),
            ("", plain),
        ] {
            let facts = text(&ask("connection", fields));
            assert!(facts.contains(if trusted { expected } else { plain }), "{isolation} {fields}: {facts}");
        }
        let cookie = ask("count", "X-Forwarded-Proto: https\r\n");
        assert_eq!(cookie.field("set-cookie").unwrap().contains("Secure"), trusted, "{isolation}");
        let sent = ask("facts/confidential", "");
        assert_eq!(sent.field("location"), Some("https://shop.example:8443/trial/facts/confidential"));
        let status = ask("facts/confidential", "X-Forwarded-Proto: https\r\n").status;
        assert_eq!(status, if trusted { 200 } else { 302 }, "{isolation}");
    }
}

#[test]
fn a_client_is_known_by_its_certificate() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let application = tree.beside("application");
        copy(trial, &application);
        let login = "<security-constraint><web-resource-collection><web-resource-name>a</web-resource-name>\
             <url-pattern>/connection</url-pattern></web-resource-collection>\
             <auth-constraint><role-name>shopper</role-name></auth-constraint></security-constraint>\
             <login-config><auth-method>CLIENT-CERT</auth-method></login-config></web-app>";
        let descriptor = application.join("WEB-INF/web.xml");
        let written = fs::read_to_string(&descriptor).unwrap().replace("</web-app>", login);
        fs::write(&descriptor, written).unwrap();
        fs::write(
            tree.beside("users.xml"),
            "<tomcat-users><role rolename='shopper'/>\
             <user username='CN=Ada, O=Example' password='' roles='shopper'/></tomcat-users>",
        )
        .unwrap();
        if !make_certificates(&tree) {
            return;
        }
        let file = |name: &str| tree.beside(name).to_str().unwrap().to_string();
        let tls = format!(
            "certificate = {:?}\nkey = {:?}\nclient_authorities = {:?}\nclient_certificate = \"optional\"\n",
            file("server.pem"),
            file("server.key"),
            file("authority.pem")
        );
        let keys =
            format!("app = {application:?}, isolation = {isolation:?}, users = {:?}", file("users.xml"));
        let server = start(&tree, "", &(tls + &route("/trial/", &keys)), 1);
        let port = server.address().port();
        let (resolve, url) =
            (format!("localhost:{port}:127.0.0.1"), format!("https://localhost:{port}/trial/connection"));
        let (authority, certificate, key) = (file("authority.pem"), file("client.pem"), file("client.key"));
        for version in ["--http1.1", "--http2"] {
            let usual = ["--cacert", &authority, "--resolve", &resolve, &url, version];
            let Some(unknown) = curl([&usual[..], &["--write-out", "%{http_code}"]].concat()) else { return };
            assert!(String::from_utf8_lossy(&unknown.stdout).ends_with("401"), "{isolation} {unknown:?}");
            let Some(known) = curl([&usual[..], &["--cert", &certificate, "--key", &key]].concat()) else {
                return;
            };
            let facts = String::from_utf8_lossy(&known.stdout).into_owned();
            assert!(facts.contains("certificate=CN=Ada,O=Example of "), "{facts}");
            assert!(facts.contains(" true CLIENT_CERT\n"), "{isolation}: {facts}");
        }
    }
}

#[test]
fn pools_of_connections_are_there_and_what_is_missing_is_named() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let application = tree.beside("application");
    copy(trial, &application);
    let resource = |name: &str, more: &str| {
        format!(
            "<Resource name='jdbc/{name}' type='javax.sql.DataSource' url='jdbc:trial:{name}' maxTotal='3' \
             driverClassName='trial.Answers$Driver' {more}/>"
        )
    };
    let other = resource("other", "factory='org.apache.tomcat.jdbc.pool.DataSourceFactory'");
    fs::create_dir_all(application.join("META-INF")).unwrap();
    fs::write(
        application.join("META-INF/context.xml"),
        format!(
            "<Context>{}{other}<Environment name='most' type='java.lang.Integer' value='3'/></Context>",
            resource("usual", "")
        ),
    )
    .unwrap();
    let tags = "<%@ taglib prefix='c' uri='http://java.sun.com/jsp/jstl/core' %><c:out value='1'/>";
    fs::write(application.join("tags.jsp"), tags).unwrap();
    fs::write(
        application.join("old.jsp"),
        "<%@ page import='javax.servlet.http.Cookie' %><%= Cookie.class %>",
    )
    .unwrap();
    let server = start(&tree, "", &route("/trial/", &format!("app = {application:?}, convert = \"no\"")), 1);
    for (name, class) in [
        ("usual", "org.apache.tomcat.dbcp.dbcp2.BasicDataSource"),
        ("other", "org.apache.tomcat.jdbc.pool.DataSource"),
    ] {
        let answer = server.get(&format!("/trial/source?name={name}"));
        assert_eq!(text(&answer), format!("{class} catalog of jdbc:trial:{name}"));
    }
    let log = server.error_text();
    assert!(!log.contains("MBean"), "{log}");
    for (page, hint) in [
        ("tags", "(Tomcat has no JSTL: put"),
        ("old", "(the application was written for javax.servlet: set convert"),
    ] {
        assert_eq!(get_patiently(server.address(), &format!("/trial/{page}.jsp")).status, 500);
        server.wait_for_error_line("says what to do", |line| line.contains(hint));
    }
}

#[test]
fn pages_of_a_war_write_their_text_in_few_calls() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let (application, work) = (tree.beside("application"), tree.beside("work"));
    copy(trial, &application);
    let lines = "A line with \"quotes\", $ and \u{e4}.\n".repeat(400);
    let page = format!(
        "<%@ page contentType='text/plain; charset=utf-8' pageEncoding='utf-8' session='false' %>{lines}"
    );
    fs::write(application.join("long.jsp"), page).unwrap();
    let war = tree.beside("packed.war");
    pack(&application, &war);
    let routes =
        [route("/packed/", &format!("app = {war:?}")), route("/open/", &format!("app = {application:?}"))];
    let server = start(&tree, &format!("work_directory = {work:?}\n"), &routes.concat(), 2);
    for (path, calls) in [("packed", 1..=30), ("open", 400..=410)] {
        let answer = get_patiently(server.address(), &format!("/{path}/long.jsp"));
        assert_eq!((answer.status, text(&answer)), (200, lines.clone()), "{path}");
        let mut sources = Vec::new();
        find(&work, &format!("/{path}/pages/org/apache/jsp/long_jsp.java"), &mut sources);
        let source = fs::read_to_string(sources.first().expect("the source of the page")).unwrap();
        let found = source.matches("out.write(").count();
        assert!(calls.contains(&found), "{path}: {found} calls");
    }
}

/// Finds files below a directory whose paths end in this way.
fn find(directory: &Path, end: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            find(&path, end, found);
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
}
