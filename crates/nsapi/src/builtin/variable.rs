//! `set-variable`: changes the values of a request's blocks, at any stage.
//!
//! `insert-vars="name=value"` adds a value, `set-vars=` replaces it, `remove-vars="name"` removes it; the
//! same for `client`, `reqpb`, `headers` and `srvhdrs`. `error="403"` sets a status, `abort=true` ends the
//! request with it, `noaction=true` continues the stage. `$name="value"` sets a variable of the request,
//! which later lines and conditions use as `$name`, and `$headers{'name'}="value"` an entry.

use std::ffi::c_int;

use crate::abi::{Pblock, REQ_ABORTED, REQ_NOACTION, REQ_PROCEED, Request, Session};
use crate::api::protocol::set_status;
use crate::conf::expression::Variable;
use crate::engine::is_true;
use crate::pblock;

/// Changes blocks according to its parameters.
pub unsafe extern "C" fn set_variable(
    block: *mut Pblock,
    session: *mut Session,
    request: *mut Request,
) -> c_int {
    let blocks = [
        (&b"client"[..], (*session).client),
        (b"vars", (*request).vars),
        (b"reqpb", (*request).reqpb),
        (b"headers", (*request).headers),
        (b"srvhdrs", (*request).srvhdrs),
    ];
    let mut changes: Vec<(&[u8], &[u8])> = Vec::new();
    pblock::for_each(block, |name, value| changes.push((name, value)));
    // Blocks of directives are filled from the last parameter to the first.
    for (parameter, value) in changes.into_iter().rev() {
        if parameter.first() == Some(&b'$') {
            match crate::conf::templates::set_variable(parameter) {
                Some(Variable::Entry(map, name)) => {
                    let target = blocks.iter().find(|(known, _)| *known == map.as_bytes());
                    let is_field = matches!(map, "headers" | "srvhdrs");
                    let name = if is_field { name.to_ascii_lowercase() } else { name };
                    target.map(|(_, target)| pblock::set(*target, &name, value));
                }
                Some(Variable::Own(name)) => {
                    pblock::set((*request).vars, &[b"$", name.as_slice()].concat(), value);
                }
                _ => {}
            }
            continue;
        }
        let Some(dash) = parameter.iter().position(|byte| *byte == b'-') else { continue };
        let (what, of) = (&parameter[..dash], &parameter[dash + 1..]);
        let Some((_, target)) = blocks.iter().find(|(name, _)| *name == of) else { continue };
        let mut parts = value.splitn(2, |byte| *byte == b'=');
        let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        match what {
            b"insert" => _ = pblock::insert(*target, name, value),
            b"set" => _ = pblock::set(*target, name, value),
            b"remove" => pblock::remove_all(*target, name),
            _ => {}
        }
    }
    if let Some(error) = pblock::find(block, b"error") {
        let (number, reason) = error.split_at(error.len().min(3));
        let number = std::str::from_utf8(number).ok().and_then(|digits| digits.parse().ok());
        set_status(&mut *request, number.unwrap_or(500), reason.trim_ascii());
    }
    let says = |name: &[u8]| pblock::find(block, name).is_some_and(is_true);
    match () {
        () if says(b"abort") => REQ_ABORTED,
        () if says(b"noaction") => REQ_NOACTION,
        () => REQ_PROCEED,
    }
}
