//! The text of the configuration that `touchstone init` writes.

use std::fmt::Write as _;

use super::{Answers, Kind, Tls};
use touchstone_import_base::toml_text::{toml_string, toml_strings};

const BEGINNING: &str = "\
# The configuration of Touchstone. Every key: touchstone check --explain
# Is it right?    touchstone check --config FILE
# Start:          touchstone serve --config FILE
# After changes:  touchstone reload --config FILE

[server]
# Where `touchstone reload`, `status` and `stop` find the server.
# pid_file = \"/run/touchstone/touchstone.pid\"
# control_socket = \"/run/touchstone/control.sock\"
# As root: the user that serves, once the ports are open.
# user = \"www-data\"

[access_log]
# A file, \"stdout\", \"stderr\" or \"off\".
path = \"off\"
format = \"combined\"
";

/// The whole text.
pub(super) fn configuration(answers: &Answers) -> String {
    let mut text = String::from(BEGINNING);
    if answers.tls == Tls::Acme {
        acme(&mut text, answers);
    }
    text.push_str("\n[[site]]\n");
    hosts(&mut text, answers);
    let _ = writeln!(text, "listen = [\"{}\"]", answers.listen);
    site(&mut text, answers);
    certificate(&mut text, answers);
    route(&mut text, answers);
    if answers.tls == Tls::Acme {
        redirect(&mut text, answers);
    }
    text
}

fn hosts(text: &mut String, answers: &Answers) {
    match answers.hosts.is_empty() {
        true => text.push_str("# Without names it answers every host.\n# hosts = [\"example.org\"]\n"),
        false => {
            let _ = writeln!(text, "hosts = {}", toml_strings(answers.hosts.iter().map(String::as_str)));
        }
    }
}

fn acme(text: &mut String, answers: &Answers) {
    text.push_str(
        "\n[acme]\n# Its certificates are for trying out. When all is well: \"letsencrypt\"\n\
         directory = \"letsencrypt-staging\"\nagree_to_terms = true\n",
    );
    if !answers.contact.is_empty() {
        let _ = writeln!(text, "contact = {}", toml_strings([answers.contact.as_str()]));
    }
    text.push_str("# Account, keys and certificates.\nstorage = \"acme\"\n");
}

fn site(text: &mut String, answers: &Answers) {
    match answers.kind {
        Kind::Files => {
            let _ = writeln!(
                text,
                "# Relative to the directory of this file.\nroot = {}\n\
                 # What a directory shows that has no index file: \"off\", \"html\", \"json\", \"auto\"\n\
                 listing = \"off\"",
                toml_string(&answers.root)
            );
        }
        Kind::Php => {
            let _ = writeln!(
                text,
                "# Relative to the directory of this file.\nroot = {}\n\
                 index = [\"index.php\", \"index.html\"]",
                toml_string(&answers.root)
            );
        }
        // The route below takes every path, so the site needs no directory of files.
        Kind::Proxy | Kind::Accelerate | Kind::Servlet => {}
    }
}

fn certificate(text: &mut String, answers: &Answers) {
    match answers.tls {
        Tls::Off => {
            text.push_str("# HTTPS: certificate = \"FILE\", \"acme\", or development_certificate = true\n")
        }
        Tls::Acme => text.push_str("certificate = \"acme\"\n# http3 = true\n"),
        Tls::Development => {
            text.push_str(
                "# Made at the start, and trusted by no browser.\ndevelopment_certificate = true\n",
            );
        }
        Tls::Files => {
            let _ = writeln!(text, "certificate = {}", toml_string(&answers.certificate));
            if !answers.key.is_empty() {
                let _ = writeln!(text, "key = {}", toml_string(&answers.key));
            }
            text.push_str("# http3 = true\n");
        }
    }
}

fn route(text: &mut String, answers: &Answers) {
    let what = toml_string(&answers.what);
    let _ = match answers.kind {
        Kind::Files => return,
        Kind::Proxy => writeln!(text, "\n[[site.route]]\npath = \"/\"\nproxy = {{ to = {what} }}"),
        Kind::Accelerate => writeln!(
            text,
            "\n[[site.route]]\npath = \"/\"\nproxy = {{ to = {what} }}\n\
             # The application states what is stored, and for how long (Cache-Control).\n\
             # More: docs/accelerator.md.\ncache = {{}}"
        ),
        Kind::Php => {
            let mut keys = Vec::new();
            match answers.what.as_str() {
                // Root must name the user that scripts run as.
                "managed" if answers.is_root => keys.push("user = \"www-data\"".to_string()),
                "managed" => {}
                _ => keys.push(format!("backends = [{what}]")),
            }
            let plain = match keys.is_empty() {
                true => what,
                false => format!("{{ {} }}", keys.join(", ")),
            };
            keys.push("front_controller = \"/index.php\"".to_string());
            let front = format!("{{ {} }}", keys.join(", "));
            match answers.is_application {
                true => writeln!(
                    text,
                    "\n[[site.route]]\n# Paths that are not files are answered by this script.\nphp = {front}"
                ),
                false => writeln!(
                    text,
                    "\n[[site.route]]\nphp = {plain}\n\
                     # An application with a front controller (WordPress, Laravel) takes this instead:\n\
                     # php = {front}"
                ),
            }
        }
        Kind::Servlet => writeln!(text, "\n[[site.route]]\npath = \"/\"\nservlet = {{ app = {what} }}"),
    };
}

/// Plain HTTP is redirected to HTTPS.
fn redirect(text: &mut String, answers: &Answers) {
    text.push_str("\n# Plain HTTP is redirected to HTTPS.\n[[site]]\n");
    hosts(text, answers);
    let _ = writeln!(text, "listen = [\"{}:80\"]", bracketed(answers));
    text.push_str("\n[[site.route]]\npath = \"/\"\n");
    text.push_str("redirect = { to = \"https://$host$path\", status = 308 }\n");
}

fn bracketed(answers: &Answers) -> String {
    match answers.listen.ip() {
        std::net::IpAddr::V6(address) => format!("[{address}]"),
        std::net::IpAddr::V4(address) => address.to_string(),
    }
}
