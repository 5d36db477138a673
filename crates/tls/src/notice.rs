//! What the operator should know about TLS: said by what reads the files, written to the log by who asked.

/// Something that the operator should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// How much it matters.
    pub level: NoticeLevel,
    /// One line.
    pub text: String,
}

/// How much a [`Notice`] matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeLevel {
    /// All is well.
    Info,
    /// Something should be done.
    Warning,
}

impl Notice {
    /// All is well.
    pub(super) fn info(text: String) -> Notice {
        Notice { level: NoticeLevel::Info, text }
    }

    /// Something should be done.
    pub(super) fn warning(text: String) -> Notice {
        Notice { level: NoticeLevel::Warning, text }
    }
}
