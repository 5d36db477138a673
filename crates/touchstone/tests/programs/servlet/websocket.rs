//! A client of WebSocket (RFC 6455) for short texts, as small as can be.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The frames that are sent: a text, and the end with its code 1000.
const TEXT: u8 = 0x81;
const CLOSE: u8 = 0x88;

pub(crate) struct WebSocket {
    stream: TcpStream,
}

impl WebSocket {
    /// Opens one; an error where the server does not switch.
    pub(crate) fn open(address: SocketAddr, path: &str) -> io::Result<WebSocket> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            answer.push(byte[0]);
        }
        let answer = String::from_utf8_lossy(&answer).to_lowercase();
        // RFC 6455 section 1.3: the answer to the sample's nonce.
        let is_switched = answer.starts_with("http/1.1 101 ")
            && answer.contains("\r\nupgrade: websocket\r\n")
            && answer.contains("s3pplmbitxaq9kygzzhzrbk+xoo=");
        if is_switched { Ok(WebSocket { stream }) } else { Err(io::Error::other(answer)) }
    }

    /// Sends a text of at most 125 bytes, masked as clients must.
    pub(crate) fn say(&mut self, text: &str) -> io::Result<()> {
        self.send(TEXT, text.as_bytes())
    }

    /// The next text; an error at the end.
    pub(crate) fn hear(&mut self) -> io::Result<String> {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head)?;
        let mut payload = vec![0; usize::from(head[1])];
        self.stream.read_exact(&mut payload)?;
        if head[0] != TEXT || head[1] > 125 {
            return Err(io::Error::other(format!("a frame {:x}", head[0])));
        }
        String::from_utf8(payload).map_err(io::Error::other)
    }

    /// Sends a close frame, and waits for that of the server.
    pub(crate) fn close(mut self) -> io::Result<()> {
        self.send(CLOSE, &[3, 0xE8])?;
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest)?;
        if rest.starts_with(&[CLOSE, 2]) { Ok(()) } else { Err(io::Error::other(format!("{rest:x?}"))) }
    }

    fn send(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        const MASK: [u8; 4] = [1, 2, 3, 4];
        let mut frame = vec![kind, 0x80 | u8::try_from(payload.len()).unwrap()];
        frame.extend_from_slice(&MASK);
        frame.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ MASK[at % 4]));
        self.stream.write_all(&frame)
    }
}
