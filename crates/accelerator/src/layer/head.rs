//! Requests to the origin: without the client's own conditions, which the cache answers itself, and with the
//! conditions that validate a stored response.

use std::rc::Rc;

use touchstone_handler::request::{ReceivedHead, Request};

use crate::rules::fields::Fields;
use crate::rules::surrogate::TARGET;

/// The fields of a request.
#[derive(Clone, Copy)]
pub struct RequestFields<'r>(pub &'r ReceivedHead);

impl Fields for RequestFields<'_> {
    fn each<'a>(&'a self, each: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        for (name, value) in self.0.fields() {
            each(name, value);
        }
    }
}

/// Informs the origin that there is a cache that understands `Surrogate-Control`, its name there, and whether
/// it composes pages; it has no other capabilities of a surrogate (W3C Note "Edge Architecture
/// Specification", section 2.1).
pub fn announce(mut request: Request, composes: bool) -> Request {
    let language = if composes { " ESI/1.0" } else { "" };
    let capability = format!("{TARGET}=\"Surrogate/1.0{language}\"");
    let head =
        request.received.with_fields(|_| true, [(&b"Surrogate-Capability"[..], capability.as_bytes())]);
    if let Some(head) = head {
        request.received = Rc::new(head);
    }
    request
}

/// Conditions and ranges, which a cache answers itself.
const OF_CLIENT: [&str; 4] = ["if-none-match", "if-modified-since", "if-range", "range"];

/// The request to the origin: without the client's conditions and ranges, and with these fields. `None`: the
/// result would not be a valid request.
pub fn for_origin(request: &Request, added: &[(&str, Vec<u8>)]) -> Option<Request> {
    let mut next = request.without_body();
    let is_of_client =
        |name: &[u8]| OF_CLIENT.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
    if added.is_empty() && !request.received.fields().any(|(name, _)| is_of_client(name)) {
        return Some(next);
    }
    let added = added.iter().map(|(name, value)| (name.as_bytes(), &value[..]));
    let head = request.received.with_fields(|name| !is_of_client(name), added)?;
    next.received = Rc::new(head);
    Some(next)
}
