//! The messages between the two processes of an upgrade: JSON packets with attached descriptors.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde_json::{Value, json};
use touchstone_config::ListenAddress;

/// The maximum number of descriptors in one packet; the kernel allows up to 253.
pub const MOST_IN_A_PACKET: usize = 64;

/// The maximum size of a packet, far larger than needed.
const LARGEST_PACKET_BYTES: usize = 64 << 10;

/// The kind of a socket that is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A socket that listens for connections: TCP, or a unix socket.
    Tcp,
    /// A UDP socket of HTTP/3.
    Http3,
    /// A UDP socket of a stream.
    Udp,
    /// The control socket.
    Control,
    /// A kind that this version does not support.
    Unknown,
}

/// A socket that is passed on, without its descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedSocket {
    /// The kind of the socket.
    pub kind: Kind,
    /// The address in the old process's configuration.
    pub configured: Option<ListenAddress>,
    /// Whether the socket belongs to the program that started the old process (systemd).
    pub is_shared_with_processes: bool,
    /// The user who may use the control socket, besides root.
    pub owner: u32,
}

/// A packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// Sockets; their descriptors are sent with the packet.
    Sockets(Vec<PassedSocket>),
    /// There are no more sockets.
    End,
    /// Every core accepts; these are the addresses of the sockets in use.
    Ready(Vec<ListenAddress>),
    /// The old process no longer accepts.
    Go,
    /// The new process cannot start, for these reasons.
    Failed(Vec<String>),
    /// A packet that this version does not support.
    Unknown,
}

impl Packet {
    pub(super) fn to_text(&self) -> String {
        let value = match self {
            Packet::Sockets(sockets) => {
                json!({ "word": "sockets", "sockets": sockets.iter().map(passed_to_json).collect::<Value>() })
            }
            Packet::End => json!({ "word": "end" }),
            Packet::Ready(taken) => {
                json!({ "word": "ready", "taken": taken.iter().map(ToString::to_string).collect::<Vec<_>>() })
            }
            Packet::Go => json!({ "word": "go" }),
            Packet::Failed(reasons) => json!({ "word": "failed", "reasons": reasons }),
            Packet::Unknown => json!({ "word": "unknown" }),
        };
        value.to_string()
    }

    pub(super) fn parse(bytes: &[u8]) -> Packet {
        let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return Packet::Unknown };
        let array = |name: &str| value[name].as_array().cloned().unwrap_or_default();
        let texts = |name: &str| {
            array(name).iter().filter_map(Value::as_str).map(str::to_string).collect::<Vec<String>>()
        };
        match value["word"].as_str() {
            Some("sockets") => Packet::Sockets(array("sockets").iter().map(passed_from_json).collect()),
            Some("end") => Packet::End,
            Some("ready") => {
                Packet::Ready(texts("taken").iter().filter_map(|text| text.parse().ok()).collect())
            }
            Some("go") => Packet::Go,
            Some("failed") => Packet::Failed(texts("reasons")),
            _ => Packet::Unknown,
        }
    }
}

fn passed_to_json(passed: &PassedSocket) -> Value {
    let kind = match passed.kind {
        Kind::Tcp => "tcp",
        Kind::Http3 => "http3",
        Kind::Udp => "udp",
        Kind::Control => "control",
        Kind::Unknown => "unknown",
    };
    json!({
        "kind": kind,
        "configured": passed.configured.map(|address| address.to_string()),
        "lent": passed.is_shared_with_processes,
        "owner": passed.owner,
    })
}

fn passed_from_json(value: &Value) -> PassedSocket {
    PassedSocket {
        kind: match value["kind"].as_str() {
            Some("tcp") => Kind::Tcp,
            Some("http3") => Kind::Http3,
            Some("udp") => Kind::Udp,
            Some("control") => Kind::Control,
            _ => Kind::Unknown,
        },
        configured: value["configured"].as_str().and_then(|text| text.parse().ok()),
        is_shared_with_processes: value["lent"].as_bool().unwrap_or(false),
        owner: value["owner"].as_u64().and_then(|owner| owner.try_into().ok()).unwrap_or(0),
    }
}

/// Sends a packet with its descriptors.
pub fn send(channel: impl AsFd, packet: &Packet, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let text = packet.to_text();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_IN_A_PACKET))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors for one packet"));
    }
    // If the other process has ended, this returns an error; there is no SIGPIPE.
    sendmsg(channel, &[IoSlice::new(text.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a packet and its descriptors, before `deadline` if there is one; `None`: the other process has
/// ended.
pub fn receive(channel: impl AsFd, deadline: Option<Instant>) -> io::Result<Option<(Packet, Vec<OwnedFd>)>> {
    wait_until_readable(&channel, deadline)?;
    let mut buffer = vec![0; LARGEST_PACKET_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_IN_A_PACKET))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = match recvmsg(
        channel,
        &mut [IoSliceMut::new(&mut buffer)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    ) {
        Err(Errno::CONNRESET) => return Ok(None),
        result => result?,
    };
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::other(
            "a packet was cut off: this process may have reached its limit of open files",
        ));
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    Ok(Some((Packet::parse(&buffer[..received.bytes]), descriptors)))
}

fn wait_until_readable(channel: &impl AsFd, deadline: Option<Instant>) -> io::Result<()> {
    loop {
        let timeout = match deadline {
            None => None,
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left == Duration::ZERO {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Some(Timespec {
                    tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                    tv_nsec: left.subsec_nanos().into(),
                })
            }
        };
        match poll(&mut [PollFd::new(channel, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
