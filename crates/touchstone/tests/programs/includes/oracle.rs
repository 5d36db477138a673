//! The same pages from Touchstone and from the servers whose language it is.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};
use std::{fs, os::unix::fs::PermissionsExt};

use rustix::process::{Pid, Signal, kill_process};

use super::oracle_pages::{APACHE_PAGES, LEGACY_PAGES, NGINX_CONDITIONS, NGINX_PAGES, NGINX_REQUEST_PAGES};
use crate::support::{Client, Server, Tree, free_port, skipped, wait_until, write_program};

/// 2001-09-09 01:46:40 UTC.
const MODIFIED: Duration = Duration::from_secs(1_000_000_000);

/// A server to compare with; ended when it is dropped.
struct Oracle {
    child: Child,
    address: SocketAddr,
}

impl Oracle {
    /// Starts a server on a port that is free, with the configuration that is made for it.
    fn start(
        command: &str,
        arguments: &[&str],
        directory: &Path,
        configuration: impl FnOnce(SocketAddr) -> String,
    ) -> Option<Oracle> {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let path = directory.join(format!("{}.conf", address.port()));
        fs::write(&path, configuration(address)).expect("the configuration is written");
        let path = path.to_str().expect("the path is text");
        let started = Command::new(command)
            .args(arguments.iter().map(|argument| if *argument == "FILE" { path } else { argument }))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn();
        let child = match started {
            Ok(child) => child,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                skipped(&format!("pages beside {command} (install {command})"));
                return None;
            }
            Err(error) => panic!("{command}: {error}"),
        };
        let oracle = Oracle { child, address };
        wait_until(command, Duration::from_secs(90), || TcpStream::connect(address).is_ok());
        Some(oracle)
    }

    fn get(&self, target: &str) -> Vec<u8> {
        get(self.address, target)
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            _ = kill_process(pid, Signal::TERM);
        }
        _ = self.child.wait();
    }
}

fn get(address: SocketAddr, target: &str) -> Vec<u8> {
    let mut client = Client::connect(address);
    let request =
        format!("GET {target} HTTP/1.1\r\nHost: example.com\r\nX-Y: 1\r\nConnection: close\r\n\r\n");
    let response = client.ask(request);
    assert_eq!(response.status, 200, "{target}");
    response.body
}

/// A tree with these pages and the files that they include.
fn tree(pages: &[(&str, &str)]) -> Tree {
    let tree = Tree::empty();
    let included = [
        ("sub/b.html", "B<!--#echo var=\"x\" -->"),
        (
            "sub/in.shtml",
            "in:<!--#echo var=\"DOCUMENT_URI\" -->,<!--#echo var=\"DOCUMENT_NAME\" -->,<!--#echo \
             var=\"QUERY_STRING\" -->,<!--#include virtual=\"b.html\" -->,<!--#include file=\"b.html\" -->\
             <!--#set var=\"fromin\" value=\"yes\" -->",
        ),
        ("sub/cfg.shtml", "<!--#echo var=\"nosuch\" --><!--#bogus --><!--#flastmod file=\"b.html\" -->"),
        ("empty.html", ""),
        ("plain.html", "plain\n"),
    ];
    for (name, text) in included.iter().chain(pages) {
        tree.write(name, text);
    }
    tree.write("big.bin", vec![b'x'; 1_234_567]);
    tree.write("small.bin", vec![b'x'; 10_100]);
    for name in pages.iter().chain(&included).map(|(name, _)| *name).chain(["big.bin", "small.bin"]) {
        let file = fs::File::options().append(true).open(tree.file(name)).expect("the file opens");
        file.set_modified(UNIX_EPOCH + MODIFIED).expect("its time is set");
    }
    fs::create_dir(tree.beside("run")).expect("a directory for the other server");
    fs::set_permissions(tree.beside("run"), fs::Permissions::from_mode(0o777)).expect("permissions");
    tree
}

