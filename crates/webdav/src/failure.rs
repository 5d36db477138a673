//! Why a request fails, as a status and a body with the condition that did not hold (RFC 4918 section 16).

use std::io;

use bytes::Bytes;
use rustix::io::Errno;
use touchstone_files::root::OpenError;
use touchstone_handler::answer::{Answer, BodyPart};

use crate::markup::{XML_BEGIN, escape};

/// Why a request fails.
#[derive(Debug)]
pub struct Failure {
    /// The status.
    pub status: u16,
    /// The name of the condition of RFC 4918 section 16 that did not hold; empty: none is named.
    pub condition: &'static str,
    /// The resources that it did not hold for, as paths with escapes.
    pub hrefs: Vec<String>,
    /// For the error log; empty: no line is logged.
    pub detail: String,
}

/// The result of a part of a request.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure without a condition.
    pub fn new(status: u16) -> Failure {
        Failure { status, condition: "", hrefs: Vec::new(), detail: String::new() }
    }

    /// A failure with a condition.
    pub fn condition(status: u16, condition: &'static str) -> Failure {
        Failure { condition, ..Failure::new(status) }
    }

    /// The same, with the resources that it is about.
    #[must_use]
    pub fn about(self, hrefs: Vec<String>) -> Failure {
        Failure { hrefs, ..self }
    }

    /// The same, with a message for the operator.
    #[must_use]
    pub fn detail(self, detail: impl ToString) -> Failure {
        Failure { detail: detail.to_string(), ..self }
    }

    /// 404 as 409: a collection on the way to the resource is missing (RFC 4918 section 9.3.1).
    #[must_use]
    pub fn missing_is_conflict(self) -> Failure {
        if self.status == 404 { Failure { status: 409, ..self } } else { self }
    }

    /// The answer.
    pub fn answer(&self) -> Answer {
        if self.condition.is_empty() {
            return Answer::error(self.status);
        }
        let hrefs: String =
            self.hrefs.iter().map(|href| format!("<D:href>{}</D:href>", escape(href))).collect();
        let name = self.condition;
        let error = format!("<D:error xmlns:D=\"DAV:\"><D:{name}>{hrefs}</D:{name}></D:error>");
        let body = format!("{XML_BEGIN}{error}\n");
        Answer::new(self.status)
            .field("Content-Type", "application/xml; charset=utf-8")
            .part(BodyPart::Bytes(Bytes::from(body)))
    }
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Failure {
        let status = match error {
            Errno::NOENT | Errno::NOTDIR => 404,
            Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::LOOP | Errno::XDEV => 403,
            Errno::EXIST => 409,
            Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => 400,
            Errno::NOSPC | Errno::DQUOT => {
                return Failure::condition(507, "quota-not-exceeded").detail(io::Error::from(error));
            }
            Errno::FBIG => 413,
            Errno::MFILE | Errno::NFILE => 503,
            _ => 500,
        };
        let failure = Failure::new(status);
        // A directory that the server may not write to is for the operator to mend.
        match status {
            404 | 409 | 400 => failure,
            _ => failure.detail(io::Error::from(error)),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match Errno::from_io_error(&error) {
            Some(errno) => errno.into(),
            None => Failure::new(500).detail(error),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(refused: OpenError) -> Failure {
        match refused {
            OpenError::NotFound => Failure::new(404),
            OpenError::Forbidden | OpenError::NotAFile => Failure::new(403),
            OpenError::TooManyOpenFiles => Failure::new(503).detail("no file descriptor left"),
            OpenError::Other(error) => error.into(),
        }
    }
}
