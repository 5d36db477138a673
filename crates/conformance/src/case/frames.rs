//! The scripts of HTTP/2 and HTTP/3: one step on each line, frame by frame.
//!
//! HTTP/2: `TYPE STREAM FLAGS PAYLOAD`, for example `HEADERS 1 ES+EH [GET]`. HTTP/3: `STREAM ITEM | ITEM`,
//! for example `request HEADERS [GET] | fin`. A payload is a sequence of hexadecimal bytes, `"text"`, `9*61`
//! (a repeated byte), and `[fields]`. `length=5` states a length that differs from the payload's.

use super::escape::{self, Facts};
use touchstone_http::h3::varint;
use touchstone_http::hexadecimal;

/// A step of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameStep {
    /// HTTP/3: the stream; in HTTP/2 the frames have stream numbers.
    pub stream: StreamName,
    /// The action.
    pub action: Action,
}

/// The streams of HTTP/3 by their use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StreamName {
    /// The first request.
    Request,
    /// The second request.
    Request2,
    /// The client's control stream.
    Control,
    /// A second control stream, or any other unidirectional stream.
    Other,
    /// The encoder stream of QPACK.
    Encoder,
    /// The decoder stream of QPACK.
    Decoder,
}

/// The action of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Sends a frame.
    Frame {
        /// Its type.
        kind: u64,
        /// HTTP/2: its flags.
        flags: u8,
        /// HTTP/2: its stream.
        stream: u32,
        /// Its payload.
        payload: Vec<Piece>,
        /// The stated length, if it is not the payload's.
        length: Option<u64>,
    },
    /// Sends bytes that are not a frame.
    Bytes(Vec<Piece>),
    /// Waits this many milliseconds.
    Wait(u64),
    /// HTTP/2: waits until the server has ended this stream.
    Await(u32),
    /// HTTP/3: ends the stream.
    Finish,
    /// HTTP/3: resets the stream with this code.
    Reset(u64),
}

/// A piece of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Bytes.
    Bytes(Vec<u8>),
    /// Text with placeholders.
    Text(String),
    /// Fields, compressed without tables and without Huffman code.
    Fields(Vec<(String, String)>),
}

/// Parses the steps of HTTP/2.
pub fn http2(lines: &[String]) -> Result<Vec<FrameStep>, String> {
    let step = |line: &String| {
        let action = http2_step(line).ok_or_else(|| format!("`{line}` is not a step of HTTP/2"))?;
        Ok(FrameStep { stream: StreamName::Request, action })
    };
    lines.iter().map(step).collect()
}

fn http2_step(line: &str) -> Option<Action> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "preface" => {
            return Some(Action::Bytes(vec![Piece::Bytes(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec())]));
        }
        "bytes" => return Some(Action::Bytes(payload(rest)?.0)),
        "wait" => return Some(Action::Wait(rest.parse().ok()?)),
        "await" => return Some(Action::Await(rest.parse().ok()?)),
        _ => {}
    }
    let kind = kind(word, &HTTP2_TYPES)?;
    let mut words = rest.splitn(3, ' ');
    let stream = number(words.next()?)? as u32;
    let flags = flags(words.next()?)?;
    let (payload, length) = payload(words.next().unwrap_or(""))?;
    Some(Action::Frame { kind, flags, stream, payload, length })
}

/// Parses the steps of HTTP/3.
pub fn http3(lines: &[String]) -> Result<Vec<FrameStep>, String> {
    let mut steps = Vec::new();
    for line in lines {
        let wrong = || format!("`{line}` is not a step of HTTP/3");
        let (name, items) = line.split_once(' ').ok_or_else(wrong)?;
        let stream = match name {
            "request" | "wait" => StreamName::Request,
            "request2" => StreamName::Request2,
            "control" => StreamName::Control,
            "other" => StreamName::Other,
            "encoder" => StreamName::Encoder,
            "decoder" => StreamName::Decoder,
            _ => return Err(wrong()),
        };
        if name == "wait" {
            let action = Action::Wait(items.parse().map_err(|_| wrong())?);
            steps.push(FrameStep { stream, action });
            continue;
        }
        for item in items.split(" | ") {
            let action = http3_item(item.trim()).ok_or_else(wrong)?;
            steps.push(FrameStep { stream, action });
        }
    }
    Ok(steps)
}

fn http3_item(item: &str) -> Option<Action> {
    let (word, rest) = item.split_once(' ').unwrap_or((item, ""));
    match word {
        "fin" => return Some(Action::Finish),
        "reset" => return Some(Action::Reset(number(rest)?)),
        "bytes" => return Some(Action::Bytes(payload(rest)?.0)),
        _ => {}
    }
    let kind = kind(word, &HTTP3_TYPES)?;
    let (payload, length) = payload(rest)?;
    Some(Action::Frame { kind, flags: 0, stream: 0, payload, length })
}

