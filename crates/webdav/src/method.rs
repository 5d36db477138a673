//! The methods of WebDAV, and those of HTTP that change files.

/// A method besides GET, HEAD and OPTIONS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DavMethod {
    /// RFC 4918 section 9.1
    Propfind,
    /// RFC 4918 section 9.2
    Proppatch,
    /// RFC 4918 section 9.3
    Mkcol,
    /// RFC 9110 section 9.3.4
    Put,
    /// RFC 9110 section 9.3.5
    Delete,
    /// RFC 4918 section 9.8
    Copy,
    /// RFC 4918 section 9.9
    Move,
    /// RFC 4918 section 9.10
    Lock,
    /// RFC 4918 section 9.11
    Unlock,
}

impl DavMethod {
    /// All of them.
    pub const ALL: [DavMethod; 9] = [
        DavMethod::Propfind,
        DavMethod::Proppatch,
        DavMethod::Mkcol,
        DavMethod::Put,
        DavMethod::Delete,
        DavMethod::Copy,
        DavMethod::Move,
        DavMethod::Lock,
        DavMethod::Unlock,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            DavMethod::Propfind => "PROPFIND",
            DavMethod::Proppatch => "PROPPATCH",
            DavMethod::Mkcol => "MKCOL",
            DavMethod::Put => "PUT",
            DavMethod::Delete => "DELETE",
            DavMethod::Copy => "COPY",
            DavMethod::Move => "MOVE",
            DavMethod::Lock => "LOCK",
            DavMethod::Unlock => "UNLOCK",
        }
    }

    /// The method with this name.
    pub fn from_name(name: &[u8]) -> Option<DavMethod> {
        DavMethod::ALL.into_iter().find(|method| method.name().as_bytes() == name)
    }

    /// Whether it changes resources.
    pub fn writes(self) -> bool {
        self != DavMethod::Propfind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_handler::webdav_counts::METHODS;

    #[test]
    fn every_method_is_counted() {
        assert_eq!(DavMethod::ALL.map(DavMethod::name), METHODS);
    }
}
