//! AJP13: requests to servlet containers such as Tomcat (Apache JServ Protocol 1.3).
//!
//! The codec does no input or output; [`Ajp`] adapts the server's side of it to the
//! [`backend`](crate::backend) module. One request at a time uses a connection, and the container requests
//! the request's body piece by piece; only the first piece of a body with a known length is sent without such
//! a request.
//!
//! | module | |
//! |---|---|
//! | `code` | the numbers of the protocol |
//! | `writer` | writes the packet of a request |
//! | `packet` | reads the packets of a container |
//! | `path` | the path as a container sees it |
//! | `session` | the container that keeps a request's session |
//! | `request` | the fields and attributes of a request's packet |
//! | `settings`, `handler` | the configuration, and the handler that uses it |

mod code;
mod handler;
pub mod packet;
mod path;
mod request;
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
pub use path::{AmbiguousPath, ServletPath};
pub use settings::Settings;

/// The server's side of AJP13.
#[derive(Debug)]
pub enum Ajp {}

/// CPing and CPong.
pub fn ping(timeout: Duration) -> Ping {
    Ping { question: &code::CPING, answer: &code::CPONG, timeout }
}

/// The state of a request and its answer.
#[derive(Debug, Clone)]
pub struct State {
    limits: PacketLimits,
    has_head: bool,
    /// How many bytes of the body the container waits for.
    wanted_bytes: usize,
}

impl State {
    /// The state before a request. If the body's length is known and not 0, the container waits for a first
    /// piece without requesting it.
    pub fn new(limits: PacketLimits, has_body: bool) -> State {
        let wanted_bytes = if has_body { most_data_bytes(limits) } else { 0 };
        State { limits, has_head: false, wanted_bytes }
    }
}

/// The most bytes of a body in a packet of this size; the length takes two bytes.
fn most_data_bytes(limits: PacketLimits) -> usize {
    limits.bytes - DATA_HEADER_BYTES
}

impl Protocol for Ajp {
    type Decoder = State;

    const NAME: &'static str = "ajp";

    const REQUESTS_BODY: bool = true;

    fn body_room(state: &State) -> usize {
        state.wanted_bytes
    }

    fn push_body(state: &mut State, piece: Bytes, out: &mut VecDeque<Bytes>) {
        // The piece fits into a packet, so its length fits into 16 bits.
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
                // A flush: received bytes are always sent on at once.
                Packet::Body(piece) if piece.is_empty() => continue,
                Packet::Body(piece) => Ok(Some(Output::Answer(piece))),
                Packet::GetBody(_) if state.wanted_bytes > 0 => {
                    Err("it requested more of the body before it had received the last piece".to_string())
                }
                Packet::GetBody(wanted) => {
                    state.wanted_bytes = wanted.min(most_data_bytes(state.limits));
                    Ok(Some(Output::BodyWanted))
                }
                Packet::End { .. } if !state.has_head => {
                    Err("it ended its answer without a head".to_string())
                }
                Packet::End { keeps } => Ok(Some(Output::End { status: 0, keeps })),
                Packet::Pong => Err("it answered a ping that was not sent".to_string()),
            };
        }
    }

    fn closed(_state: &State) -> Result<Output, String> {
        Err("it closed the connection before the end of the answer".to_string())
    }
}

#[cfg(test)]
mod tests;
