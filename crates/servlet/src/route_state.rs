//! The state of a route's applications, in the form for its requests.

/// The state of a route's applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteState {
    /// Java or the applications are being started.
    Starting,
    /// They answer requests.
    Ready,
    /// They cannot be used.
    Failed,
}
