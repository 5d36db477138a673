//! A real oauth2-proxy decides: signing in through the server, a session, and its end.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{CGI, ask, program};
use crate::support::{Server, Tree, free_port, skipped, wait_until};

/// A running oauth2-proxy; it ends with the test.
struct Oauth2Proxy {
    child: Child,
    port: u16,
}

impl Oauth2Proxy {
    /// One with alice in its file of passwords; `None`, with a visible message, if it is not installed.
    fn start(tree: &Tree) -> Option<Oauth2Proxy> {
        let port = free_port();
        // SHA-1 of "secret", a form that it reads.
        fs::write(tree.beside("users"), "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n").expect("written");
        let child = Command::new("oauth2-proxy")
            .args([format!("--http-address=127.0.0.1:{port}")])
            .args([format!("--htpasswd-file={}", tree.beside("users").display())])
            .args(["--upstream=static://202", "--reverse-proxy=true", "--set-xauthrequest=true"])
            .args(["--trusted-proxy-ip=127.0.0.1", "--cookie-secret=0123456789abcdef0123456789abcdef"])
            .args(["--cookie-secure=false", "--email-domain=*", "--client-id=a", "--client-secret=b"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match child {
            Ok(child) => Some(Oauth2Proxy { child, port }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                skipped(
                    "forward authentication with oauth2-proxy (install golang, then run scripts/setup.sh)",
                );
                None
            }
            Err(error) => panic!("oauth2-proxy: {error}"),
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("oauth2-proxy runs");
    }
}

impl Drop for Oauth2Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_session_of_oauth2_proxy_opens_the_route_and_nothing_else_does() {
    let tree = Tree::standard();
    program(&tree);
    let Some(mut proxy) = Oauth2Proxy::start(&tree) else { return };
    let origin = format!("http://127.0.0.1:{}", proxy.port);
    let server = Server::configured(
        tree.around(),
        &format!(
            "{}forward_auth = {{ url = \"{origin}/oauth2/auth\", fields = [\"X-Auth-Request-User\"], \
             user = \"X-Auth-Request-User\", sign_in = \"/oauth2/sign_in?rd={{url}}\", timeout = \"10s\" }}\n\
             [[site.route]]\npath = \"/oauth2/\"\nproxy = {{ to = \"{origin}\" }}\n\
             forward_auth = {{ url = \"off\" }}\n{CGI}",
            tree.configuration("")
        ),
    );
    let patience = Duration::from_secs(60);
    wait_until("oauth2-proxy answers", patience, || {
        ask(&mut server.connect(), "/alphabet.txt", "").status == 302
    });
    let mut client = server.connect();
    let sent_away = ask(&mut client, "/alphabet.txt", "");
    let location = sent_away.field("location").unwrap();
    assert_eq!(location, "/oauth2/sign_in?rd=http%3A%2F%2Fa.example%2Falphabet.txt");
    assert!(ask(&mut client, location, "").body.windows(5).any(|part| part == b"<form"));
    let form = "username=alice&password=secret&rd=%2Falphabet.txt";
    let sign_in = |form: &str| {
        format!(
            "POST /oauth2/sign_in HTTP/1.1\r\nHost: a.example\r\nContent-Length: {}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n\r\n{form}",
            form.len()
        )
    };
    let wrong = client.ask(sign_in("username=alice&password=wrong"));
    assert!(wrong.field("set-cookie").is_none_or(|cookie| !cookie.starts_with("_oauth2_proxy=")));
    let signed_in = server.connect().ask(sign_in(form));
    assert_eq!((signed_in.status, signed_in.field("location")), (302, Some("/alphabet.txt")));
    let cookie = signed_in.field("set-cookie").unwrap().split(';').next().unwrap().to_string();
    let cookie = format!("Cookie: {cookie}\r\n");
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "/alphabet.txt", &cookie).status, 200);
    let who = ask(&mut client, "/cgi/who", &format!("{cookie}X-Auth-Request-User: root\r\n"));
    assert_eq!(String::from_utf8_lossy(&who.body), "alice  ");
    let forged = cookie.replace("|", "|1");
    assert_eq!(ask(&mut client, "/alphabet.txt", &forged).status, 302);
    // While it hangs, and after its end, not even those who have signed in pass.
    proxy.signal(Signal::STOP);
    // The signal is sent before the process is stopped.
    let state = format!("/proc/{}/stat", proxy.child.id());
    wait_until("oauth2-proxy stands still", patience, || {
        std::fs::read_to_string(&state).is_ok_and(|text| text.contains(") T "))
    });
    assert_eq!(ask(&mut client, "/alphabet.txt", &cookie).status, 504);
    proxy.signal(Signal::CONT);
    wait_until("oauth2-proxy answers again", patience, || {
        ask(&mut server.connect(), "/alphabet.txt", &cookie).status == 200
    });
    proxy.child.kill().unwrap();
    proxy.child.wait().unwrap();
    for _ in 0..5 {
        let status = ask(&mut client, "/alphabet.txt", &cookie).status;
        assert!([502, 503].contains(&status), "{status}");
    }
}