fn apache(tree: &Tree, more: &str) -> Option<Oracle> {
    let modules = Path::new("/usr/lib/apache2/modules");
    Oracle::start("apache2", &["-DFOREGROUND", "-f", "FILE"], tree.around(), |address| {
        let load = |name: &str| format!("LoadModule {name}_module {}/mod_{name}.so\n", modules.display());
        let modules: String = ["mpm_event", "authz_core", "mime", "include", "cgi"].map(load).concat();
        let (run, root) = (tree.beside("run"), tree.root());
        let (run, root) = (run.display(), root.display());
        format!(
            "{modules}ServerRoot {run}\nServerName localhost\nPidFile {run}/pid\nErrorLog {run}/error.log\n\
             Listen {address}\nTypesConfig /dev/null\nAddType text/html .html .shtml\nDocumentRoot {root}\n\
             User www-data\nGroup www-data\n\
             <Directory {root}>\nRequire all granted\nOptions +Includes +ExecCGI\n\
             AddHandler cgi-script .cgi\nAddOutputFilter INCLUDES .shtml\n{more}\n\
             </Directory>\n"
        )
    })
}

fn touchstone(tree: &Tree, includes: &str) -> Server {
    let text = format!("{}[site.includes]\n{includes}\n", tree.configuration(""));
    Server::configured(tree.around(), &text)
}

fn compare(tree: &Tree, pages: &[(&str, &str)], oracle: &Oracle, server: &Server) {
    for (name, text) in pages {
        let target = format!("/{name}?q=%27a+b");
        let (expected, found) = (oracle.get(&target), get(server.address(), &target));
        let (expected, found) = (String::from_utf8_lossy(&expected), String::from_utf8_lossy(&found));
        for (number, (expected, found)) in expected.lines().zip(found.lines()).enumerate() {
            assert_eq!(found, expected, "{name}, line {} of the output of\n{text}", number + 1);
        }
        assert_eq!(found, expected, "{name}");
    }
    assert!(tree.root().exists());
}

#[test]
fn the_same_as_apache() {
    let tree = tree(APACHE_PAGES);
    let Some(oracle) = apache(&tree, "") else { return };
    compare(&tree, APACHE_PAGES, &oracle, &touchstone(&tree, ""));
}

#[test]
fn programs_see_what_the_page_has_set_as_with_apache() {
    const PAGES: &[(&str, &str)] = &[
        (
            "set.shtml",
            "<!--#set var=\"mine\" value=\"a value\" --><!--#set var=\"with space\" value=\"s\" --><!--#set \
             var=\"a-b\" value=\"h\" -->\
             <!--#set var=\"1st\" value=\"n\" --><!--#set var=\"QUERY_STRING\" value=\"no\" --><!--#set \
             var=\"REQUEST_METHOD\" value=\"no\" -->\
             <!--#set var=\"HTTP_X\" value=\"of the page\" --><!--#set var=\"SCRIPT_NAME\" value=\"no\" -->\n\
             <!--#include virtual=\"show.cgi?q=1\" --><!--#set var=\"mine\" value=\"later\" -->\n\
             <!--#include virtual=\"show.cgi\" -->\n\
             <!--#exec cgi=\"show.cgi\" -->\n<!--#include virtual=\"inner.shtml\" -->\n\
             <!--#include virtual=\"sub/b.html\" -->",
        ),
        ("inner.shtml", "<!--#set var=\"inner\" value=\"i\" --><!--#include virtual=\"/show.cgi\" -->"),
    ];
    let tree = tree(PAGES);
    let names = ["mine", "with_space", "a_b", "_st", "inner", "HTTP_X", "DOCUMENT_URI", "DOCUMENT_NAME"];
    let more = ["DOCUMENT_ARGS", "QUERY_STRING", "REQUEST_METHOD", "SCRIPT_NAME"];
    let shown: String = names.iter().chain(&more).map(|name| format!("{name}=$${name} ")).collect();
    let program =
        format!("#!/bin/sh\necho Content-Type: text/plain\necho\necho \"{}\"\n", shown.replace("$$", "$"));
    write_program(&tree.file("show.cgi"), program);
    let Some(oracle) = apache(&tree, "") else { return };
    let route = "exec = true\n[[site.route]]\nsuffixes = [\".cgi\"]\ncgi = {}\n";
    compare(&tree, PAGES, &oracle, &touchstone(&tree, route));
}

