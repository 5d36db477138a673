//! Reads the first bytes of a connection before its target is known: bytes before TLS, and the ClientHello.
//!
//! The ClientHello is read without removing it from the socket, so the server that ends the TLS gets all of
//! it.

use std::io;

use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use touchstone_proxy::Preface;
use touchstone_tls::{Destination, DestinationPeek, peek_destination};

use crate::stream_of_core::Scratch;

/// PostgreSQL's messages before a session, each with its length: the request for TLS, and that for GSSAPI.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
const GSS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30];

/// The first byte of a TLS record with a handshake message.
const HANDSHAKE_RECORD: u8 = 22;

/// The request for TLS to an origin of PostgreSQL.
pub const POSTGRESQL: Preface = Preface { request: &SSL_REQUEST, expected_reply: b'S' };

/// The request of a PostgreSQL client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostgresRequest {
    /// TLS, which it has been promised.
    Tls,
    /// TLS without a request before it (since version 17).
    DirectTls,
    /// A session without TLS.
    Plain,
}

/// Reads PostgreSQL's requests for encryption, and answers them; the following bytes stay in the socket.
pub async fn postgresql(stream: &mut TcpStream) -> io::Result<PostgresRequest> {
    let mut may_ask_gss = true;
    loop {
        let mut first = [0; 8];
        peek_until(stream, |stream| {
            let count = peek(stream, &mut first)?;
            Ok((first[0] == HANDSHAKE_RECORD || count == first.len()).then_some(()))
        })
        .await?;
        if first[0] == HANDSHAKE_RECORD {
            return Ok(PostgresRequest::DirectTls);
        }
        let (answer, is_ssl) = match first {
            SSL_REQUEST => (b'S', true),
            GSS_REQUEST if may_ask_gss => (b'N', false),
            _ => return Ok(PostgresRequest::Plain),
        };
        stream.read_exact(&mut first).await?;
        stream.write_all(&[answer]).await?;
        if is_ssl {
            return Ok(PostgresRequest::Tls);
        }
        may_ask_gss = false;
    }
}

/// The result of reading the ClientHello.
#[derive(Debug)]
pub enum Hello {
    /// Its destination.
    Destination(Destination),
    /// There is none: the client does not use TLS, or its ClientHello cannot be read.
    None,
    /// It exceeds the limit.
    TooLong,
}

/// Waits for the ClientHello and reads it; it stays in the socket.
pub async fn hello(stream: &TcpStream, scratch: &Scratch, most_bytes: usize) -> io::Result<Hello> {
    peek_until(stream, |stream| {
        scratch.with(most_bytes, |buffer| {
            let count = peek(stream, buffer)?;
            Ok(match peek_destination(&buffer[..count]) {
                DestinationPeek::Whole(destination) => Some(Hello::Destination(destination)),
                DestinationPeek::Unreadable => Some(Hello::None),
                DestinationPeek::More if count >= most_bytes => Some(Hello::TooLong),
                DestinationPeek::More => None,
            })
        })
    })
    .await
}

/// Calls `look` whenever bytes have arrived, until it returns a result.
async fn peek_until<T>(
    stream: &TcpStream,
    mut look: impl FnMut(&TcpStream) -> io::Result<Option<T>>,
) -> io::Result<T> {
    loop {
        let ready = stream.ready(Interest::READABLE).await?;
        // The bytes stay in the socket; "would block" makes the event loop wait for new ones.
        let found = stream.try_io(Interest::READABLE, || {
            look(stream)?.ok_or_else(|| io::Error::from(io::ErrorKind::WouldBlock))
        });
        match found {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // After the client's end there are no new bytes, and the event loop would not wait.
                if ready.is_read_closed() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            result => return result,
        }
    }
}

/// Copies the first bytes that have arrived, which stay in the socket; an error if the client has ended
/// without any.
fn peek(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    match recv(stream, buffer, RecvFlags::PEEK | RecvFlags::DONTWAIT)? {
        (0, _) => Err(io::ErrorKind::UnexpectedEof.into()),
        (count, _) => Ok(count),
    }
}
