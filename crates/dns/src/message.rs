//! DNS messages as bytes (RFC 1035 section 4): queries and updates that are sent, and answers that are read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::name::Name;

/// Types of records.
pub mod kind {
    pub const A: u16 = 1;
    pub const NS: u16 = 2;
    pub const CNAME: u16 = 5;
    pub const SOA: u16 = 6;
    pub const TXT: u16 = 16;
    pub const AAAA: u16 = 28;
    pub const OPT: u16 = 41;
    pub const TSIG: u16 = 250;
}

/// The class of the internet.
const CLASS_IN: u16 = 1;

/// The class by which an update removes one record (RFC 2136 section 2.5.4).
const CLASS_NONE: u16 = 254;

/// The bytes before the first question.
pub const HEADER_BYTES: usize = 12;

/// The size of an answer by UDP that this client accepts; larger ones are sent by TCP.
const UDP_BYTES: u16 = 1232;

const FLAG_ANSWER: u16 = 0x8000;
const FLAG_TRUNCATED: u16 = 0x0200;
const FLAG_RECURSION_DESIRED: u16 = 0x0100;

/// The operation code of an update, in its place of the flags.
const UPDATE: u16 = 5 << 11;

/// The response codes that have a meaning here.
pub mod code {
    pub const NO_ERROR: u16 = 0;
    pub const NO_SUCH_NAME: u16 = 3;
}

/// A change of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<'a> {
    /// Adds a TXT record.
    Add { name: &'a Name, ttl: u32, text: &'a str },
    /// Removes this TXT record, and no other of the name.
    Remove { name: &'a Name, text: &'a str },
}

/// A query with EDNS (RFC 6891).
pub fn query(id: u16, name: &Name, kind: u16, recursion: bool) -> Vec<u8> {
    let flags = if recursion { FLAG_RECURSION_DESIRED } else { 0 };
    let mut out = header(id, flags, [1, 0, 0, 1]);
    question(&mut out, name, kind);
    out.push(0);
    number(&mut out, kind::OPT);
    number(&mut out, UDP_BYTES);
    out.extend_from_slice(&[0; 6]); // extended code and flags, no options
    out
}

/// An update of a zone (RFC 2136 section 2).
pub fn update(id: u16, zone: &Name, changes: &[Change<'_>]) -> Vec<u8> {
    let mut out = header(id, UPDATE, [1, 0, u16::try_from(changes.len()).unwrap_or(u16::MAX), 0]);
    question(&mut out, zone, kind::SOA);
    for change in changes {
        let (name, class, ttl, text) = match change {
            Change::Add { name, ttl, text } => (name, CLASS_IN, *ttl, text),
            Change::Remove { name, text } => (name, CLASS_NONE, 0, text),
        };
        out.extend_from_slice(name.wire());
        number(&mut out, kind::TXT);
        number(&mut out, class);
        out.extend_from_slice(&ttl.to_be_bytes());
        let data = text_data(text);
        number(&mut out, u16::try_from(data.len()).unwrap_or(u16::MAX));
        out.extend_from_slice(&data);
    }
    out
}

/// The content of a TXT record: strings of at most 255 bytes.
fn text_data(text: &str) -> Vec<u8> {
    let mut data = Vec::with_capacity(text.len() + 4);
    for part in text.as_bytes().chunks(255) {
        data.push(part.len() as u8);
        data.extend_from_slice(part);
    }
    data
}

fn header(id: u16, flags: u16, counts: [u16; 4]) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    [id, flags].into_iter().chain(counts).for_each(|value| number(&mut out, value));
    out
}

fn question(out: &mut Vec<u8>, name: &Name, kind: u16) {
    out.extend_from_slice(name.wire());
    number(out, kind);
    number(out, CLASS_IN);
}

fn number(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The number that it shares with its request.
    pub id: u16,
    flags: u16,
    /// The name and type of its question, if it repeats one.
    pub question: Option<(Name, u16)>,
    /// The records of the answer section.
    pub answers: Vec<Record>,
    /// The records of the authority section.
    pub authority: Vec<Record>,
    /// The signature, which is the last record.
    pub signature: Option<SignatureRecord>,
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its owner.
    pub name: Name,
    /// Its content.
    pub data: Data,
}

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// A or AAAA.
    Address(IpAddr),
    /// NS.
    Server(Name),
    /// CNAME.
    Alias(Name),
    /// SOA, with the name of the primary server.
    Zone { primary: Name },
    /// TXT: its strings as one.
    Text(Vec<u8>),
    /// Any other type.
    Other,
}

