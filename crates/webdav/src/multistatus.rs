//! The body of an answer with several statuses (RFC 4918 section 13).

use std::fmt::Write as _;

use touchstone_http::status::reason;

use crate::markup::{XML_BEGIN, escape};
use crate::xml::PropertyName;

/// The body, as it grows.
pub struct Multistatus {
    out: String,
}

impl Multistatus {
    /// A body without responses.
    pub fn new() -> Multistatus {
        Multistatus { out: format!("{XML_BEGIN}<D:multistatus xmlns:D=\"DAV:\">\n") }
    }

    /// Adds the properties of a resource: those that were found as elements, and the names of the others,
    /// each group with its status.
    pub fn properties(&mut self, href: &str, found: &str, groups: &[(u16, &str, Vec<&PropertyName>)]) {
        let _ = write!(self.out, "<D:response><D:href>{}</D:href>", escape(href));
        let is_only = groups.iter().all(|(_, _, names)| names.is_empty());
        if !found.is_empty() || is_only {
            self.propstat(200, found, "");
        }
        for (status, error, names) in groups.iter().filter(|(_, _, names)| !names.is_empty()) {
            let mut elements = String::new();
            for name in names {
                name.write_empty(&mut elements);
            }
            self.propstat(*status, &elements, error);
        }
        self.out.push_str("</D:response>\n");
    }

    fn propstat(&mut self, status: u16, elements: &str, error: &str) {
        let _ = write!(
            self.out,
            "<D:propstat><D:prop>{elements}</D:prop><D:status>HTTP/1.1 {status} {}</D:status>",
            reason(status)
        );
        if !error.is_empty() {
            let _ = write!(self.out, "<D:error><D:{error}/></D:error>");
        }
        self.out.push_str("</D:propstat>");
    }

    /// The whole body.
    pub fn finish(mut self) -> String {
        self.out.push_str("</D:multistatus>\n");
        self.out
    }
}
