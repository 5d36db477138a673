//! Reads the packets of a container from received bytes, without input and output.
//!
//! A packet is returned once all of it has been received. The bytes of a body are slices of the received
//! bytes. Fields are checked as strictly as those of a client, because they are sent to one: a value from the
//! container cannot become a second field or a second answer.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use touchstone_handler::reason_phrase::ReasonPhrase;
use touchstone_http::decimal;
use touchstone_http::grammar::{is_field_value_byte, is_token, trim_optional_white_space};

use super::code::{self, CODED_FIELD, FROM_CONTAINER, NO_STRING, PACKET_HEADER_BYTES};
use crate::cgi_response::{DocumentHead, is_left_out};

/// A packet of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// Status and fields.
    Head(Box<DocumentHead>),
    /// A piece of the body. An empty piece is a flush: everything before it must be sent on at once.
    Body(Bytes),
    /// The container requests this many bytes of the request's body, at least one.
    GetBody(usize),
    /// The end of the answer.
    End {
        /// Whether the connection may serve another request.
        keeps: bool,
    },
    /// The answer to a CPing: the container is alive.
    Pong,
}

/// Limits for the packets of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketLimits {
    /// Bytes of a packet, with its header.
    pub bytes: usize,
    /// Fields of an answer.
    pub fields: usize,
}

/// Why the bytes are not a packet of a container. Nothing more can be read from such a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WrongPacket {
    /// It does not begin with the two bytes of a packet.
    Beginning([u8; 2]),
    /// It is longer than the limit.
    TooLong(usize, usize),
    /// It is empty, or ends before its contents do.
    CutShort,
    /// Its kind is not one that a container sends.
    Kind(u8),
    /// The status is not that of an answer.
    Status(u16),
    /// It has more fields than the limit.
    TooManyFields(usize, usize),
    /// The number of a field is unknown.
    FieldNumber(u8),
    /// A field's name is not a token, or its value holds a control byte.
    Field(String),
    /// The answer's Content-Length is not one number.
    ContentLength,
    /// It requests zero bytes of the body.
    NoBytesRequested,
}

impl fmt::Display for WrongPacket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WrongPacket::Beginning(bytes) => {
                write!(
                    formatter,
                    "it does not speak AJP13: a packet begins with \"{}\"",
                    bytes.escape_ascii()
                )
            }
            WrongPacket::TooLong(bytes, most) => write!(
                formatter,
                "its packet has {bytes} bytes, and {most} are allowed; packet_bytes here and packetSize \
                 there must agree"
            ),
            WrongPacket::CutShort => formatter.write_str("its packet ends before what it holds"),
            WrongPacket::Kind(number) => write!(formatter, "its packet is of the unknown kind {number}"),
            WrongPacket::Status(status) => write!(formatter, "its status is {status}"),
            WrongPacket::TooManyFields(fields, most) => {
                write!(formatter, "its answer has {fields} fields, and {most} are allowed")
            }
            WrongPacket::FieldNumber(number) => {
                write!(formatter, "its answer has a field with the unknown number {number}")
            }
            WrongPacket::Field(name) => {
                write!(formatter, "its answer has a field that cannot be passed on: {name:?}")
            }
            WrongPacket::ContentLength => formatter.write_str("its Content-Length is not one number"),
            WrongPacket::NoBytesRequested => formatter.write_str("it requests no bytes of the body"),
        }
    }
}

impl std::error::Error for WrongPacket {}

