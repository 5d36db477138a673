//! What the end-to-end tests share: a server started from the built binary on a directory made for the test,
//! a raw socket client that reads exactly one answer by its framing, a strict parser for those answers, and
//! the files that are served.
//!
//! These modules do not use the server's code: the tests see what any client, operator or log reader sees.

#![allow(dead_code, unused_imports, reason = "each test program uses a part of it")]

mod client;
mod date;
mod killed;
mod load;
mod origin;
mod response;
mod server;
mod sshd;
mod tools;
mod tree;

pub(crate) use client::{Broken, Client};
pub(crate) use date::{parse_common_log_date, parse_http_date, parse_rfc_3339, unix_now};
pub(crate) use killed::kill_while_asked;
pub(crate) use load::{Load, under_load};
pub(crate) use origin::{Nginx, Origin, read_head};
pub(crate) use response::{AnswerTo, Response, parse_all, parse_multipart, parse_one};
pub(crate) use server::{
    Server, binary, binary_for_all, error_lines, free_port, is_in_use, run, run_as, run_in,
};
pub(crate) use sshd::Sshd;
pub(crate) use tools::{
    Bound, bound_by_permissions, curl, processes_with, raise_open_files, skipped, wait_until, write_program,
};
pub(crate) use tree::{ALPHABET, FIXED_TIME, FIXED_TIME_TEXT, SECOND, Tree, bytes_of, numbers};

/// Bytes as text for a failure message: printable ASCII as it is, the rest escaped, long middles left out.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 1200;
    if bytes.len() <= MOST {
        return bytes.escape_ascii().to_string();
    }
    let (start, end) = (&bytes[..MOST - 200], &bytes[bytes.len() - 200..]);
    format!("{}[... {} bytes ...]{}", start.escape_ascii(), bytes.len() - MOST, end.escape_ascii())
}