#[test]
fn the_same_as_apache_with_its_old_conditions() {
    let tree = tree(LEGACY_PAGES);
    let Some(oracle) = apache(&tree, "SSILegacyExprParser on") else { return };
    compare(&tree, LEGACY_PAGES, &oracle, &touchstone(&tree, "expressions = \"legacy\"\n"));
}

/// An nginx that treats all files as pages.
fn nginx(tree: &Tree) -> Option<Oracle> {
    let run = tree.beside("run");
    let run = run.display();
    Oracle::start("nginx", &["-c", "FILE"], tree.around(), |address| {
        let root = tree.root();
        let root = root.display();
        format!(
            "daemon off; master_process off; pid {run}/pid; error_log {run}/error.log; events {{}}\n\
             http {{ access_log off; types {{ text/html html shtml; }} client_body_temp_path {run}/1; \
             proxy_temp_path {run}/2; fastcgi_temp_path {run}/3; uwsgi_temp_path {run}/4; scgi_temp_path \
             {run}/5;\n\
             server {{ listen {address}; root {root}; server_name a.example; location / {{ }} \
             location ~ \\.shtml$ {{ ssi on; }} }} }}\n"
        )
    })
}

#[test]
fn the_same_as_nginx() {
    let tree = tree(NGINX_PAGES);
    let Some(oracle) = nginx(&tree) else { return };
    for grammar in ["legacy", "nginx"] {
        let server = touchstone(&tree, &format!("expressions = {grammar:?}\n"));
        compare(&tree, NGINX_PAGES, &oracle, &server);
    }
}

#[test]
fn the_same_as_nginx_for_each_request() {
    let tree = tree(NGINX_REQUEST_PAGES);
    let conditions: String = NGINX_CONDITIONS
        .iter()
        .enumerate()
        .map(|(number, condition)| {
            format!("{number} <!--# if expr=\"{condition}\" -->T<!--# else -->F<!--# endif -->\n")
        })
        .collect();
    tree.write("conditions.shtml", conditions);
    let encodings: String = (0x21..=0xffu8)
        .filter(|byte| !b"\"$\\\x7f".contains(byte) && byte.is_ascii())
        .map(|byte| {
            let byte = char::from(byte);
            format!("<!--# set var=\"v\" value=\"{byte}\" --><!--# echo var=\"v\" encoding=\"entity\" -->\n")
        })
        .collect();
    tree.write("encodings.shtml", encodings);
    let Some(oracle) = nginx(&tree) else { return };
    let server = touchstone(&tree, "expressions = \"nginx\"\n");
    let mut faults = Vec::new();
    let pages = NGINX_REQUEST_PAGES.iter().map(|(name, _)| *name);
    for page in pages.chain(["conditions.shtml", "encodings.shtml"]) {
        for query in ["", "?v", "?v=", "?v=equal", "?a=b&V=c%20d+e&v=2", "?xv=1&v=<x>&w=2", "?v=CAP1andCAP2"]
        {
            let target = format!("/{page}{query}");
            let request = format!(
                "GET {target} HTTP/1.1\r\nHost: A.example\r\nCookie: c=d; v=cookie\r\nX-Y: 1\r\n\
                 User-Agent: me\r\nConnection: close\r\n\r\n"
            );
            let body = |address| {
                let response = Client::connect(address).ask(&request);
                String::from_utf8_lossy(&response.body).into_owned()
            };
            let (expected, found) = (body(oracle.address), body(server.address()));
            let lines = expected.lines().zip(found.lines());
            let others = lines.filter(|(expected, found)| expected != found);
            let others: Vec<String> =
                others.map(|(expected, found)| format!("{expected}\n  here {found}")).collect();
            if !others.is_empty() || expected.lines().count() != found.lines().count() {
                faults.push(format!("{target}: {}", others.join("\n")));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
