//! Requests and answers as lines, and the socket itself.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

fn echo(request: Request, reply: Reply) {
    reply.send(Answer::done(format!("{request:?}")));
}

fn addresses() -> (tempfile::TempDir, [ControlAddress; 2]) {
    let directory = tempfile::tempdir().unwrap();
    let path = ControlAddress::Path(directory.path().join("control.sock"));
    let name = ControlAddress::Name(name_for(&directory.path().join("touchstone.toml")));
    (directory, [path, name])
}

#[test]
fn requests_are_answered() {
    let (_directory, addresses) = addresses();
    for address in addresses {
        assert!(matches!(ask(&address, &Request::Reload, PATIENCE), Err(AskError::NoServer(_))));
        let listener = ControlListener::bind(&address).unwrap();
        assert_eq!(listener.address(), Some(address.clone()));
        let control = listener.start(echo).unwrap();
        for request in [Request::Reload, Request::Status, Request::Upgrade(Some("/bin/true".into()))] {
            let answer = ask(&address, &request, PATIENCE).unwrap();
            assert_eq!(answer, Answer::done(format!("{request:?}")));
        }
        let second = ControlListener::bind(&address).unwrap_err();
        assert_eq!(second.to_string(), "another server answers there");
        control.remove();
        assert!(matches!(ask(&address, &Request::Reload, PATIENCE), Err(AskError::NoServer(_))));
    }
}

#[test]
fn only_the_owner_may_open_the_path() {
    use std::os::unix::fs::PermissionsExt;
    let (_directory, [path, _]) = addresses();
    let _listener = ControlListener::bind(&path).unwrap();
    let ControlAddress::Path(path) = path else { unreachable!() };
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn a_stale_socket_is_replaced_and_a_file_is_not() {
    let (_directory, [address, _]) = addresses();
    let ControlAddress::Path(path) = &address else { unreachable!() };
    let left_behind = UnixListener::bind(path).unwrap();
    // Children of other tests have a copy of it too, until their program starts.
    rustix::net::shutdown(&left_behind, rustix::net::Shutdown::Both).unwrap();
    drop(left_behind);
    drop(ControlListener::bind(&address).unwrap());
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, "precious").unwrap();
    assert!(ControlListener::bind(&address).unwrap_err().to_string().contains("not a socket"));
    assert_eq!(std::fs::read(path).unwrap(), b"precious");
}

#[test]
fn a_removed_socket_does_not_listen_in_a_copy() {
    let (_directory, [address, _]) = addresses();
    let control = ControlListener::bind(&address).unwrap().start(echo).unwrap();
    let _copy = control.to_pass().unwrap();
    let ControlAddress::Path(path) = &address else { unreachable!() };
    let other_name = path.with_extension("kept");
    std::fs::hard_link(path, &other_name).unwrap();
    control.remove();
    let refused = UnixStream::connect(&other_name).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn invalid_lines_are_refused_and_others_are_answered() {
    let (_directory, [address, _]) = addresses();
    let control = ControlListener::bind(&address).unwrap().start(echo).unwrap();
    let ControlAddress::Path(path) = &address else { unreachable!() };
    for (line, why) in [
        (&b"reload\n"[..], "not JSON"),
        (b"{}\n", "no 'command'"),
        (b"{\"command\":\"dance\"}\n", "\\\"dance\\\""),
        (b"{\"command\":\"upgrade\",\"program\":\"touchstone\"}\n", "absolute path"),
        (&[b'['; 20_000], "not JSON"),
    ] {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The end of a line that is too long may no longer be accepted.
        let _ = stream.write_all(line);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains("\"ok\":false") && text.contains(why), "{why}: {text}");
    }
    assert!(ask(&address, &Request::Stop, PATIENCE).unwrap().ok);
    control.leave();
}

#[test]
fn one_configuration_file_has_one_name() {
    let directory = tempfile::tempdir().unwrap();
    let real = directory.path().join("real");
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, directory.path().join("link")).unwrap();
    let name = name_for(&real.join("a.toml"));
    assert_eq!(name_for(&directory.path().join("link/a.toml")), name);
    assert_eq!(name_for(&directory.path().join("real/../real/a.toml")), name);
    assert_ne!(name_for(&real.join("b.toml")), name);
}

#[test]
fn an_end_is_waited_for() {
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    assert!(!wait_for_end(child.id(), Duration::from_millis(10)).unwrap());
    child.kill().unwrap();
    assert!(wait_for_end(child.id(), PATIENCE).unwrap());
    child.wait().unwrap();
    assert!(wait_for_end(child.id(), PATIENCE).unwrap());
}

fn any_request() -> impl Strategy<Value = Request> {
    prop_oneof![
        Just(Request::Reload),
        Just(Request::ReopenLogs),
        Just(Request::Status),
        Just(Request::Stop),
        Just(Request::Upgrade(None)),
        "/[a-z \"\\\\é]{0,20}".prop_map(|path| Request::Upgrade(Some(path.into()))),
    ]
}

proptest! {
    #[test]
    fn requests_are_read_as_they_were_written(request in any_request()) {
        prop_assert_eq!(Request::parse(request.to_line().as_bytes()).unwrap(), request);
    }

    #[test]
    fn answers_are_read_as_they_were_written(ok: bool, message: String, problems: Vec<String>) {
        let answer = Answer { ok, message, problems, facts: Value::Null };
        let line = answer.to_line();
        prop_assert_eq!(line.matches('\n').count(), 1);
        prop_assert_eq!(Answer::parse(line.as_bytes()).unwrap(), answer);
    }

    #[test]
    fn any_line_is_a_request_or_is_refused(line: Vec<u8>) {
        let _ = Request::parse(&line);
        let _ = Answer::parse(&line);
    }
}
