//! `touchstone import caddy` and `import apache`: configurations are run by the original server and,
//! translated, by this one; the same requests get the same answers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::import_nginx::{application, ask, outcome, tree};
use crate::support::{Origin, Response, Server, Tree, free_port, read_head, run, skipped, wait_until};

/// Another program that listens; it ends with the test.
pub(super) struct Rival {
    process: Child,
    pub(super) address: SocketAddr,
}

impl Rival {
    /// `None`, with a visible word, where it is not installed.
    pub(super) fn start(package: &str, mut command: Command, address: SocketAddr) -> Option<Rival> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(process) = command.spawn() else {
            skipped(&format!("configurations of others (install {package})"));
            return None;
        };
        let rival = Rival { process, address };
        wait_until(package, Duration::from_secs(120), || TcpStream::connect(address).is_ok());
        Some(rival)
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.process.wait();
    }
}

pub(super) fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

impl Rival {
    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A php-fpm with one process.
pub(super) fn php(tree: &Tree) -> Option<Rival> {
    let found = ["8.4", "8.3", "8.2", "8.1"].map(|version| format!("/usr/sbin/php-fpm{version}"));
    let Some(program) = found.iter().find(|program| Path::new(program).exists()) else {
        skipped("configurations with PHP (install php-fpm)");
        return None;
    };
    let address = local();
    let file = tree.beside("php-fpm.conf");
    let log = tree.beside("php-fpm.log");
    let text = format!(
        "[global]\nerror_log = {}\ndaemonize = no\n[www]\nlisten = {address}\nuser = root\ngroup = root\n\
         pm = static\npm.max_children = 2\n",
        log.display()
    );
    fs::write(&file, text).unwrap();
    let mut command = Command::new(program);
    command.args(["-R", "-F", "-y"]).arg(&file);
    Rival::start("php-fpm", command, address)
}

/// Translates a file, and runs the result.
fn translated(format: &str, file: &Path, tree: &Tree, address: SocketAddr) -> (String, String, Server) {
    let output = run(["import", format, file.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // The harness reads the server's standard error.
    let here = text
        .replace(&address.to_string(), "127.0.0.1:0")
        .replace("\"/var/empty\"", &format!("{:?}", tree.root()))
        .replace("\"users.htpasswd\"", &format!("{:?}", tree.beside("users.htpasswd")))
        .replace("\"users-2.htpasswd\"", &format!("{:?}", tree.beside("users-2.htpasswd")))
        .replace(tree.beside("error.log").to_str().unwrap(), "stderr");
    let server = Server::configured(tree.around(), &here);
    (text, said, server)
}

/// Runs Caddy with this, and this server with what the import makes of it, and compares.
pub(super) fn like_caddy(tree: &Tree, site: &str, requests: &[(&str, &str)]) -> (String, String) {
    let (text, said, servers) = beside_caddy(tree, &format!(":PORT {{\n\tbind 127.0.0.1\n{site}\n}}\n"));
    let Some((caddy, ours)) = servers else { return (text, said) };
    for (target, fields) in requests {
        let (mine, theirs) = (ask(ours.address(), target, fields), ask(caddy.address, target, fields));
        assert_eq!(outcome(&mine), outcome(&theirs), "{target} {fields:?}\n{text}\n{said}");
    }
    (text, said)
}

/// Runs Caddy with these sites, in which `PORT` is its port, and this server with what the import makes of
/// them. Without a Caddy there is nothing.
pub(super) fn beside_caddy(tree: &Tree, sites: &str) -> (String, String, Option<(Rival, Server)>) {
    let address = local();
    let file = tree.beside("Caddyfile");
    let sites = sites.replace("PORT", &address.port().to_string());
    fs::write(&file, format!("{{\n\tadmin off\n\tauto_https off\n}}\n{sites}")).unwrap();
    let mut command = Command::new("caddy");
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(&file);
    command.env("HOME", tree.around()).env("XDG_DATA_HOME", tree.around());
    let Some(caddy) = Rival::start("caddy", command, address) else {
        return (String::new(), String::new(), None);
    };
    let (text, said, ours) = translated("caddy", &file, tree, address);
    (text, said, Some((caddy, ours)))
}

/// Modules of Apache that the configurations need.
const MODULES: [&str; 20] = [
    "mpm_event",
    "authz_core",
    "authz_host",
    "authz_user",
    "authn_core",
    "authn_file",
    "auth_basic",
    "alias",
    "dir",
    "mime",
    "rewrite",
    "headers",
    "expires",
    "proxy",
    "proxy_http",
    "proxy_fcgi",
    "setenvif",
    "autoindex",
    "env",
    "access_compat",
];

/// What is compared of an answer. Apache adds the fields of `Header always` to the answers of its rewrites,
/// too; docs/import.md names this difference.
fn compared(answer: &Response) -> Vec<String> {
    let mut compared = outcome(answer);
    if answer.status >= 300 {
        compared.retain(|line| !line.starts_with("x-frame-options: "));
    }
    compared
}

/// Runs Apache with this, and this server with what the import makes of it, and compares.
pub(super) fn like_apache(tree: &Tree, host: &str, requests: &[(&str, &str)]) -> (String, String) {
    let modules = Path::new("/usr/lib/apache2/modules");
    let address = local();
    let file = tree.beside("httpd.conf");
    let around = tree.around().display();
    let load = |name: &&str| format!("LoadModule {name}_module {}/mod_{name}.so\n", modules.display());
    let modules: String = MODULES.iter().map(load).collect();
    let text = format!(
        "{modules}ServerRoot {around}\nServerName localhost\nPidFile {around}/pid\n\
         ErrorLog {around}/error.log\nListen {address}\nTypesConfig /etc/mime.types\nUser root\nGroup root\n\
         <VirtualHost *:{}>\n{host}\n</VirtualHost>\n",
        address.port()
    );
    fs::write(&file, text.replace("User root\nGroup root\n", "User www-data\nGroup www-data\n")).unwrap();
    let mut command = Command::new("apache2");
    command.arg("-DFOREGROUND").arg("-f").arg(&file);
    let Some(apache) = Rival::start("apache2", command, address) else {
        return (String::new(), String::new());
    };
    // This server keeps the user of the test.
    let own = tree.beside("own.conf");
    fs::write(&own, text.replace("User root\nGroup root\n", "")).unwrap();
    let (text, said, ours) = translated("apache", &own, tree, address);
    for (target, fields) in requests {
        let (mine, theirs) = (ask(ours.address(), target, fields), ask(apache.address, target, fields));
        assert_eq!(compared(&mine), compared(&theirs), "{target} {fields:?}\n{text}\n{said}");
    }
    (text, said)
}

/// A tree that other users may read, with scripts of PHP.
fn application_tree() -> Tree {
    let tree = tree();
    open_to_all(tree.around());
    for script in ["index.php", "admin/index.php", "wp-login.php"] {
        tree.write(
            script,
            "<?php header('Content-Type: text/plain'); echo $_SERVER['SCRIPT_NAME'], ' ', \
             $_SERVER['REQUEST_URI'], ' ', $_SERVER['QUERY_STRING'];",
        );
    }
    tree
}

pub(super) fn open_to_all(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
}

pub(super) const PASSWORD: &str = "Authorization: Basic YW5uOndyb25n\r\n";

#[test]
fn a_caddyfile_with_files_redirects_and_a_password() {
    let tree = tree();
    let site = format!(
        "\troot * {root}\n\tencode gzip zstd\n\tredir /moved https://other.example.org{{uri}} 301\n\
         \tredir /short /docs/\n\theader /docs/* X-Frame-Options DENY\n\
         \t@styles path *.css *.png\n\theader @styles Cache-Control \"public, max-age=600\"\n\
         \trespond /health \"fine\" 200\n\trespond /gone 410\n\
         \thandle_path /media/* {{\n\t\troot * {media}\n\t\tfile_server\n\t}}\n\
         \tbasicauth /private/* {{\n\t\tann \
         JDJ5JDA1JEMxZkhQckxKN1NKWjBZd1o4T3VCZWVLcTBibVpUbzV5VHFVMkJMaEdRenE3Q2hZYjlSazVT\n\t}}\n\
         \tfile_server",
        root = tree.root().display(),
        media = tree.beside("media").display()
    );
    let (text, said) = like_caddy(
        &tree,
        &site,
        &[
            ("/", ""),
            ("/about.html", ""),
            ("/missing", ""),
            ("/moved?x=1", ""),
            ("/short", ""),
            ("/docs/", ""),
            ("/app.css", ""),
            ("/img/logo.png", ""),
            ("/health", ""),
            ("/gone", ""),
            ("/media/2026/photo.jpg", ""),
            ("/media/none", ""),
            ("/private/report.txt", ""),
            ("/private/report.txt", PASSWORD),
        ],
    );
    if !text.is_empty() {
        assert!(!said.contains(": not translated: "), "{said}");
        assert!(text.contains("#   ann:$2y$05$C1f"), "{text}");
    }
}

#[test]
fn a_caddyfile_with_a_proxy() {
    let tree = tree();
    let application = application();
    let site = format!(
        "\troot * {root}\n\t@static file_of_app\n\
         \thandle_path /api/* {{\n\t\treverse_proxy {app} {{\n\t\t\theader_up X-App one\n\
         \t\t\theader_up -X-Secret\n\t\t\theader_down -X-Powered-By\n\t\t}}\n\t}}\n\
         \thandle /static/* {{\n\t\turi strip_prefix /static\n\t\tfile_server\n\t}}\n\
         \thandle {{\n\t\treverse_proxy {app}\n\t}}",
        root = tree.root().display(),
        app = application.address
    )
    .replace("\t@static file_of_app\n", "");
    let (text, said) = like_caddy(
        &tree,
        &site,
        &[
            ("/api/users?id=1", "X-Secret: 1\r\n"),
            ("/static/app.css", ""),
            ("/static/none.css", ""),
            ("/other?a=b", ""),
            ("/", ""),
        ],
    );
    assert!(text.is_empty() || !said.contains(": not translated: "), "{said}");
}

#[test]
fn a_caddyfile_with_php() {
    let tree = application_tree();
    let Some(php) = php(&tree) else { return };
    let site = format!(
        "\troot * {root}\n\t@forbidden {{\n\t\tpath /private/* /.git/*\n\t}}\n\trespond @forbidden 403\n\
         \tphp_fastcgi {php}\n\tfile_server",
        root = tree.root().display(),
        php = php.address
    );
    like_caddy(
        &tree,
        &site,
        &[
            ("/", ""),
            ("/post/1?a=b", ""),
            ("/app.css", ""),
            ("/wp-login.php?x=1", ""),
            ("/admin/", ""),
            ("/private/report.txt", ""),
            ("/.git/config", ""),
        ],
    );
}

#[test]
fn an_application_of_one_page_and_unknown_lines_of_caddy() {
    let tree = tree();
    let site = format!("\troot * {}\n\ttry_files {{path}} /index.html\n\tfile_server", tree.root().display());
    like_caddy(&tree, &site, &[("/", ""), ("/app.css", ""), ("/any/where", "")]);
    let file = tree.beside("Caddyfile");
    fs::write(
        &file,
        "(logged) {\n\tlog {\n\t\toutput file /var/log/{args[0]}.log\n\t}\n}\n\
         shop.example.org {\n\timport logged shop\n\ttls ops@example.org\n\
         \t@inside not remote_ip 10.0.0.0/8\n\trespond /internal/* 404\n\
         \treverse_proxy app-a:3000 app-b:3000 {\n\t\tlb_policy ip_hash\n\t\thealth_uri /up\n\t}\n\
         \ttemplates\n}\n",
    )
    .unwrap();
    let output = run(["import", "caddy", file.to_str().unwrap()]);
    let (text, said) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    for line in [
        "hosts = [\"shop.example.org\"]",
        "certificate = \"acme\"",
        "contact = [\"ops@example.org\"]",
        "to = [\"http://app-a:3000\", \"http://app-b:3000\"]",
        "hash_by = \"client\"",
        "redirect = { to = \"https://$host$path\", status = 308 }",
        "path = \"/var/log/shop.log\"",
    ] {
        assert!(text.lines().any(|written| written == line), "{line}\n{text}");
    }
    let place = format!("{}:15: not translated: templates", file.display());
    assert!(said.contains(&place), "{said}");
}

#[test]
fn a_host_of_apache_with_files_redirects_and_access() {
    let tree = tree();
    open_to_all(tree.around());
    let (root, media) = (tree.root(), tree.beside("media"));
    let host = format!(
        "ServerName www.example.org\nDocumentRoot {root}\n\
         <Directory {root}>\nRequire all granted\nOptions -Indexes\nDirectoryIndex index.html\n</Directory>\n\
         <Directory {media}>\nRequire all granted\n</Directory>\n\
         Alias /media {media}\n\
         Redirect permanent /moved https://other.example.org/to\nRedirect /gone-away https://b.example.org/\n\
         RedirectMatch gone ^/gone$\n\
         <Directory {root}/private>\nAuthType Basic\nAuthName Members\nAuthUserFile {users}\n\
         Require valid-user\n</Directory>\n\
         <Directory {root}/img>\nRequire ip 192.0.2.0/24\n</Directory>\n\
         <Location /docs>\nHeader set X-Frame-Options DENY\n</Location>\n\
         <FilesMatch \"\\.(bak|inc)$\">\nRequire all denied\n</FilesMatch>\n\
         <FilesMatch \"^\\.\">\nRequire all denied\n</FilesMatch>\n",
        root = root.display(),
        media = media.display(),
        users = tree.beside("users.htpasswd").display()
    );
    tree.write("old.bak", "secret");
    let (text, said) = like_apache(
        &tree,
        &host,
        &[
            ("/", ""),
            ("/about.html", ""),
            ("/missing", ""),
            ("/moved/a?x=1", ""),
            ("/moved", ""),
            ("/gone-away", ""),
            ("/gone", ""),
            ("/docs/", ""),
            ("/old.bak", ""),
            ("/img/logo.png", ""),
            ("/media/2026/photo.jpg", ""),
            ("/private/report.txt", ""),
            ("/private/report.txt", PASSWORD),
        ],
    );
    assert!(text.is_empty() || !said.contains(": not translated: "), "{said}");
}

#[test]
fn a_host_of_apache_with_a_proxy() {
    let tree = tree();
    open_to_all(tree.around());
    let application = application();
    let host = format!(
        "ServerName www.example.org\nDocumentRoot {root}\n<Directory {root}>\nRequire all granted\n\
         </Directory>\n\
         ProxyPreserveHost On\nRequestHeader set X-App one\nRequestHeader unset X-Secret\n\
         RequestHeader set X-Forwarded-Proto http\n\
         ProxyPass /docs/ !\nProxyPass /api/ http://{app}/v2/\nProxyPass / http://{app}/\n",
        root = tree.root().display(),
        app = application.address
    );
    like_apache(
        &tree,
        &host,
        &[("/api/users?id=1", "X-Secret: 1\r\n"), ("/docs/", ""), ("/other?a=b", ""), ("/", "")],
    );
}

/// An origin whose body is the line of the request. It redirects to the address of `X-Location`, in which
/// `ORIGIN` is its own.
fn redirecting() -> Origin {
    Origin::start(|stream| {
        let own = stream.local_addr().unwrap().to_string();
        while let Some(head) = read_head(stream) {
            let line = head.lines().next().unwrap_or_default();
            let location = head.lines().find_map(|line| line.strip_prefix("X-Location: "));
            let status = match location {
                Some(to) => format!("302 Found\r\nLocation: {}", to.replace("ORIGIN", &own)),
                None => "200 OK".to_string(),
            };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{line}", line.len());
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    })
}

#[test]
fn paths_and_redirects_of_origins_of_apache() {
    let tree = tree();
    open_to_all(tree.around());
    let app = redirecting();
    let pairs = [
        ("/a", "/b/"),
        ("/c/", "/d"),
        ("/g", "/h"),
        ("/i/", "/j/"),
        ("/l", "/l/"),
        ("/m/", "/m"),
        // The first address that fits counts in Apache: these fit all.
        ("/e", "/"),
        ("/k", ""),
    ];
    let lines: String = pairs
        .iter()
        .map(|(path, base)| {
            let address = format!("http://{}{base}", app.address);
            format!("ProxyPass {path} {address}\nProxyPassReverse {path} {address}\n")
        })
        .collect();
    let host = format!(
        "ServerName www.example.org\nDocumentRoot {root}\n<Directory {root}>\nRequire all granted\n\
         </Directory>\nProxyPass /a/own/ !\n{lines}\
         <Location /a/inner>\nRequire all denied\n</Location>\n\
         <Location /g/inner>\nRequire ip 127.0.0.1\n</Location>\n\
         <Location /c/inner>\nRequire ip 127.0.0.1\n</Location>\n\
         <Location /n>\nProxyPass http://{app}/o/\nProxyPassReverse http://{app}/o/\n</Location>\n\
         ProxyPassReverseCookiePath /b/ /a/\n",
        root = tree.root().display(),
        app = app.address
    );
    let redirect = |to: &'static str| ("/g/redirect", to);
    let mut requests = vec![
        ("/a/own/", ""),
        ("/a/inner", ""),
        ("/a/inner/x", ""),
        ("/a/innerx", ""),
        ("/g/inner", ""),
        ("/g/inner/x?y=1", ""),
        ("/c/inner", ""),
        ("/c/inner/x", ""),
        ("/ab", ""),
        ("/a/x?y=1", ""),
        ("/a/x%20y", ""),
        redirect("X-Location: http://ORIGIN/b/y\r\n"),
        redirect("X-Location: http://ORIGIN/h/y?z=1\r\n"),
        redirect("X-Location: http://ORIGIN/j/y\r\n"),
        redirect("X-Location: https://www.example.com/b/y\r\n"),
    ];
    let paths = ["/a", "/c/", "/e", "/g", "/i/", "/k", "/l", "/m/", "/n"];
    // Apache would send `//x` for `/e/x`: here the path for an origin never begins with two slashes.
    let named: Vec<&str> = paths.iter().map(|path| path.trim_end_matches('/')).collect();
    let below: Vec<String> =
        named.iter().filter(|path| **path != "/e").map(|path| format!("{path}/x")).collect();
    let slashes: Vec<String> =
        named.iter().filter(|path| **path != "/e").map(|path| format!("{path}/")).collect();
    requests.extend(paths.iter().map(|path| (*path, "")));
    requests.extend(below.iter().chain(&slashes).map(|path| (path.as_str(), "")));
    let (text, said) = like_apache(&tree, &host, &requests);
    assert!(said.is_empty() || said.contains(" 0 not translated."), "{said}\n{text}");
}

/// The `.htaccess` of applications, as in their packages or in their guides.
const HTACCESS: [(&str, &str); 4] = [
    (
        "WordPress",
        "# BEGIN WordPress\n<IfModule mod_rewrite.c>\nRewriteEngine On\n\
         RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\nRewriteBase /\n\
         RewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
         RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n</IfModule>\n# END WordPress\n",
    ),
    (
        "Laravel",
        "<IfModule mod_rewrite.c>\n<IfModule mod_negotiation.c>\nOptions -MultiViews -Indexes\n</IfModule>\n\
         RewriteEngine On\nRewriteCond %{HTTP:Authorization} .\n\
         RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\n\
         RewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_FILENAME} !-f\n\
         RewriteRule ^ index.php [L]\n</IfModule>\n",
    ),
    (
        "Drupal",
        "<FilesMatch \"\\.(engine|inc|install|make|module|profile|po|sh|.*sql|theme|twig|tpl(\\.php)?|xtmpl|\
         yml)(~|\\.sw[op]|\\.bak|\\.orig|\\.save)?$|^(\\.(?!well-known).*|Entries.*|Repository)$\">\n\
         <IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n</FilesMatch>\n\
         Options -Indexes\n<IfModule mod_rewrite.c>\nRewriteEngine on\n\
         RewriteRule \"/\\.|^\\.(?!well-known/)\" - [F]\n\
         RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
         RewriteCond %{REQUEST_URI} !=/favicon.ico\nRewriteRule ^ index.php [L]\n</IfModule>\n",
    ),
    (
        "Nextcloud",
        "<IfModule mod_headers.c>\nHeader always set X-Frame-Options \"SAMEORIGIN\"\n</IfModule>\n\
         <IfModule mod_rewrite.c>\nRewriteEngine on\n\
         RewriteRule ^\\.well-known/carddav /remote.php/dav/ [R=301,L]\n\
         RewriteRule ^(?:build|tests|config|lib|3rdparty|templates)/.* - [R=404,L]\n\
         RewriteRule ^(?:\\.|autotest|occ|issue|indie|db_|console).* - [R=404,L]\n</IfModule>\n\
         ErrorDocument 403 /index.html\nDirectoryIndex index.php index.html\n",
    ),
];

#[test]
fn applications_with_a_htaccess() {
    let requests: [(&str, &str); 9] = [
        ("/", ""),
        ("/post/1?a=b", ""),
        ("/app.css", ""),
        ("/wp-login.php?x=1", ""),
        ("/admin/", ""),
        ("/.well-known/carddav", ""),
        ("/config/config.php", ""),
        ("/occ", ""),
        ("/data.sql", ""),
    ];
    for (_, htaccess) in HTACCESS {
        let tree = application_tree();
        let Some(php) = php(&tree) else { return };
        tree.write("data.sql", "create table");
        tree.write(".htaccess", htaccess);
        let root = tree.root();
        let host = format!(
            "ServerName www.example.org\nDocumentRoot {root}\n<Directory {root}>\nAllowOverride All\n\
             Require all granted\nDirectoryIndex index.php index.html\n</Directory>\n\
             <FilesMatch \\.php$>\nSetHandler \"proxy:fcgi://{php}\"\n</FilesMatch>\n",
            root = root.display(),
            php = php.address
        );
        // Only Nextcloud has no front controller here: what is not there is 404 in both.
        like_apache(&tree, &host, &requests);
    }
}

#[test]
fn a_directory_with_a_htaccess_and_unknown_lines_of_apache() {
    let tree = tree();
    tree.write(".htaccess", "RewriteEngine On\nRewriteCond %{TIME_HOUR} >12\nRewriteRule ^x - [F]\n");
    tree.write("private/.htaccess", "Require all denied\n");
    let output = run(["import", "apache", tree.root().to_str().unwrap()]);
    let (text, said) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(output.status.success(), "{said}");
    let private = text.split("path = \"/private/\"").nth(1).unwrap_or_default();
    assert!(private.lines().take(3).any(|line| line == "respond = { status = 403 }"), "{text}");
    let place = format!("{}:3: not translated", tree.file(".htaccess").display());
    assert!(said.contains(&place) && said.contains("all of these requests are refused"), "{said}");
    let empty = tree.file("img");
    let output = run(["import", "apache", empty.to_str().unwrap()]);
    assert!(format!("{output:?}").contains("neither a configuration"), "{output:?}");
}

#[test]
fn maps_of_rules_of_apache() {
    let tree = tree();
    open_to_all(tree.around());
    let write = |name: &str, text: &str| {
        let path = tree.beside(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let urls = write(
        "urls.txt",
        "# short names\na https://other.example.org/x\nb   /about.html\nc/d\t/docs/\nUPPER /up.html\n",
    );
    let pages = write("pages.txt", "start index.html\nstyle app.css\n");
    let hosts = write("hosts.txt", "www.example.org shop\n");
    let host = format!(
        "ServerName www.example.org\nDocumentRoot {root}\n\
         <Directory {root}>\nRequire all granted\nOptions -Indexes\nDirectoryIndex index.html\n</Directory>\n\
         RewriteEngine On\nRewriteMap urls txt:{urls}\nRewriteMap pages \"txt:{pages}\"\n\
         RewriteMap hosts txt:{hosts}\nRewriteMap lc int:tolower\nRewriteMap uc int:toupper\n\
         RewriteMap any rnd:{pages}\n\
         RewriteRule ^/go/(.*)$ ${{urls:$1|/none.html}} [R=301,L]\n\
         RewriteRule ^/in/(.*)$ /${{pages:$1|missing.html}} [L]\n\
         RewriteRule ^/lower/(.*)$ /low/${{lc:$1}} [R=302,L]\n\
         RewriteRule ^/upper/(.*)$ /up/${{uc:$1}} [R=302,L]\n\
         RewriteRule ^/nested/(.*)$ ${{urls:${{uc:$1}}|/none.html}} [R=302,L]\n\
         RewriteCond ${{hosts:%{{HTTP_HOST}}|none}} =shop\nRewriteRule ^/shop$ /about.html [L]\n\
         RewriteCond ${{hosts:%{{HTTP_HOST}}|none}} !=shop\nRewriteRule ^/other$ /about.html [L]\n\
         RewriteCond ${{hosts:%{{HTTP_HOST}}|none}} ^SH [NC]\nRewriteRule ^/case$ /app.css [L]\n",
        root = tree.root().display(),
    );
    let (text, said) = like_apache(
        &tree,
        &host,
        &[
            ("/go/a", ""),
            ("/go/b", ""),
            ("/go/b?x=1", ""),
            ("/go/c/d", ""),
            ("/go/c/d?x=1", ""),
            ("/go/", ""),
            ("/go/unknown", ""),
            ("/in/start", ""),
            ("/in/style", ""),
            ("/in/none", ""),
            ("/lower/AbC/D", ""),
            ("/upper/AbC/D", ""),
            ("/nested/upper", ""),
            ("/nested/a", ""),
            ("/shop", ""),
            ("/other", ""),
            ("/case", ""),
        ],
    );
    // A random choice is the only thing that is not translated.
    assert!(text.is_empty() || said.matches(": not translated: ").count() == 1, "{said}");
}
