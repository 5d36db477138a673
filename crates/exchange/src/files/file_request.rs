//! The part of a request that the file handler uses, and the request's preferences among representations.

use std::sync::Arc;

use touchstone_files::cache::ConnectionForm;
use touchstone_handler::request::Request;
use touchstone_http::content_coding::CodingPreference;
use touchstone_http::dictionary::AvailableDictionary;
use touchstone_http::request::{KnownField, Method, RequestHead};
use touchstone_http::request_view::HeadFields;
use touchstone_sites::site::{Site, Snapshot};

/// The part of a request that the file handler uses.
pub struct FileRequest<'a> {
    /// The snapshot under which the request is answered.
    pub snapshot: &'a Arc<Snapshot>,
    /// The request of the client.
    pub request: &'a Request,
    /// The site's index in it.
    pub site: usize,
    /// The head.
    pub head: &'a RequestHead,
    /// The bytes that the head was parsed from.
    pub buffer: &'a [u8],
    /// The path as it was sent.
    pub path: &'a [u8],
    /// The query as it was sent, without its question mark.
    pub query: Option<&'a [u8]>,
    /// The form of head that the connection needs.
    pub form: ConnectionForm,
}

impl<'a> FileRequest<'a> {
    /// The site.
    pub fn site(&self) -> &'a Site {
        &self.snapshot.sites[self.site]
    }

    /// The values of the Accept field's lines.
    pub fn accept(&self) -> impl Iterator<Item = &'a [u8]> {
        let (head, buffer) = (self.head, self.buffer);
        let lines =
            head.fields.iter().filter(move |line| line.name.of(buffer).eq_ignore_ascii_case(b"accept"));
        lines.map(move |line| line.value.of(buffer))
    }

    /// The dictionary of the client, if it may be used: over HTTPS, and not for parts of a file.
    pub fn available_dictionary(&self) -> Option<AvailableDictionary> {
        if self.has_range() || !self.request.is_https() {
            return None;
        }
        AvailableDictionary::of(&HeadFields { head: self.head, buffer: self.buffer })
    }

    fn has_range(&self) -> bool {
        self.head.method == Method::Get && self.head.value(self.buffer, KnownField::Range).is_some()
    }

    /// The content codings for the answer. A Range field refers to bytes without a coding: a coded form may
    /// be made again with other bytes, and a client that always sends Accept-Encoding still means bytes of
    /// the file.
    pub fn coding_preference(&self) -> CodingPreference {
        let codings = &self.site().codings;
        if codings.is_off() {
            return CodingPreference::IDENTITY;
        }
        let preference = self.head.accept_encoding.preference(&codings.order);
        if self.has_range() && preference.accepts_identity() {
            CodingPreference::IDENTITY
        } else {
            preference
        }
    }
}
