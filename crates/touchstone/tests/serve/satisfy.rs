//! Sites and routes where the address of a client or its user is enough (`satisfy = "any"`), as nginx and
//! Apache have it: the same requests are admitted and refused, with the same statuses.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::import_nginx::alike;
use super::import_servers::{PASSWORD, like_apache, open_to_all};
use crate::support::{Client, Origin, Response, Server, Tree, read_head, run, write_program};

/// The user of [`tree`], with the right password.
const KNOWN: &str = "Authorization: Basic Ym9iOnNlY3JldA==\r\n";

/// A tree with a file in each of these directories, and a file of users.
fn tree(directories: &str) -> Tree {
    let tree = Tree::empty();
    open_to_all(tree.around());
    for directory in directories.split_whitespace() {
        tree.write(&format!("{directory}/a.txt"), directory);
    }
    fs::write(tree.beside("users"), "bob:$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA\n").unwrap();
    tree
}

/// A request to each directory without a password, with a wrong one, and with the right one.
fn requests<'t>(targets: &'t [String]) -> Vec<(&'t str, &'static str)> {
    let with = |target: &'t String| ["", PASSWORD, KNOWN].map(|fields| (target.as_str(), fields));
    targets.iter().flat_map(with).collect()
}

fn targets(directories: &str) -> Vec<String> {
    directories.split_whitespace().map(|directory| format!("/{directory}/a.txt")).collect()
}

