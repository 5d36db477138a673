//! AJP13: requests to servlet containers such as Tomcat (Apache JServ Protocol 1.3).
//!
//! The codec is without input and output; [`Ajp`] puts the server's side of it under the
//! [`backend`](crate::backend) machinery. One request at a time goes over a connection, and the container
//! asks for the request's body piece by piece; only the first piece of a body whose length was said is sent
//! unasked.
//!
//! | module | |
//! |---|---|
//! | `code` | the numbers of the protocol |
//! | `writer` | a request into its packet |
//! | `packet` | packets of a container into what they say |
//! | `path` | the path as a container sees it |
//! | `session` | whose session a request belongs to |
//! | `request` | what is said of a request |
//! | `settings`, `handler` | the configuration, and what answers with it |

mod code;
mod handler;
pub mod packet;
mod path;
mod request;
mod session;
mod settings;
mod writer;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use crate::backend::{Output, Ping, Protocol};
use code::{DATA_HEADER_BYTES, TO_CONTAINER};
use packet::{Packet, PacketLimits, next_packet};

pub use code::{LEAST_PACKET_BYTES, MOST_PACKET_BYTES};
pub use handler::Containers;
pub use path::{Ambiguous, ServletPath};
pub use session::SessionRules;
pub use settings::Settings;

/// The server's side of AJP13.
#[derive(Debug)]
pub enum Ajp {}

/// CPing and CPong.
pub fn ping(timeout: Duration) -> Ping {
    Ping { question: &code::CPING, answer: &code::CPONG, timeout }
}

/// Where a request and its answer stand.
#[derive(Debug, Clone)]
pub struct State {
    limits: PacketLimits,
    has_head: bool,
    /// So many bytes of the body the container waits for.
    wanted_bytes: usize,
}

impl State {
    /// Before a request. Where the body's length is said and not 0, the container waits for a piece without
    /// asking.
    pub fn new(limits: PacketLimits, has_body: bool) -> State {
        let wanted_bytes = if has_body { most_data_bytes(limits) } else { 0 };
        State { limits, has_head: false, wanted_bytes }
    }
}

/// The most that a packet of this size can hold of a body; its length takes two bytes.
fn most_data_bytes(limits: PacketLimits) -> usize {
    limits.bytes - DATA_HEADER_BYTES
}

impl Protocol for Ajp {
    type Decoder = State;

    const NAME: &'static str = "ajp";

    const ASKS_FOR_BODY: bool = true;

    fn body_room(state: &State) -> usize {
        state.wanted_bytes
    }

    fn push_body(state: &mut State, piece: Bytes, out: &mut VecDeque<Bytes>) {
        // There is room for no longer one.
        let length = piece.len() as u16;
        let mut header = BytesMut::with_capacity(DATA_HEADER_BYTES);
        header.put_slice(&TO_CONTAINER);
        header.put_u16(length + 2);
        header.put_u16(length);
        out.push_back(header.freeze());
        out.push_back(piece);
        state.wanted_bytes = 0;
    }

    fn end_body(state: &mut State, out: &mut VecDeque<Bytes>) {
        static END: [u8; 4] = [TO_CONTAINER[0], TO_CONTAINER[1], 0, 0];
        out.push_back(Bytes::from_static(&END));
        state.wanted_bytes = 0;
    }

    fn next(state: &mut State, received: &mut BytesMut) -> Result<Option<Output>, String> {
        loop {
            let Some(packet) = next_packet(received, state.limits).map_err(|wrong| wrong.to_string())? else {
                return Ok(None);
            };
            return match packet {
                Packet::Head(_) if state.has_head => Err("it sent two heads for one answer".to_string()),
                Packet::Head(head) => {
                    state.has_head = true;
                    Ok(Some(Output::Head(head)))
                }
                Packet::Body(_) if !state.has_head => {
                    Err("it sent a piece of the body before the head".to_string())
                }
                // Whatever has come is sent on at once in any case.
                Packet::Body(piece) if piece.is_empty() => continue,
                Packet::Body(piece) => Ok(Some(Output::Answer(piece))),
                Packet::GetBody(_) if state.wanted_bytes > 0 => {
                    Err("it asked for more of the body before it had what it asked for".to_string())
                }
                Packet::GetBody(wanted) => {
                    state.wanted_bytes = wanted.min(most_data_bytes(state.limits));
                    Ok(Some(Output::BodyWanted))
                }
                Packet::End { .. } if !state.has_head => {
                    Err("it ended its answer without a head".to_string())
                }
                Packet::End { keeps } => Ok(Some(Output::End { status: 0, keeps })),
                Packet::Pong => Err("it answered a question that was not asked".to_string()),
            };
        }
    }

    fn closed(_state: &State) -> Result<Output, String> {
        Err("it closed the connection before the end of the answer".to_string())
    }
}

#[cfg(test)]
mod tests;
