//! FastCGI 1.0: requests to programs that serve many requests (FastCGI Specification, Open Market 1996).
//!
//! The codec does no input or output and supports both sides of the protocol; [`FastCgi`] adapts the server's
//! side to the [`backend`](crate::backend) module. One request at a time uses a connection: hardly any
//! program can multiplex, and PHP declares that it cannot.
//!
//! | module | |
//! |---|---|
//! | `record` | types, headers, statuses |
//! | `pairs` | names and values |
//! | `encoder`, `decoder` | writes and reads records |

pub mod decoder;
pub mod encoder;
pub mod pairs;
pub mod record;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::backend::{Output, ProgramProtocol, ProgramVariables, Programs, Protocol, WholeAnswer};
use crate::meta_variables::ZeroByte;
use decoder::{Decoder, Event};
use encoder::RequestWriter;
use record::{
    HEADER_BYTES, Header, KEEP_CONNECTION, LONGEST_CONTENT_BYTES, MANAGEMENT, ProtocolStatus, RecordType,
    Role,
};

/// FastCGI programs, as configured.
pub type FastCgiPrograms = Programs<FastCgi>;

/// The server's side of FastCGI.
#[derive(Debug)]
pub enum FastCgi {}

/// The number of every request: there is one at a time.
const REQUEST: u16 = 1;

/// An empty STDIN record.
static END_OF_BODY: [u8; 8] = [1, RecordType::Stdin as u8, 0, REQUEST as u8, 0, 0, 0, 0];

impl Protocol for FastCgi {
    type Decoder = Decoder;

    const NAME: &'static str = "fastcgi";

    fn push_body(_decoder: &mut Decoder, piece: Bytes, out: &mut VecDeque<Bytes>) {
        let mut rest = piece;
        while !rest.is_empty() {
            let content = rest.split_to(rest.len().min(LONGEST_CONTENT_BYTES));
            // The content was cut to fit.
            let header = Header::new(RecordType::Stdin, REQUEST, content.len() as u16);
            out.push_back(Bytes::copy_from_slice(&header.bytes()));
            out.push_back(content);
        }
    }

    fn end_body(_decoder: &mut Decoder, out: &mut VecDeque<Bytes>) {
        out.push_back(Bytes::from_static(&END_OF_BODY));
    }

    fn next(decoder: &mut Decoder, received: &mut BytesMut) -> Result<Option<Output>, String> {
        while let Some(event) = decoder.next(received).map_err(|wrong| wrong.to_string())? {
            match event {
                Event::Stream { stream: RecordType::Stdout, request_id: REQUEST, bytes } => {
                    return Ok(Some(Output::Answer(bytes)));
                }
                Event::Stream { stream: RecordType::Stderr, request_id: REQUEST, bytes } => {
                    return Ok(Some(Output::Message(bytes)));
                }
                Event::StreamEnd { stream: RecordType::Stdout | RecordType::Stderr, request_id: REQUEST } => {
                }
                Event::End { request_id: REQUEST, application_status, protocol_status } => {
                    return ended(application_status, protocol_status).map(Some);
                }
                // The server sends no query that these could answer, and they are harmless.
                Event::Values { .. }
                | Event::UnknownType(_)
                | Event::Unknown { request_id: MANAGEMENT, .. } => {}
                other => {
                    return Err(format!(
                        "it sent what only a server sends, or for another request: {other:.80?}"
                    ));
                }
            }
        }
        Ok(None)
    }

    fn whole_answer(received: &[u8]) -> Option<WholeAnswer<'_>> {
        let mut rest = received;
        let mut answer: Option<WholeAnswer<'_>> = None;
        loop {
            let (header, behind) = rest.split_first_chunk::<HEADER_BYTES>()?;
            let header = Header::parse(*header).ok().filter(|header| header.request_id == REQUEST)?;
            let content = behind.get(..usize::from(header.content_bytes))?;
            rest = behind.get(content.len() + usize::from(header.padding_bytes)..)?;
            match RecordType::from_number(header.record_type)? {
                RecordType::Stdout | RecordType::Stderr if content.is_empty() => {}
                RecordType::Stdout => match &mut answer {
                    None => answer = Some(WholeAnswer { first: content, more: Vec::new() }),
                    Some(answer) => answer.more.push(content),
                },
                RecordType::EndRequest => {
                    // The program's exit status does not matter; nothing may follow the record.
                    let is_complete = content.len() == HEADER_BYTES
                        && ProtocolStatus::from_number(content[4]) == ProtocolStatus::RequestComplete;
                    return answer.filter(|_| is_complete && rest.is_empty());
                }
                _ => return None,
            }
        }
    }

    fn closed(_decoder: &Decoder) -> Result<Output, String> {
        Err("it closed the connection before the end of the answer".to_string())
    }
}

impl ProgramProtocol for FastCgi {
    const ANSWERS_IN_ONE_PIECE: bool = true;

    fn request_head(
        variables: &ProgramVariables<'_>,
        keep: bool,
        buffer: Vec<u8>,
    ) -> Result<Vec<u8>, ZeroByte> {
        let flags = if keep { KEEP_CONNECTION } else { 0 };
        let mut writer = RequestWriter::new(REQUEST, Role::Responder, flags, buffer);
        variables.write_to(&mut writer)?;
        let mut head = writer.finish();
        if variables.body_bytes() == 0 {
            head.extend_from_slice(&END_OF_BODY);
        }
        Ok(head)
    }
}

fn ended(status: u32, protocol_status: ProtocolStatus) -> Result<Output, String> {
    match protocol_status {
        ProtocolStatus::RequestComplete => Ok(Output::End { status, keeps: true }),
        ProtocolStatus::Overloaded => Ok(Output::Overloaded),
        ProtocolStatus::CannotMultiplex => {
            Err("it answered CANT_MPX_CONN to the only request of its connection".to_string())
        }
        ProtocolStatus::UnknownRole => Err("it answered UNKNOWN_ROLE to the role Responder".to_string()),
        ProtocolStatus::Other(number) => Err(format!("its END_REQUEST has the unknown status {number}")),
    }
}

#[cfg(test)]
mod codec_tests;
