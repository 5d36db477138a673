//! A client of HTTP/2 that sends exactly the bytes of a test, also those that no client would send.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use touchstone_http::h2::hpack::decoder::ListLimits;
use touchstone_http::h2::hpack::{Decoder, FieldList};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// Field lines, pseudo-header fields included, as they are sent.
pub(crate) type Lines<'a> = Vec<(&'a [u8], &'a [u8])>;

/// A request, piece by piece.
pub(crate) struct Request<'a> {
    pub(crate) fields: Lines<'a>,
    /// One DATA frame each.
    pub(crate) data: Vec<&'a [u8]>,
    pub(crate) trailers: Lines<'a>,
    /// How the stream ends.
    pub(crate) end: End,
}

/// How the client ends its stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With the last frame.
    Stream,
    /// It takes the request back.
    Reset,
}

/// A connection in the clear, by prior knowledge.
pub(crate) struct Http2 {
    stream: TcpStream,
    decoder: Decoder,
    next: u32,
}

impl Http2 {
    pub(crate) fn connect(address: SocketAddr) -> Http2 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, b"")).unwrap();
        Http2 { stream, decoder: Decoder::new(), next: 1 }
    }

    /// The status and the body; `None`: the stream was reset, or the connection is over.
    pub(crate) fn ask(&mut self, request: &Request<'_>) -> Option<(u16, Vec<u8>)> {
        let id = self.next;
        self.next += 2;
        let flags = |is_last: bool| if is_last && request.end == End::Stream { END_STREAM } else { 0 };
        let is_last = request.data.is_empty() && request.trailers.is_empty();
        let mut bytes = frame(HEADERS, END_HEADERS | flags(is_last), id, &block(&request.fields));
        for (index, data) in request.data.iter().enumerate() {
            let is_last = request.trailers.is_empty() && index + 1 == request.data.len();
            bytes.extend(frame(DATA, flags(is_last), id, data));
        }
        if !request.trailers.is_empty() {
            bytes.extend(frame(HEADERS, END_HEADERS | flags(true), id, &block(&request.trailers)));
        }
        if request.end == End::Reset {
            const CANCEL: [u8; 4] = [0, 0, 0, 8];
            bytes.extend(frame(RST_STREAM, 0, id, &CANCEL));
            // The answer to it shows that the bytes before it have been read.
            bytes.extend(frame(PING, 0, 0, &[0; 8]));
        }
        self.stream.write_all(&bytes).ok()?;
        self.answer(id)
    }

    fn answer(&mut self, id: u32) -> Option<(u16, Vec<u8>)> {
        let (mut status, mut body) = (None, Vec::new());
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).ok()?;
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            self.stream.read_exact(&mut payload).ok()?;
            let [kind, flags] = [head[3], head[4]];
            let is_of_it = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) == id;
            match kind {
                HEADERS => {
                    let read = self.status(&payload);
                    status = status.or(read.filter(|_| is_of_it));
                }
                DATA => {
                    let size = u32::try_from(payload.len()).unwrap().to_be_bytes();
                    if size != [0; 4] {
                        self.stream.write_all(&frame(WINDOW_UPDATE, 0, 0, &size)).ok()?;
                    }
                    body.extend(payload);
                }
                SETTINGS if flags & ACK == 0 => self.stream.write_all(&frame(SETTINGS, ACK, 0, b"")).ok()?,
                RST_STREAM if is_of_it => return None,
                PING if flags & ACK != 0 => return None,
                GOAWAY => return None,
                _ => {}
            }
            if is_of_it && matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
                return status.map(|status| (status, body));
            }
        }
    }

    fn status(&mut self, block: &[u8]) -> Option<u16> {
        let mut list = FieldList::new();
        self.decoder.decode(block, ListLimits { bytes: 100_000, fields: 1000 }, &mut list).unwrap();
        let field = list.fields().iter().find(|field| list.name(field) == b":status")?;
        std::str::from_utf8(list.value(field)).unwrap().parse().ok()
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&size[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Literal fields without indexing and without compression (RFC 7541 section 6.2.2).
fn block(lines: &Lines<'_>) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in lines {
        block.push(0);
        for text in [name, value] {
            assert!(text.len() < 127 + 128);
            match text.len() {
                short if short < 127 => block.push(short as u8),
                long => block.extend([127, (long - 127) as u8]),
            }
            block.extend_from_slice(text);
        }
    }
    block
}
