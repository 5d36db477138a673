//! Tests of both ends of a handover, in one process if possible, and with real programs where one must start
//! or fail to start.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use touchstone_config::ListenAddress;

use super::packet::{MOST_IN_A_PACKET, Packet, receive, send};
use super::*;

fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

fn listening() -> (PassedSocket, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let configured = Some(listener.local_addr().unwrap().into());
    (PassedSocket { kind: Kind::Tcp, configured, is_shared_with_processes: false, owner: 0 }, listener.into())
}

#[test]
fn sockets_arrive_with_what_they_are() {
    // More than fit into one packet.
    let sockets: Vec<(PassedSocket, OwnedFd)> = (0..MOST_IN_A_PACKET + 3).map(|_| listening()).collect();
    let (ours, theirs) = pair();
    for part in sockets.chunks(MOST_IN_A_PACKET) {
        let passed = part.iter().map(|(passed, _)| passed.clone()).collect();
        let descriptors: Vec<_> = part.iter().map(|(_, socket)| std::os::fd::AsFd::as_fd(socket)).collect();
        send(&ours, &Packet::Sockets(passed), &descriptors).unwrap();
    }
    send(&ours, &Packet::End, &[]).unwrap();
    let (predecessor, received) = Predecessor::take_over(theirs).unwrap();
    assert_eq!(received.len(), sockets.len());
    for ((sent, _), (passed, descriptor)) in sockets.iter().zip(received) {
        assert_eq!(*sent, passed);
        let listener = TcpListener::from(descriptor);
        assert_eq!(Some(listener.local_addr().unwrap().into()), passed.configured);
    }
    let taken: Vec<ListenAddress> =
        ["127.0.0.1:80", "unix:/run/a.sock"].map(|text| text.parse().unwrap()).to_vec();
    std::thread::scope(|scope| {
        scope.spawn(|| predecessor.ready(taken.clone()));
        assert_eq!(receive(&ours, None).unwrap().unwrap().0, Packet::Ready(taken.clone()));
        send(&ours, &Packet::Go, &[]).unwrap();
    });
}

#[test]
fn an_end_before_all_packets_is_an_error() {
    let (ours, theirs) = pair();
    send(&ours, &Packet::Sockets(vec![listening().0]), &[]).unwrap();
    assert!(Predecessor::take_over(theirs).err().unwrap().to_string().contains("as many sockets"));
    let (ours, theirs) = pair();
    drop(ours);
    assert!(Predecessor::take_over(theirs).err().unwrap().to_string().contains("ended"));
}

#[test]
fn a_program_that_does_not_become_ready_is_reported() {
    let patience = Duration::from_secs(20);
    let start = |program: &str, arguments: &[&str], patience: Duration| {
        let arguments = arguments.iter().map(Into::into).collect();
        Successor::start_with(Path::new(program), arguments, vec![listening()])
            .and_then(|successor| successor.wait_until_ready(patience))
            .expect_err(program)
    };
    assert!(
        start("/nowhere/touchstone", &[], patience)
            .starts_with("cannot start '/nowhere/touchstone': No such")
    );
    assert!(start("/dev/null", &[], patience).contains("Permission denied"));
    let ended = start("/bin/sh", &["-c", "exit 7"], patience);
    assert_eq!(ended, "'/bin/sh' ended (exit status: 7) before it was ready");
    let late = start("/bin/sh", &["-c", "exec sleep 600"], Duration::from_millis(100));
    assert!(late.contains("was not ready within server.upgrade_timeout"), "{late}");
    let silent = start("/bin/sh", &["-c", "exec sleep 600 <&-"], patience);
    assert!(silent.contains("closed the channel"), "{silent}");
}

fn any_passed() -> impl Strategy<Value = PassedSocket> {
    let kind = prop_oneof![Just(Kind::Tcp), Just(Kind::Http3), Just(Kind::Control), Just(Kind::Unknown)];
    let unix = "/[a-z ]{1,20}".prop_map(|path| format!("unix:{path}").parse().unwrap());
    let ip = any::<([u8; 4], u16)>().prop_map(|address| SocketAddr::from(address).into());
    let address = proptest::option::of(prop_oneof![ip, unix]);
    (kind, address, any::<bool>(), any::<u32>()).prop_map(
        |(kind, configured, is_shared_with_processes, owner)| PassedSocket {
            kind,
            configured,
            is_shared_with_processes,
            owner,
        },
    )
}

proptest! {
    #[test]
    fn packets_are_read_as_they_were_written(
        sockets in proptest::collection::vec(any_passed(), 0..9),
        reasons: Vec<String>,
    ) {
        let taken = sockets.iter().filter_map(|passed| passed.configured).collect();
        for packet in [
            Packet::Sockets(sockets), Packet::Ready(taken), Packet::Failed(reasons),
            Packet::End, Packet::Go, Packet::Unknown,
        ] {
            prop_assert_eq!(Packet::parse(packet.to_text().as_bytes()), packet);
        }
    }

    #[test]
    fn any_bytes_are_a_packet_or_unknown(
        bytes: Vec<u8>,
        text in r#"\{"word":"(sockets|ready|failed)","(sockets|taken|reasons)":.{0,20}\}"#,
    ) {
        let _ = Packet::parse(&bytes);
        let _ = Packet::parse(text.as_bytes());
    }
}
