//! The data that the server and its worker processes share: memory with two rings, and the forms of data in
//! them.
//!
//! | module | |
//! |---|---|
//! | `segment` | the memory, which both processes map |
//! | `ring` | a queue of frames in it, with one writer and one reader |
//! | `frame` | the kinds of frames |
//! | `request` | a request as bytes |
//! | `head` | the head of an answer as bytes |
//! | `control` | messages over the socket between the two processes |

pub mod control;
pub mod frame;
pub mod head;
pub mod request;
pub mod ring;
pub mod segment;

/// Reads bytes in each of the forms.
pub fn read_anything(bytes: &[u8]) {
    if let Ok((head, _)) = head::read(bytes) {
        assert!(touchstone_http::field_lines::are_valid(&head.answer.fields));
    }
    if let Some((_, fields)) = request::read(bytes) {
        fields.for_each(drop);
    }
    ring::read_anything(bytes);
}
