//! Datagrams: sessions by client, expected replies, limits.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{PATIENCE, Rig};

/// An origin that answers each datagram with so many, each its number and the datagram.
fn origin(replies: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("a socket");
    let received = Arc::new(AtomicUsize::new(0));
    let counted = received.clone();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 70_000];
        while let Ok((count, client)) = socket.recv_from(&mut buffer) {
            counted.fetch_add(1, Ordering::SeqCst);
            for number in 0..replies {
                let reply = [format!("{number}").as_bytes(), &buffer[..count]].concat();
                let _ = socket.send_to(&reply, client);
            }
        }
    });
    (address, received)
}

fn client(rig: &Rig) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(rig.address).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    socket
}

/// Sends a datagram and returns this many received ones. Datagrams may be lost: those that are not answered
/// are sent again.
fn ask(socket: &UdpSocket, datagram: &[u8], replies: usize) -> Vec<Vec<u8>> {
    socket.send(datagram).expect("a socket");
    let mut buffer = vec![0; 70_000];
    let mut receive = |_| socket.recv(&mut buffer).map(|count| buffer[..count].to_vec());
    (0..replies).map(|number| receive(number).expect("a reply comes")).collect()
}

#[test]
fn a_session_keeps_its_origin_and_gets_its_replies() {
    let (one, received_one) = origin(1);
    let (other, received_other) = origin(1);
    let rig = Rig::start(&format!(
        "protocol = \"udp\"\nto = [\"{one}\", \"{other}\"]\nbalance = \"round_robin\"\n\
         session_timeout = \"8s\""
    ));
    let clients: Vec<UdpSocket> = (0..8).map(|_| client(&rig)).collect();
    for round in 0..5 {
        for (number, socket) in clients.iter().enumerate() {
            let datagram = format!("{round} of {number}");
            assert_eq!(ask(socket, datagram.as_bytes(), 1), [format!("0{datagram}").into_bytes()]);
        }
    }
    let counts = [received_one.load(Ordering::SeqCst), received_other.load(Ordering::SeqCst)];
    assert_eq!(counts[0] + counts[1], 40);
    assert!(counts.iter().all(|count| count % 5 == 0), "each session has one origin: {counts:?}");
    let lines = rig.log(8);
    assert!(
        lines.iter().all(|line| line.contains(" udp 127.0.0.1:") && line.ends_with(" idle")),
        "{lines:?}"
    );
}

#[test]
fn a_session_ends_with_the_last_expected_reply() {
    let (address, _) = origin(3);
    let rig = Rig::start(&format!("protocol = \"udp\"\nto = \"{address}\"\nreplies = 3"));
    let replies = ask(&client(&rig), b"x", 3);
    assert_eq!(replies, [b"0x", b"1x", b"2x"]);
    let line = rig.log(1).remove(0);
    assert!(line.contains(&format!(" udp://{address} 1 6 ")) && line.ends_with(" done"), "{line}");
}

#[test]
fn large_datagrams_pass_and_too_large_ones_do_not() {
    let (address, received) = origin(1);
    let rig = Rig::start(&format!("protocol = \"udp\"\nto = \"{address}\"\ndatagram_bytes = 9001"));
    let socket = client(&rig);
    let datagram = crate::support::bytes_of(9000);
    assert_eq!(ask(&socket, &datagram, 1)[0][1..], datagram[..]);
    socket.send(&crate::support::bytes_of(9002)).expect("a socket");
    // The reply would be larger than may be.
    socket.send(&crate::support::bytes_of(9001)).expect("a socket");
    assert_eq!(ask(&socket, b"after it", 1), [b"0after it"]);
    assert_eq!(received.load(Ordering::SeqCst), 3);
    // An empty one is a datagram too.
    assert_eq!(ask(&socket, b"", 1), [b"0"]);
}

#[test]
fn sessions_are_limited() {
    let (address, received) = origin(1);
    let rig = Rig::start(&format!(
        "protocol = \"udp\"\nto = \"{address}\"\nconnections = 2\nsession_timeout = \"1h\""
    ));
    let held = [client(&rig), client(&rig)];
    held.iter().for_each(|socket| assert_eq!(ask(socket, b"x", 1), [b"0x"]));
    let third = client(&rig);
    third.send(b"x").expect("a socket");
    assert_eq!(rig.ends(1), ["limit"]);
    held.iter().for_each(|socket| assert_eq!(ask(socket, b"y", 1), [b"0y"]));
    assert_eq!(received.load(Ordering::SeqCst), 4);
}

#[test]
fn an_origin_that_is_not_there_is_noticed() {
    let down = crate::support::free_port();
    let (address, _) = origin(1);
    let rig = Rig::start(&format!(
        "protocol = \"udp\"\nto = [\"127.0.0.1:{down} weight=10000\", \"{address}\"]\n\
         balance = \"round_robin\"\nhealth = {{ max_failures = 1 }}"
    ));
    client(&rig).send(b"lost").expect("a socket");
    rig.server.wait_for_error_line("says that the origin is left alone", |line| {
        line.contains(&format!("origin udp://127.0.0.1:{down} gets no requests for a while"))
    });
    assert_eq!(ask(&client(&rig), b"x", 1), [b"0x"]);
}