fn ask(client: &mut Client, path: &str, fields: &str) -> Response {
    client.ask(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n"))
}

#[test]
fn nginx_admits_by_address_or_password() {
    let directories = "near far both shut every exception first off inner none";
    let tree = tree(directories);
    let users = format!("auth_basic Members; auth_basic_user_file {};", tree.beside("users").display());
    let server = format!(
        "server_name www.example.org; root {};\n\
         location /near/ {{ satisfy any; allow 127.0.0.0/8; deny all; {users} }}\n\
         location /far/ {{ satisfy any; allow 192.0.2.0/24; deny all; {users} }}\n\
         location /both/ {{ satisfy all; allow 192.0.2.0/24; deny all; {users} }}\n\
         location /shut/ {{ satisfy any; deny all; {users} }}\n\
         location /every/ {{ satisfy any; deny 192.0.2.1; allow all; {users} }}\n\
         location /exception/ {{ satisfy any; deny 127.0.0.1; allow 127.0.0.0/8; deny all; {users} }}\n\
         location /first/ {{ satisfy any; deny all; allow 127.0.0.0/8; {users} }}\n\
         location /off/ {{ satisfy any; allow 192.0.2.0/24; deny all; auth_basic off; }}\n\
         location /inner/ {{ satisfy any; {users} location /inner/a.txt {{ allow 127.0.0.1; deny all; }} }}\n\
         location /none/ {{ satisfy any; {users} }}",
        tree.root().display()
    );
    let targets = targets(directories);
    alike(&tree, "access_log off;", &server, &requests(&targets));
    // The rules of a server, with locations that change them.
    let server = format!(
        "server_name www.example.org; root {}; satisfy any; allow 192.0.2.0/24; deny all; {users}\n\
         location /near/ {{ allow 127.0.0.1; deny all; }}\n\
         location /both/ {{ satisfy all; }}\n\
         location /off/ {{ auth_basic off; }}\n\
         location /every/ {{ allow all; }}\n\
         location /first/ {{ deny all; }}\n\
         location /none/ {{ return 403; }}\n\
         location /shut/ {{ deny all; auth_basic off; }}",
        tree.root().display()
    );
    alike(&tree, "access_log off;", &server, &requests(&targets));
}

/// The order of the rules counts, and a client that none of them names is admitted.
#[test]
fn nginx_uses_the_first_rule() {
    let directories = "one two three four five";
    let tree = tree(directories);
    let server = format!(
        "server_name www.example.org; root {};\n\
         location /one/ {{ deny 127.0.0.1; allow 127.0.0.0/8; deny all; }}\n\
         location /two/ {{ allow 127.0.0.0/8; deny 127.0.0.1; deny all; }}\n\
         location /three/ {{ allow 192.0.2.1; deny 192.0.2.0/24; }}\n\
         location /four/ {{ deny all; allow 127.0.0.0/8; }}\n\
         location /five/ {{ deny 127.0.0.0/8; allow 127.0.0.1; allow all; }}",
        tree.root().display()
    );
    alike(&tree, "", &server, &requests(&targets(directories)));
    // A whole server that refuses, and a location that does not.
    let server = format!(
        "server_name www.example.org; root {}; deny all;\n\
         location /one/ {{ allow all; }} location /two/ {{ }}",
        tree.root().display()
    );
    alike(&tree, "", &server, &requests(&targets(directories)));
}

#[test]
fn nginx_counts_its_authority_as_one_way() {
    let tree = tree("near far");
    let authority = Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            let status = if head.contains("Cookie: user=") { "200 OK" } else { "403 Forbidden" };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    let server = format!(
        "server_name www.example.org; root {};\n\
         location = /question {{ internal; proxy_pass http://{}; }}\n\
         location /near/ {{ satisfy any; allow 127.0.0.0/8; deny all; auth_request /question; }}\n\
         location /far/ {{ satisfy any; allow 192.0.2.0/24; deny all; auth_request /question; }}",
        tree.root().display(),
        authority.address
    );
    let cookie = "Cookie: user=ann\r\n";
    // A refusal has other fields here, so its status alone is compared.
    let text =
        alike(&tree, "", &server, &[("/near/a.txt", ""), ("/near/a.txt", cookie), ("/far/a.txt", cookie)]);
    if !text.is_empty() {
        let here = text.lines().map(|line| match line.starts_with("listen = ") {
            true => "listen = [\"127.0.0.1:0\"]".to_string(),
            false => line.replace(tree.around().join("nginx.log").to_str().unwrap(), "stderr"),
        });
        let ours = Server::configured(tree.around(), &here.collect::<Vec<_>>().join("\n"));
        assert_eq!(ours.get("/far/a.txt").status, 403);
    }
    assert!(text.is_empty() || text.matches("satisfy = \"any\"").count() == 2, "{text}");
}

#[test]
fn apache_admits_by_address_or_password() {
    let directories = "near far both shut every open any all nested granted order deny name";
    let tree = tree(directories);
    let basic = format!(
        "AuthType Basic\nAuthName Members\nAuthUserFile {}\nRequire valid-user\n",
        tree.beside("users").display()
    );
    let sections: String = [
        ("near", "Order deny,allow\nDeny from all\nAllow from 127.0.0.0/255.0.0.0\nSatisfy Any\n"),
        ("far", "Order deny,allow\nDeny from all\nAllow from 192.0.2\nSatisfy any\n"),
        ("both", "Order deny,allow\nDeny from all\nAllow from 192.0.2\n"),
        ("shut", "Order deny,allow\nDeny from all\nSatisfy Any\n"),
        ("every", "Order allow,deny\nAllow from all\nDeny from 192.0.2.1\nSatisfy Any\n"),
        ("open", "Satisfy Any\n"),
        ("any", "Require ip 192.0.2.0/24\n"),
        ("all", "<RequireAll>\nRequire valid-user\nRequire ip 127.0.0.1\n</RequireAll>\n"),
        ("nested", "<RequireAny>\nRequire ip 127.0.0.1\nRequire valid-user\n</RequireAny>\n"),
        ("granted", "Order allow,deny\nAllow from all\n"),
        ("order", "Order allow,deny\nAllow from 127.0.0.1\nDeny from 127.0.0.0/8\n"),
        ("deny", "Order allow,deny\nDeny from 192.0.2.1\n"),
        ("name", "Order deny,allow\nDeny from all\nAllow from localhost\nSatisfy Any\n"),
    ]
    .map(|(name, rules)| {
        let is_whole = rules.starts_with('<');
        let basic = if is_whole { basic.replace("Require valid-user\n", "") } else { basic.clone() };
        format!("<Directory {}/{name}>\n{basic}{rules}</Directory>\n", tree.root().display())
    })
    .concat();
    let host = format!(
        "ServerName www.example.org\nDocumentRoot {root}\n<Directory {root}>\nRequire all granted\n\
         </Directory>\n{sections}",
        root = tree.root().display()
    );
    like_apache(&tree, &host, &requests(&targets(directories)));
}

/// `.htaccess` files that open one file of a directory with a password, and those that forget to.
#[test]
fn apache_keeps_the_password_of_the_directory_above() {
    let tree = tree("members");
    for name in ["public.txt", "still.txt", "scripts.txt"] {
        tree.write(&format!("members/{name}"), name);
    }
    tree.write(
        "members/.htaccess",
        format!(
            "AuthType Basic\nAuthName Members\nAuthUserFile {}\nRequire valid-user\n\
             <Files public.txt>\nOrder allow,deny\nAllow from all\nSatisfy Any\n</Files>\n\
             <Files still.txt>\nOrder allow,deny\nAllow from all\n</Files>\n\
             <Files scripts.txt>\nDeny from all\n</Files>\n",
            tree.beside("users").display()
        ),
    );
    let host = format!(
        "ServerName www.example.org\nDocumentRoot {root}\n<Directory {root}>\nAllowOverride All\n\
         Require all granted\n</Directory>\n",
        root = tree.root().display()
    );
    let targets: Vec<String> =
        ["a.txt", "public.txt", "still.txt", "scripts.txt"].map(|name| format!("/members/{name}")).to_vec();
    like_apache(&tree, &host, &requests(&targets));
}

/// An admitted address needs no authority, and cannot claim to be one of its users.
#[test]
fn an_authority_is_not_asked_about_admitted_addresses() {
    let (tree, questions) = (tree("near"), Arc::new(AtomicUsize::new(0)));
    let asked = questions.clone();
    let authority = Origin::start(move |stream| {
        while let Some(head) = read_head(stream) {
            asked.fetch_add(1, Ordering::SeqCst);
            let answer = match head.contains("Cookie: user=ann") {
                true => "HTTP/1.1 200 OK\r\nRemote-User: ann\r\nContent-Length: 0\r\n\r\n",
                false => "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
            };
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    let text = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n[%s] [%s]' \"$REMOTE_USER\" \
                \"$HTTP_REMOTE_USER\"\n";
    write_program(&tree.beside("cgi/who"), text);
    let route = |path: &str, network: &str| {
        format!(
            "[[site.route]]\npath = \"{path}\"\nsatisfy = \"any\"\nallow = [\"{network}\"]\n\
             cgi = {{ directory = \"cgi\" }}\n\
             forward_auth = {{ url = \"http://{}/\", fields = [\"Remote-User\"], user = \"Remote-User\" }}\n",
            authority.address
        )
    };
    let configuration =
        format!("{}{}{}", tree.configuration(""), route("/near/", "127.0.0.1"), route("/far/", "192.0.2.1"));
    let server = Server::configured(tree.around(), &configuration);
    let mut client = server.connect();
    let forged = "Remote-User: root\r\nremote_user: root\r\n";
    let near = ask(&mut client, "/near/who", forged);
    assert_eq!((near.status, String::from_utf8_lossy(&near.body).as_ref()), (200, "[] []"));
    assert_eq!(questions.load(Ordering::SeqCst), 0);
    assert_eq!(ask(&mut client, "/far/who", forged).status, 401);
    let far = ask(&mut client, "/far/who", &format!("{forged}Cookie: user=ann\r\n"));
    assert_eq!((far.status, String::from_utf8_lossy(&far.body).as_ref()), (200, "[ann] [ann]"));
    assert_eq!(questions.load(Ordering::SeqCst), 2);
}

/// A rewrite passes the rules of both of its routes: one that admits by address does not open the other.
#[test]
fn a_rewrite_does_not_lose_the_password() {
    let tree = tree("secret");
    let users = format!("basic_authentication = {{ file = {:?} }}\n", tree.beside("users"));
    let server = Server::configured(
        tree.around(),
        &format!(
            "{}allow = [\"127.0.0.1\"]\n{users}\
             [[site.route]]\npath = \"/any/\"\nsatisfy = \"any\"\nrewrite = {{ to = \"/secret/$1\" }}\n\
             [[site.route]]\npath = \"/both/\"\nrewrite = {{ to = \"/open/$1\" }}\n\
             [[site.route]]\npath = \"/open/\"\nsatisfy = \"any\"\nrewrite = {{ to = \"/secret/$1\" }}\n\
             [[site.route]]\npath = \"/any-twice/\"\nsatisfy = \"any\"\nrewrite = {{ to = \"/file/$1\" }}\n\
             [[site.route]]\npath = \"/file/\"\nsatisfy = \"any\"\nalias = {:?}\n",
            tree.configuration(""),
            tree.file("secret")
        ),
    );
    let mut client = server.connect();
    for (path, without, with) in [
        ("/secret/a.txt", 401, 200),
        ("/any/a.txt", 401, 200),
        ("/both/a.txt", 401, 200),
        ("/file/a.txt", 200, 200),
        ("/any-twice/a.txt", 200, 200),
    ] {
        assert_eq!(ask(&mut client, path, "").status, without, "{path}");
        assert_eq!(ask(&mut client, path, KNOWN).status, with, "{path}");
    }
}

#[test]
fn what_has_no_meaning_is_refused() {
    let tree = tree("a");
    let users = format!("basic_authentication = {{ file = {:?} }}\n", tree.beside("users"));
    let authority = "forward_auth = { url = \"http://127.0.0.1:9/\" }\n";
    let allow = "allow = [\"10.0.0.0/8\"]\n";
    for (keys, message) in [
        ("satisfy = \"any\"\n".to_string(), "needs 'basic_authentication', 'jwt', 'login' or 'forward_auth'"),
        (format!("satisfy = \"any\"\n{allow}"), "without one of them only the address counts"),
        (format!("satisfy = \"any\"\n{users}"), "'satisfy' \"any\" needs 'allow'"),
        (format!("satisfy = \"any\"\ndeny = [\"10.0.0.1\"]\n{users}"), "'satisfy' \"any\" needs 'allow'"),
        (
            format!("satisfy = \"any\"\n{allow}{users}{authority}"),
            "there are 'basic_authentication' and 'forward_auth'; keep one of them",
        ),
        ("satisfy = \"one\"\n".to_string(), "\"any\""),
    ] {
        let file = tree.beside("site.toml");
        let text = format!("{}[[site.route]]\npath = \"/a/\"\n{keys}", tree.configuration(""));
        fs::write(&file, text).unwrap();
        let output = run(["check", "--config", file.to_str().unwrap()]);
        assert!(!output.status.success(), "{keys}");
        assert!(format!("{output:?}").replace("\\\"", "\"").contains(message), "{keys}: {output:?}");
    }
}
