//! What is read of a connection before its target is known: what comes before TLS, and the ClientHello.
//!
//! The ClientHello is looked at where it lies in the kernel, so the server that ends the TLS gets all of it.

use std::io;

use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use touchstone_interfaces::proxy::Preface;
use touchstone_tls::{Destination, DestinationPeek, peek_destination};

use crate::stream_of_core::Scratch;

/// PostgreSQL's messages before a session, each with its length: the request for TLS, and that for GSSAPI.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
const GSS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30];

/// The first byte of a TLS record with a handshake message.
const HANDSHAKE_RECORD: u8 = 22;

/// How an origin of PostgreSQL is asked for TLS.
pub const POSTGRESQL: Preface = Preface { question: &SSL_REQUEST, consent: b'S' };

/// What a client of PostgreSQL wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// TLS, which it has been promised.
    Tls,
    /// TLS, with which it begins at once (since version 17).
    DirectTls,
    /// A session without TLS.
    Plain,
}

/// Takes PostgreSQL's requests for encryption, and answers them; what follows stays.
pub async fn postgresql(stream: &mut TcpStream) -> io::Result<Wish> {
    let mut may_ask_gss = true;
    loop {
        let mut first = [0; 8];
        let count = peek_until(stream, |bytes| {
            let is_tls = bytes.first() == Some(&HANDSHAKE_RECORD);
            (is_tls || bytes.len() >= first.len()).then(|| {
                let count = bytes.len().min(first.len());
                first[..count].copy_from_slice(&bytes[..count]);
                count
            })
        })
        .await?;
        if first[0] == HANDSHAKE_RECORD {
            return Ok(Wish::DirectTls);
        }
        let (answer, is_ssl) = match &first[..count] {
            bytes if *bytes == SSL_REQUEST => (b'S', true),
            bytes if *bytes == GSS_REQUEST && may_ask_gss => (b'N', false),
            _ => return Ok(Wish::Plain),
        };
        stream.read_exact(&mut first).await?;
        stream.write_all(&[answer]).await?;
        if is_ssl {
            return Ok(Wish::Tls);
        }
        may_ask_gss = false;
    }
}

/// What the ClientHello says.
#[derive(Debug)]
pub enum Hello {
    /// Where it wants to go.
    Destination(Destination),
    /// There is none: the client speaks no TLS, or none that can be read.
    None,
    /// It is longer than it may be.
    TooLong,
}

/// Waits for the ClientHello and reads it; it stays where it is.
pub async fn hello(stream: &TcpStream, scratch: &Scratch, most_bytes: usize) -> io::Result<Hello> {
    loop {
        stream.readable().await?;
        let peeked = stream.try_io(Interest::READABLE, || {
            scratch.with(most_bytes, |buffer| {
                let count = recv(stream, &mut *buffer, RecvFlags::PEEK | RecvFlags::DONTWAIT)?.0;
                match peek_destination(&buffer[..count]) {
                    _ if count == 0 => Err(io::ErrorKind::UnexpectedEof.into()),
                    DestinationPeek::Whole(destination) => Ok(Hello::Destination(destination)),
                    DestinationPeek::Unreadable => Ok(Hello::None),
                    DestinationPeek::More if count >= most_bytes => Ok(Hello::TooLong),
                    // What was looked at stays; "would block" makes the event loop wait for what is new.
                    DestinationPeek::More => Err(io::ErrorKind::WouldBlock.into()),
                }
            })
        });
        match peeked {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}

/// Looks at the first bytes until they are enough.
async fn peek_until<T>(stream: &TcpStream, mut is_enough: impl FnMut(&[u8]) -> Option<T>) -> io::Result<T> {
    loop {
        stream.readable().await?;
        let peeked = stream.try_io(Interest::READABLE, || {
            let mut bytes = [0; 16];
            match recv(stream, &mut bytes[..], RecvFlags::PEEK | RecvFlags::DONTWAIT)? {
                (0, _) => Err(io::ErrorKind::UnexpectedEof.into()),
                (count, _) => is_enough(&bytes[..count]).ok_or(io::ErrorKind::WouldBlock.into()),
            }
        });
        match peeked {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}
