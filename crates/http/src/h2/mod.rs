//! HTTP/2.
pub mod connection;
pub mod error;
pub mod events;
pub(crate) mod flow;
pub mod frame;
pub mod hpack;
pub mod limits;
pub mod priority;
pub(crate) mod request;
pub(crate) mod scheduler;
pub mod settings;
pub mod streams;

pub use connection::{Body, DataFrame, Preface, Responded, ServerConnection, detect_preface};
pub use error::{ConnectionError, ErrorCode};
pub use events::{Event, Events, FieldView, Fields, Request};
pub use limits::Limits;
pub use priority::Priority;
pub use streams::StreamKey;