const HTTP2_TYPES: [(&str, u64); 10] = [
    ("DATA", 0),
    ("HEADERS", 1),
    ("PRIORITY", 2),
    ("RST_STREAM", 3),
    ("SETTINGS", 4),
    ("PUSH_PROMISE", 5),
    ("PING", 6),
    ("GOAWAY", 7),
    ("WINDOW_UPDATE", 8),
    ("CONTINUATION", 9),
];

const HTTP3_TYPES: [(&str, u64); 7] = [
    ("DATA", 0),
    ("HEADERS", 1),
    ("CANCEL_PUSH", 3),
    ("SETTINGS", 4),
    ("PUSH_PROMISE", 5),
    ("GOAWAY", 7),
    ("MAX_PUSH_ID", 0xd),
];

fn kind(word: &str, names: &[(&str, u64)]) -> Option<u64> {
    let named = names.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind);
    named.or_else(|| word.starts_with("0x").then(|| number(word)).flatten())
}

/// The number of a frame type of HTTP/2 by its name.
pub fn http2_type(name: &str) -> Option<u64> {
    kind(name, &HTTP2_TYPES)
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn flags(text: &str) -> Option<u8> {
    if text == "-" {
        return Some(0);
    }
    let mut all = 0;
    for name in text.split('+') {
        all |= match name {
            "ES" | "ACK" => 0x1,
            "EH" => 0x4,
            "PADDED" => 0x8,
            "PRIORITY" => 0x20,
            other => u8::try_from(number(other)?).ok()?,
        };
    }
    Some(all)
}

/// Parses the pieces of a payload, and the stated length.
fn payload(text: &str) -> Option<(Vec<Piece>, Option<u64>)> {
    let (mut pieces, mut length, mut rest) = (Vec::new(), None, text.trim_start());
    while !rest.is_empty() {
        let after = if let Some(quoted) = rest.strip_prefix('"') {
            let (inside, after) = quoted.split_once('"')?;
            pieces.push(Piece::Text(inside.to_owned()));
            after
        } else if let Some(fields) = rest.strip_prefix('[') {
            let (inside, after) = fields.split_once(']')?;
            pieces.push(Piece::Fields(read_fields(inside)?));
            after
        } else {
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            match (word.strip_prefix("length="), word.split_once('*')) {
                (Some(stated), _) => length = Some(number(stated)?),
                (None, Some((count, byte))) => {
                    let byte = hexadecimal::decode(byte)?;
                    pieces.push(Piece::Bytes(
                        byte.repeat(count.parse::<usize>().ok().filter(|n| *n <= 1 << 20)?),
                    ));
                }
                (None, None) => pieces.push(Piece::Bytes(hexadecimal::decode(word)?)),
            }
            after
        };
        rest = after.trim_start();
    }
    Some((pieces, length))
}

/// `GET` and `POST` are short for the four pseudo-fields of such a request; more fields follow after `; `.
fn read_fields(text: &str) -> Option<Vec<(String, String)>> {
    let mut fields = Vec::new();
    for part in text.split("; ").filter(|part| !part.is_empty()) {
        match part {
            "GET" | "POST" | "HEAD" | "PUT" => {
                let pseudo =
                    [(":method", part), (":scheme", "https"), (":authority", "{host}"), (":path", "{page}")];
                fields.extend(pseudo.map(|(name, value)| (name.to_owned(), value.to_owned())));
            }
            _ => {
                let colon = part.get(1..)?.find(':')? + 1;
                fields.push((
                    part[..colon].to_owned(),
                    part[colon + 1..].strip_prefix(' ').unwrap_or(&part[colon + 1..]).to_owned(),
                ));
            }
        }
    }
    Some(fields)
}

/// How fields are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// RFC 7541.
    Hpack,
    /// RFC 9204.
    Qpack,
}

/// The bytes of a payload.
pub fn payload_bytes(pieces: &[Piece], facts: &Facts, now: i64, compression: Compression) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => out.extend_from_slice(bytes),
            Piece::Text(text) => out.extend(escape::bytes(&facts.fill(text, "", now)).unwrap_or_default()),
            Piece::Fields(fields) => {
                if compression == Compression::Qpack {
                    out.extend_from_slice(&[0, 0]);
                }
                for (name, value) in fields {
                    let filled = |text: &str| escape::bytes(&facts.fill(text, "", now)).unwrap_or_default();
                    append_field(&filled(name), &filled(value), compression, &mut out);
                }
            }
        }
    }
    out
}

