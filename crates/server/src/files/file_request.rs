//! What the file handler needs of a request, and what the request says of representations.

use std::sync::Arc;

use touchstone_files::cache::ConnectionForm;
use touchstone_handler::request::Request;
use touchstone_http::content_coding::CodingPreference;
use touchstone_http::dictionary::AvailableDictionary;
use touchstone_http::request::{KnownField, Method, RequestHead};
use touchstone_http::request_view::HeadFields;
use touchstone_sites::site::{Site, Snapshot};

/// What the file handler needs of a request.
pub struct FileRequest<'a> {
    /// The snapshot that the request is answered under.
    pub snapshot: &'a Arc<Snapshot>,
    /// The request that it is made of.
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
    /// The form of head that the connection wants.
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

    /// The dictionary that the client has, where one may be used: over HTTPS, and not for parts of a file.
    pub fn available_dictionary(&self) -> Option<AvailableDictionary> {
        if self.wants_range() || !self.request.is_https() {
            return None;
        }
        AvailableDictionary::of(&HeadFields { head: self.head, buffer: self.buffer })
    }

    fn wants_range(&self) -> bool {
        self.head.method == Method::Get && self.head.value(self.buffer, KnownField::Range).is_some()
    }

    /// Which content codings may answer. A Range field asks for parts of what is not coded: a coded form may
    /// be made anew with other bytes, and a client that names codings out of habit still means bytes of the
    /// file.
    pub fn coding_preference(&self) -> CodingPreference {
        let codings = &self.site().codings;
        if codings.is_off() {
            return CodingPreference::IDENTITY;
        }
        let preference = self.head.accept_encoding.preference(&codings.order);
        if self.wants_range() && preference.accepts_identity() {
            CodingPreference::IDENTITY
        } else {
            preference
        }
    }
}