/// A TSIG record (RFC 8945 section 4.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureRecord {
    /// Where it begins in the message.
    pub begin: usize,
    pub key: Name,
    pub algorithm: Name,
    pub time: u64,
    pub fudge: u16,
    pub mac: Vec<u8>,
    pub original_id: u16,
    pub error: u16,
    pub other: Vec<u8>,
}

impl Message {
    /// Reads a message; `None` if it is damaged.
    pub fn parse(bytes: &[u8]) -> Option<Message> {
        let value = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
        let counts = [value(4)?, value(6)?, value(8)?, value(10)?];
        let mut at = HEADER_BYTES;
        let mut first_question = None;
        for _ in 0..counts[0] {
            let (name, after) = Name::read(bytes, at)?;
            first_question = first_question.or(Some((name, value(after)?)));
            at = after + 4;
        }
        let mut sections: [Vec<Record>; 3] = Default::default();
        let mut signature = None;
        for (section, count) in counts[1..].iter().enumerate() {
            for _ in 0..*count {
                // A signature must be the last record of all.
                if signature.is_some() {
                    return None;
                }
                let begin = at;
                let (name, after) = Name::read(bytes, at)?;
                let (kind, class, length) =
                    (value(after)?, value(after + 2)?, usize::from(value(after + 8)?));
                let data = after + 10;
                at = data + length;
                let content = bytes.get(..at)?;
                if kind == kind::TSIG {
                    signature = Some(read_signature(content, begin, name, data)?);
                } else if class == CLASS_IN {
                    sections[section].push(Record { name, data: read_data(content, kind, data)? });
                }
            }
        }
        let [answers, authority, _] = sections;
        Some(Message {
            id: value(0)?,
            flags: value(2)?,
            question: first_question,
            answers,
            authority,
            signature,
        })
    }

    /// Whether it is a response, not a query.
    pub fn is_answer(&self) -> bool {
        self.flags & FLAG_ANSWER != 0
    }

    /// Whether it did not fit.
    pub fn is_truncated(&self) -> bool {
        self.flags & FLAG_TRUNCATED != 0
    }

    /// The response code.
    pub fn code(&self) -> u16 {
        self.flags & 0xf
    }
}

/// Reads the content of a record, which ends where `content` ends.
fn read_data(content: &[u8], kind: u16, at: usize) -> Option<Data> {
    let data = content.get(at..)?;
    Some(match kind {
        kind::A => Data::Address(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?))),
        kind::AAAA => Data::Address(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?))),
        kind::NS => Data::Server(Name::read(content, at)?.0),
        kind::CNAME => Data::Alias(Name::read(content, at)?.0),
        kind::SOA => Data::Zone { primary: Name::read(content, at)?.0 },
        kind::TXT => {
            let (mut rest, mut text) = (data, Vec::new());
            while let Some((&length, following)) = rest.split_first() {
                let (part, after) = following.split_at_checked(usize::from(length))?;
                text.extend_from_slice(part);
                rest = after;
            }
            Data::Text(text)
        }
        _ => Data::Other,
    })
}

fn read_signature(content: &[u8], begin: usize, key: Name, at: usize) -> Option<SignatureRecord> {
    let (algorithm, after) = Name::read(content, at)?;
    let mut rest = content.get(after..)?;
    let mut take = |count: usize| {
        let (taken, following) = rest.split_at_checked(count)?;
        rest = following;
        Some(taken)
    };
    let as_number = |bytes: &[u8]| bytes.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    let time = as_number(take(6)?);
    let fudge = as_number(take(2)?) as u16;
    let mac_bytes = as_number(take(2)?) as usize;
    let mac = take(mac_bytes)?.to_vec();
    let original_id = as_number(take(2)?) as u16;
    let error = as_number(take(2)?) as u16;
    let other_bytes = as_number(take(2)?) as usize;
    let other = take(other_bytes)?.to_vec();
    Some(SignatureRecord { begin, key, algorithm, time, fudge, mac, original_id, error, other })
}

