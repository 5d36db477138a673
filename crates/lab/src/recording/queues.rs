//! Queues of packets that wait to be sent, and their limits (queueing disciplines, `tc qdisc`): they show
//! that a link is limited, even a link that reports no speed.
//!
//! The kernel answers over netlink (rtnetlink(7)): one request, and an answer of messages with attributes.
//! The answer is input from outside like any other: a length that does not fit ends the reading.

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};
use std::io;

/// All queues together; all but the waiting bytes are counters since the queues were made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueReading {
    /// Packets dropped.
    pub drops: u64,
    /// Times a packet had to wait because the queue's rate was used up.
    pub over_limits: u64,
    /// Bytes that wait now.
    pub waiting_bytes: u64,
}

/// The header of a message (struct nlmsghdr) and what follows it in this kind (struct tcmsg), bytes.
const HEADER: usize = 16;
const QUEUE_HEADER: usize = 20;
/// RTM_NEWQDISC and RTM_GETQDISC (linux/rtnetlink.h), NLMSG_ERROR and NLMSG_DONE, NLM_F_REQUEST | NLM_F_DUMP.
const NEW_QUEUE: u16 = 36;
const GET_QUEUE: u16 = 38;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const REQUEST_DUMP: u16 = 0x301;
/// TCA_STATS2 and within it TCA_STATS_QUEUE: qlen, backlog, drops, requeues, overlimits, 32 bits each.
const STATISTICS: u16 = 7;
const QUEUE_STATISTICS: u16 = 3;
/// The most datagrams of one answer, and the size of each (the kernel fills at most 32 KiB).
const DATAGRAMS_MAX: usize = 64;
const DATAGRAM_BYTES: usize = 32 * 1024;

/// Asks the kernel; `None` if it does not answer.
pub fn read() -> Option<QueueReading> {
    query().ok()
}

fn query() -> io::Result<QueueReading> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // No protocol means NETLINK_ROUTE. The kernel has answered when the send returns: the socket need not
    // wait.
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::send(&socket, &request(), SendFlags::empty())?;
    let mut reading = QueueReading::default();
    let mut buffer = vec![0u8; DATAGRAM_BYTES];
    for _ in 0..DATAGRAMS_MAX {
        let (count, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        match add_messages(&buffer[..count], &mut reading) {
            Answer::More => {}
            Answer::Whole => return Ok(reading),
            Answer::Refused => break,
        }
    }
    Err(io::Error::from(io::ErrorKind::InvalidData))
}

fn request() -> Vec<u8> {
    let length = (HEADER + QUEUE_HEADER) as u32;
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend_from_slice(&GET_QUEUE.to_ne_bytes());
    bytes.extend_from_slice(&REQUEST_DUMP.to_ne_bytes());
    bytes.resize(length as usize, 0);
    bytes
}

/// Whether the answer continues.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    More,
    Whole,
    Refused,
}

fn add_messages(mut bytes: &[u8], reading: &mut QueueReading) -> Answer {
    while let Some((message, rest)) = piece(bytes, four(bytes, 0).map(|length| length as usize), HEADER) {
        match two(message, 4) {
            Some(NEW_QUEUE) => add_queue(message.get(HEADER + QUEUE_HEADER..).unwrap_or_default(), reading),
            Some(DONE) => return Answer::Whole,
            Some(ERROR) | None => return Answer::Refused,
            Some(_) => {}
        }
        bytes = rest;
    }
    Answer::More
}

fn add_queue(attributes: &[u8], reading: &mut QueueReading) {
    let Some(statistics) = attribute(attributes, STATISTICS) else { return };
    let Some(queue) = attribute(statistics, QUEUE_STATISTICS) else { return };
    let figure = |index: usize| u64::from(four(queue, index * 4).unwrap_or(0));
    reading.waiting_bytes = reading.waiting_bytes.saturating_add(figure(1));
    reading.drops = reading.drops.saturating_add(figure(2));
    reading.over_limits = reading.over_limits.saturating_add(figure(4));
}

/// The content of the first attribute of a kind.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    /// NLA_TYPE_MASK: the two highest bits are flags.
    const KIND: u16 = 0x3fff;
    while let Some((attribute, rest)) = piece(bytes, two(bytes, 0).map(usize::from), 4) {
        if two(attribute, 2).is_some_and(|kind| kind & KIND == wanted) {
            return attribute.get(4..);
        }
        bytes = rest;
    }
    None
}

/// The first `length` bytes, and the rest from the next multiple of four. `None` if the length is impossible.
fn piece(bytes: &[u8], length: Option<usize>, least: usize) -> Option<(&[u8], &[u8])> {
    let length = length.filter(|length| *length >= least)?;
    let next = length.next_multiple_of(4).min(bytes.len());
    Some((bytes.get(..length)?, bytes.get(next..).unwrap_or_default()))
}

fn two(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn four(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with_length_16(kind: u16, content: &[u8]) -> Vec<u8> {
        let mut bytes = ((content.len() + 4) as u16).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, attributes: &[u8]) -> Vec<u8> {
        let length = HEADER + QUEUE_HEADER + attributes.len();
        let mut bytes = (length as u32).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.resize(HEADER + QUEUE_HEADER, 0);
        bytes.extend_from_slice(attributes);
        bytes
    }

    #[test]
    fn the_queues_figures_are_found_among_the_attributes() {
        let figures: Vec<u8> =
            [1u32, 3000, 4, 0, 500].iter().flat_map(|figure| figure.to_ne_bytes()).collect();
        let statistics = [with_length_16(1, &[0; 16]), with_length_16(QUEUE_STATISTICS, &figures)].concat();
        let attributes =
            [with_length_16(1, b"tbf\0"), with_length_16(STATISTICS | 0x8000, &statistics)].concat();
        let bytes =
            [message(NEW_QUEUE, &attributes), message(NEW_QUEUE, &attributes), message(DONE, &[])].concat();
        let mut reading = QueueReading::default();
        assert_eq!(add_messages(&bytes, &mut reading), Answer::Whole);
        assert_eq!(reading, QueueReading { drops: 8, over_limits: 1000, waiting_bytes: 6000 });
        assert_eq!(add_messages(&message(ERROR, &[]), &mut reading), Answer::Refused);
        assert_eq!(add_messages(&[], &mut reading), Answer::More);
    }

    #[test]
    fn the_kernel_answers() {
        assert!(read().is_some());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            at in 0usize..60,
            value: u8,
        ) {
            let mut reading = QueueReading::default();
            let _ = add_messages(&bytes, &mut reading);
            let mut damaged = message(
                NEW_QUEUE,
                &with_length_16(STATISTICS, &with_length_16(QUEUE_STATISTICS, &[9; 20])),
            );
            let at = at % damaged.len();
            damaged[at] = value;
            let _ = add_messages(&damaged, &mut reading);
        }
    }
}
