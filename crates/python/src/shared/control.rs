//! Messages over the socket between the server and a worker: one in each packet, some with descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// The longest message; longer ones are cut.
pub const MOST_BYTES: usize = 64 * 1024;

/// Most descriptors of a message.
const MOST_DESCRIPTORS: usize = 3;

/// To the worker: the settings follow.
pub const SETTINGS: u8 = b's';
/// To the worker: a link, with three descriptors: the memory, the eventfd of the core, and the socket for
/// files.
pub const LINK: u8 = b'l';
/// To the worker: end when the requests in progress have ended.
pub const QUIT: u8 = b'q';
/// To the server: the application is loaded; a description follows.
pub const READY: u8 = b'r';
/// To the server: the application cannot be started; the reason follows.
pub const FAILED: u8 = b'f';
/// To the server: a message for the error log; a level (`e`, `w`, `i`, `d`) and the text follow.
pub const LOG: u8 = b'm';
/// To the server: a file has changed, and the worker must be replaced.
pub const CHANGED: u8 = b'c';
/// To the server: the event loop does not return; a description follows.
pub const HUNG: u8 = b'h';

/// The signal that makes a worker write the traces of its threads to standard error.
pub fn trace_signal() -> i32 {
    libc::SIGRTMAX() - 1
}

/// Two connected sockets.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message.
pub fn send(
    socket: impl AsFd,
    kind: u8,
    text: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<()> {
    let text = &text[..text.len().min(MOST_BYTES - 1)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let kind = [kind];
    loop {
        match sendmsg(
            &socket,
            &[IoSlice::new(&kind), IoSlice::new(text)],
            &mut ancillary,
            flags | SendFlags::NOSIGNAL,
        ) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A message.
pub struct Message {
    /// Its kind.
    pub kind: u8,
    /// Its text.
    pub text: Vec<u8>,
    /// Its descriptors.
    pub descriptors: Vec<OwnedFd>,
}

/// Receives a message; `None`: the other side has ended.
pub fn receive(socket: impl AsFd, flags: RecvFlags) -> io::Result<Option<Message>> {
    let mut bytes = vec![0; MOST_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
            Ok(received) => break received,
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    };
    bytes.truncate(received.bytes);
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if bytes.is_empty() {
        return Ok(None);
    }
    let kind = bytes.remove(0);
    Ok(Some(Message { kind, text: bytes, descriptors }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_and_with_their_descriptors() {
        let (one, other) = pair().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        send(&one, LINK, b"text", &[file.as_fd()], SendFlags::empty()).unwrap();
        send(&one, LOG, &vec![b'x'; 2 * MOST_BYTES], &[], SendFlags::empty()).unwrap();
        drop(one);
        let message = receive(&other, RecvFlags::empty()).unwrap().unwrap();
        assert_eq!((message.kind, &message.text[..], message.descriptors.len()), (LINK, &b"text"[..], 1));
        let message = receive(&other, RecvFlags::empty()).unwrap().unwrap();
        assert_eq!((message.kind, message.text.len()), (LOG, MOST_BYTES - 1));
        assert!(receive(&other, RecvFlags::empty()).unwrap().is_none());
    }
}
