//! A request or an answer in the form for signatures.

use touchstone_http::request_view::{self, RequestFields};

/// A message.
#[derive(Clone, Copy)]
pub struct Message<'m> {
    /// The part before its fields.
    pub start: Start<'m>,
    /// Its fields, without those of a trailer.
    pub fields: &'m dyn RequestFields,
    /// For an answer: its request, for components with the parameter `req`.
    pub request: Option<&'m Message<'m>>,
}

/// The part before the fields of a message.
#[derive(Clone, Copy)]
pub enum Start<'m> {
    /// A request.
    Request(Target<'m>),
    /// An answer, with its status.
    Answer(u16),
}

/// The target of a request.
#[derive(Clone, Copy)]
pub struct Target<'m> {
    /// The method.
    pub method: &'m [u8],
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The host, with its port if it was given.
    pub authority: &'m [u8],
    /// The path as it was sent.
    pub path: &'m [u8],
    /// The query as it was sent, without its question mark.
    pub query: Option<&'m [u8]>,
    /// The target as HTTP/1.1 writes it in the request line.
    pub request_target: &'m [u8],
}

impl<'m> Message<'m> {
    /// The values of a field, whose name is given in lower case.
    pub fn values(&self, name: &'m [u8]) -> impl Iterator<Item = &'m [u8]> + use<'m> {
        request_view::values(self.fields, name)
    }
}

impl Target<'_> {
    /// The authority in its normal form: lower case, without the port of the scheme.
    pub fn normal_authority(&self) -> Vec<u8> {
        let authority = self.authority.to_ascii_lowercase();
        let usual: &[u8] = if self.scheme == "https" { b":443" } else { b":80" };
        match authority.strip_suffix(usual) {
            Some(host) => host.to_vec(),
            None => authority,
        }
    }

    /// The path, which is `/` where it is empty.
    pub fn normal_path(&self) -> &[u8] {
        if self.path.is_empty() { b"/" } else { self.path }
    }
}
