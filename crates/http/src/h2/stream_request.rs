//! A decoded request of HTTP/2 or HTTP/3. The rules for requests are the same in both.

use std::fmt;

use super::hpack::{Field, FieldList, KnownName};
use super::priority::Priority;
use super::request::RequestHead;
use crate::request::{Expectation, KnownField, Method};
use crate::request_view::RequestFields;

/// The contents of a request.
#[derive(Clone, Copy)]
pub struct StreamRequest<'a> {
    head: &'a RequestHead,
    list: &'a FieldList,
}

impl<'a> StreamRequest<'a> {
    /// The request whose fields are in `list`.
    #[inline]
    pub(crate) fn new(head: &'a RequestHead, list: &'a FieldList) -> StreamRequest<'a> {
        StreamRequest { head, list }
    }

    /// The method.
    #[inline]
    pub fn method(&self) -> Method {
        self.head.method
    }

    /// The method as it was sent.
    #[inline]
    pub fn method_text(&self) -> &'a [u8] {
        self.list.text(self.head.method_text)
    }

    /// The scheme, most often `https` or `http`; empty for CONNECT.
    #[inline]
    pub fn scheme(&self) -> &'a [u8] {
        self.list.text(self.head.scheme)
    }

    /// Host and perhaps port, from `:authority` or, if that is absent, from `Host`; [valid](crate::host), and
    /// empty only with schemes other than those of HTTP.
    #[inline]
    pub fn authority(&self) -> &'a [u8] {
        self.list.text(self.head.authority)
    }

    /// Path and query, beginning with a slash; `*` for OPTIONS of the whole server, empty for CONNECT.
    #[inline]
    pub fn path(&self) -> &'a [u8] {
        self.list.text(self.head.path)
    }

    /// The protocol of an extended CONNECT, such as `websocket` (RFC 8441).
    pub fn protocol(&self) -> Option<&'a [u8]> {
        (!self.head.protocol.is_empty()).then(|| self.list.text(self.head.protocol))
    }

    /// The value of Content-Length. The body must match it: a stream with more or less data is reset.
    #[inline]
    pub fn content_length(&self) -> Option<u64> {
        self.head.content_length
    }

    /// The expectation in Expect.
    #[inline]
    pub fn expectation(&self) -> Expectation {
        self.head.expectation
    }

    /// Whether there is a precondition or a Range field.
    #[inline]
    pub fn has_conditions_or_range(&self) -> bool {
        self.head.has_conditions_or_range
    }

    /// The priority in the `priority` field, if there was one.
    pub fn priority(&self) -> Option<Priority> {
        self.head.priority
    }

    /// Whether the header section was larger than the limits: fields are missing, pseudo-header fields
    /// perhaps among them. The request should be answered with 431 (RFC 6585).
    #[inline]
    pub fn is_header_section_too_large(&self) -> bool {
        self.head.is_too_large
    }

    /// Its fields without pseudo-header fields; `host` is not among them, and there is at most one `cookie`.
    #[inline]
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(self.list, self.head.fields_start, self.head.fields_end)
    }

    /// The values of a field, in order.
    pub fn values(&self, name: KnownName) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.fields().filter(move |field| field.known == name).map(|field| field.value)
    }

    /// The values of a field by its HTTP/1 name; [`KnownField::Other`] finds nothing.
    pub fn values_of(&self, name: KnownField) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let matches = move |field: &FieldView| name != KnownField::Other && field.known.known_field() == name;
        self.fields().filter(matches).map(|field| field.value)
    }
}

impl RequestFields for StreamRequest<'_> {
    #[inline]
    fn field(&self, position: usize) -> Option<(&[u8], &[u8])> {
        self.fields().nth(position).map(|field| (field.name, field.value))
    }
}

impl fmt::Debug for StreamRequest<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |text: &[u8]| text.escape_ascii().to_string();
        formatter
            .debug_struct("StreamRequest")
            .field("method", &text(self.method_text()))
            .field("scheme", &text(self.scheme()))
            .field("authority", &text(self.authority()))
            .field("path", &text(self.path()))
            .field("protocol", &self.protocol().map(text))
            .field("fields", &self.fields())
            .finish()
    }
}

/// A field of a request or of its trailers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FieldView<'a> {
    /// The name, in lower case.
    pub name: &'a [u8],
    /// The value, without white space around it.
    pub value: &'a [u8],
    /// Which name it is, if it is recognised.
    pub known: KnownName,
    /// The client forbids to store it in a table of any further connection (RFC 7541 section 7.1.3).
    pub is_never_indexed: bool,
}

impl fmt::Debug for FieldView<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.name.escape_ascii(), self.value.escape_ascii())
    }
}

/// Fields in order.
#[derive(Clone)]
pub struct Fields<'a> {
    list: &'a FieldList,
    fields: std::slice::Iter<'a, Field>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(list: &'a FieldList, start: u32, end: u32) -> Fields<'a> {
        Fields { list, fields: list.fields().get(start as usize..end as usize).unwrap_or_default().iter() }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = FieldView<'a>;

    #[inline]
    fn next(&mut self) -> Option<FieldView<'a>> {
        self.fields.next().map(|field| FieldView {
            name: self.list.name(field),
            value: self.list.value(field),
            known: field.known,
            is_never_indexed: field.is_never_indexed,
        })
    }

    #[inline]
    fn nth(&mut self, count: usize) -> Option<FieldView<'a>> {
        let _ = count.checked_sub(1).map(|before| self.fields.nth(before));
        self.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.fields.size_hint()
    }
}

impl ExactSizeIterator for Fields<'_> {}

impl fmt::Debug for Fields<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.clone()).finish()
    }
}