/// A field as a literal with a literal name.
fn append_field(name: &[u8], value: &[u8], compression: Compression, out: &mut Vec<u8>) {
    match compression {
        Compression::Hpack => {
            out.push(0);
            append_integer(name.len(), 7, 0, out);
        }
        Compression::Qpack => append_integer(name.len(), 3, 0x20, out),
    }
    out.extend_from_slice(name);
    append_integer(value.len(), 7, 0, out);
    out.extend_from_slice(value);
}

/// An integer with a prefix of this many bits (RFC 7541 section 5.1).
fn append_integer(value: usize, bits: u32, high: u8, out: &mut Vec<u8>) {
    let most = (1usize << bits) - 1;
    if value < most {
        out.push(high | value as u8);
        return;
    }
    out.push(high | most as u8);
    let mut rest = value - most;
    while rest >= 128 {
        out.push((rest % 128) as u8 | 0x80);
        rest /= 128;
    }
    out.push(rest as u8);
}

/// The bytes of an action of HTTP/2; none for those that send nothing.
pub fn http2_bytes(action: &Action, facts: &Facts, now: i64) -> Vec<u8> {
    match action {
        Action::Frame { kind, flags, stream, payload, length } => {
            let payload = payload_bytes(payload, facts, now, Compression::Hpack);
            let stated = length.unwrap_or(payload.len() as u64) as u32;
            let mut out = stated.to_be_bytes()[1..].to_vec();
            out.extend_from_slice(&[*kind as u8, *flags]);
            out.extend_from_slice(&stream.to_be_bytes());
            out.extend_from_slice(&payload);
            out
        }
        Action::Bytes(pieces) => payload_bytes(pieces, facts, now, Compression::Hpack),
        Action::Wait(_) | Action::Await(_) | Action::Finish | Action::Reset(_) => Vec::new(),
    }
}

/// The bytes of an action of HTTP/3; none for those that send nothing.
pub fn http3_bytes(action: &Action, facts: &Facts, now: i64) -> Vec<u8> {
    match action {
        Action::Frame { kind, payload, length, .. } => {
            let payload = payload_bytes(payload, facts, now, Compression::Qpack);
            let mut out = Vec::new();
            varint::append(kind & varint::MAX, &mut out);
            varint::append(length.unwrap_or(payload.len() as u64) & varint::MAX, &mut out);
            out.extend_from_slice(&payload);
            out
        }
        Action::Bytes(pieces) => payload_bytes(pieces, facts, now, Compression::Qpack),
        Action::Wait(_) | Action::Await(_) | Action::Finish | Action::Reset(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_http::h2::hpack::decoder::ListLimits;
    use touchstone_http::h2::hpack::{Decoder, FieldList};
    use touchstone_http::h3::SectionLimits;
    use touchstone_http::h3::qpack;

    fn facts() -> Facts {
        Facts { host: "h".into(), page: "/p".into(), ..Facts::default() }
    }

    fn read(list: &FieldList) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        list.fields().iter().map(|field| (text(list.name(field)), text(list.value(field)))).collect()
    }

    #[test]
    fn a_frame_of_http2_is_its_bytes() {
        let steps = http2(&["SETTINGS 0 ACK 0004 \"ab\" 2*ff length=9".to_owned()]).unwrap();
        let bytes = http2_bytes(&steps[0].action, &facts(), 0);
        assert_eq!(bytes, b"\0\0\x09\x04\x01\0\0\0\0\0\x04ab\xff\xff");
        assert!(http2(&["HEADERS one - 00".to_owned()]).is_err());
    }

    #[test]
    fn fields_are_what_both_decoders_read() {
        let long = "v".repeat(300);
        let (pieces, _) = payload(&format!("[GET; x-long-name-of-a-field: {long}]")).unwrap();
        let block = payload_bytes(&pieces, &facts(), 0, Compression::Hpack);
        let mut list = FieldList::new();
        Decoder::new().decode(&block, ListLimits { bytes: 9999, fields: 99 }, &mut list).unwrap();
        let expected = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "h"),
            (":path", "/p"),
            ("x-long-name-of-a-field", &long),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read(&list), expected);
        let section = payload_bytes(&pieces, &facts(), 0, Compression::Qpack);
        let mut list = FieldList::new();
        qpack::decode(&section, SectionLimits { bytes: 9999, fields: 99 }, &mut list).unwrap();
        assert_eq!(read(&list), expected);
    }

    #[test]
    fn the_items_of_a_stream_are_steps() {
        let steps =
            http3(&["request HEADERS [GET] | DATA \"x\" | fin".to_owned(), "wait 5".to_owned()]).unwrap();
        assert_eq!(steps.len(), 4);
        assert_eq!(http3_bytes(&steps[1].action, &facts(), 0), b"\0\x01x");
        assert_eq!((&steps[2].action, &steps[3].action), (&Action::Finish, &Action::Wait(5)));
        assert!(http3(&["nowhere fin".to_owned()]).is_err());
    }
}
