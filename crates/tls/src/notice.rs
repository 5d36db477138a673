//! Messages for the operator about TLS: made by the code that reads the files, logged by its caller.

/// A message for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// How important it is.
    pub level: NoticeLevel,
    /// One line.
    pub text: String,
}

/// How important a [`Notice`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeLevel {
    /// No action is needed.
    Info,
    /// The operator should act.
    Warning,
}

impl Notice {
    /// A message without need for action.
    pub(super) fn info(text: String) -> Notice {
        Notice { level: NoticeLevel::Info, text }
    }

    /// A message that requires action.
    pub(super) fn warning(text: String) -> Notice {
        Notice { level: NoticeLevel::Warning, text }
    }
}