/// Takes a packet off the front of the received bytes; `None`: more must be received first.
///
/// # Errors
/// The bytes are not a packet of a container.
pub fn next_packet(received: &mut BytesMut, limits: PacketLimits) -> Result<Option<Packet>, WrongPacket> {
    let Some(&[first, second, high, low]) = received.first_chunk::<PACKET_HEADER_BYTES>() else {
        return Ok(None);
    };
    if [first, second] != FROM_CONTAINER {
        return Err(WrongPacket::Beginning([first, second]));
    }
    let whole = PACKET_HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if whole > limits.bytes {
        return Err(WrongPacket::TooLong(whole, limits.bytes));
    }
    if received.len() < whole {
        return Ok(None);
    }
    let mut content = received.split_to(whole).freeze();
    content.advance(PACKET_HEADER_BYTES);
    if content.is_empty() {
        return Err(WrongPacket::CutShort);
    }
    let kind = content.get_u8();
    match kind {
        code::SEND_BODY_CHUNK => {
            let length = number(&mut content)?;
            // Some containers end the piece with a zero byte. It is ignored.
            if content.len() < length {
                return Err(WrongPacket::CutShort);
            }
            Ok(Some(Packet::Body(content.split_to(length))))
        }
        code::SEND_HEADERS => Ok(Some(Packet::Head(Box::new(head(&mut content, limits.fields)?)))),
        code::END_RESPONSE => {
            let keeps = content.first().ok_or(WrongPacket::CutShort)?;
            Ok(Some(Packet::End { keeps: *keeps == 1 }))
        }
        code::GET_BODY_CHUNK => match number(&mut content)? {
            0 => Err(WrongPacket::NoBytesRequested),
            wanted => Ok(Some(Packet::GetBody(wanted))),
        },
        _ if kind == code::CPONG[4] => Ok(Some(Packet::Pong)),
        _ => Err(WrongPacket::Kind(kind)),
    }
}

fn head(content: &mut Bytes, most_fields: usize) -> Result<DocumentHead, WrongPacket> {
    let status = number(content)? as u16;
    // AJP has neither interim responses nor a change of protocol.
    if !(200..600).contains(&status) {
        return Err(WrongPacket::Status(status));
    }
    let phrase = text(content)?;
    // Tomcat sends the status as a number instead of a phrase.
    let reason = ReasonPhrase::new(status, &phrase).filter(|_| decimal::parse(&phrase).is_none());
    let count = number(content)?;
    if count > most_fields {
        return Err(WrongPacket::TooManyFields(count, most_fields));
    }
    let mut head = DocumentHead { status, reason, ..DocumentHead::default() };
    for _ in 0..count {
        let coded;
        let free;
        let name: &[u8] = match content.first_chunk::<2>() {
            Some(&[CODED_FIELD, number]) => {
                content.advance(2);
                coded = code::response_field_name(number).ok_or(WrongPacket::FieldNumber(number))?;
                coded.as_bytes()
            }
            _ => {
                free = text(content)?;
                &free
            }
        };
        let value = text(content)?;
        take_field(&mut head, name, trim_optional_white_space(&value))?;
    }
    Ok(head)
}

fn take_field(head: &mut DocumentHead, name: &[u8], value: &[u8]) -> Result<(), WrongPacket> {
    if !is_token(name) || !value.iter().all(|&byte| is_field_value_byte(byte)) {
        let name = String::from_utf8_lossy(&name[..name.len().min(80)]).into_owned();
        return Err(WrongPacket::Field(name));
    }
    if name.eq_ignore_ascii_case(b"content-length") {
        let length = decimal::parse(value).ok_or(WrongPacket::ContentLength)?;
        return match head.content_length.replace(length) {
            Some(other) if other != length => Err(WrongPacket::ContentLength),
            _ => Ok(()),
        };
    }
    // The head of the packet holds the status already.
    if is_left_out(name) || name.eq_ignore_ascii_case(b"status") {
        return Ok(());
    }
    for piece in [name, b": ", value, b"\r\n"] {
        head.fields.extend_from_slice(piece);
    }
    Ok(())
}

fn number(content: &mut Bytes) -> Result<usize, WrongPacket> {
    content.try_get_u16().map(usize::from).map_err(|_| WrongPacket::CutShort)
}

/// Reads a string. A missing string is an empty one.
fn text(content: &mut Bytes) -> Result<Bytes, WrongPacket> {
    let length = number(content)?;
    if length == usize::from(NO_STRING) {
        return Ok(Bytes::new());
    }
    // A zero byte ends the string.
    if content.len() <= length {
        return Err(WrongPacket::CutShort);
    }
    let text = content.split_to(length);
    content.advance(1);
    Ok(text)
}