/// The description of a response code, for messages.
pub fn code_text(code: u16) -> String {
    match code {
        1 => "it cannot parse the request (FORMERR)".to_string(),
        2 => "it failed (SERVFAIL)".to_string(),
        3 => "the name does not exist (NXDOMAIN)".to_string(),
        4 => "it does not support updates (NOTIMP)".to_string(),
        5 => "it refuses (REFUSED): its configuration must allow this key to change the name".to_string(),
        9 => "it is not responsible for the zone, or refuses the key (NOTAUTH)".to_string(),
        10 => "the name is not in the zone (NOTZONE)".to_string(),
        other => format!("response code {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> Name {
        Name::parse(text).expect("a name")
    }

    #[test]
    fn a_query_reads_back() {
        let bytes = query(7, &name("a.example.org"), kind::TXT, true);
        let message = Message::parse(&bytes).expect("a message");
        assert_eq!(message.id, 7);
        assert_eq!(message.question, Some((name("a.example.org"), kind::TXT)));
        assert!(!message.is_answer() && !message.is_truncated());
        assert_eq!(bytes[bytes.len() - 11..], [0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn an_update_has_the_form_of_the_document() {
        let long = "x".repeat(300);
        let owner = name("_acme-challenge.example.org");
        let changes = [
            Change::Add { name: &owner, ttl: 60, text: "value" },
            Change::Remove { name: &owner, text: &long },
        ];
        let bytes = update(0x1234, &name("example.org"), &changes);
        assert_eq!(bytes[..12], [0x12, 0x34, 0x28, 0, 0, 1, 0, 0, 0, 2, 0, 0]);
        let message = Message::parse(&bytes).expect("a message");
        assert_eq!(message.question, Some((name("example.org"), kind::SOA)));
        // The removal has another class, and is not a record.
        assert_eq!(message.authority, [Record { name: owner, data: Data::Text(b"value".to_vec()) }]);
        assert_eq!(text_data(&long).len(), 302);
    }

    #[test]
    fn records_of_an_answer() {
        let mut bytes = header(1, FLAG_ANSWER, [1, 3, 1, 0]);
        question(&mut bytes, &name("a.org"), kind::A);
        for (kind, data) in [
            (kind::CNAME, &b"\x01b\xc0\x0e"[..]),
            (kind::A, &[192, 0, 2, 1]),
            (kind::TXT, b"\x02ab\x00\x01c"),
            (kind::SOA, b"\x02ns\xc0\x0e\x00"),
        ] {
            bytes.extend_from_slice(&[0xc0, 12]);
            bytes.extend_from_slice(&kind.to_be_bytes());
            bytes.extend_from_slice(&[0, 1, 0, 0, 0, 60]);
            bytes.extend_from_slice(&(data.len() as u16).to_be_bytes());
            bytes.extend_from_slice(data);
        }
        let message = Message::parse(&bytes).expect("a message");
        let data: Vec<&Data> = message.answers.iter().map(|record| &record.data).collect();
        assert_eq!(data[0], &Data::Alias(name("b.org")));
        assert_eq!(data[1], &Data::Address("192.0.2.1".parse().expect("an address")));
        assert_eq!(data[2], &Data::Text(b"abc".to_vec()));
        assert_eq!(message.authority[0].data, Data::Zone { primary: name("ns.org") });
        assert_eq!(message.answers[0].name, name("a.org"));
        for cut in 0..bytes.len() {
            assert_eq!(Message::parse(&bytes[..cut]), None, "{cut}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = Message::parse(&bytes);
        }

        #[test]
        fn no_damage_makes_it_panic(at in 0usize..80, value: u8) {
            let owner = Name::parse("_acme-challenge.example.org").unwrap();
            let zone = Name::parse("example.org").unwrap();
            let mut bytes = update(1, &zone, &[Change::Add { name: &owner, ttl: 1, text: "text" }]);
            let place = at % bytes.len();
            bytes[place] = value;
            let _ = Message::parse(&bytes);
        }
    }
}
