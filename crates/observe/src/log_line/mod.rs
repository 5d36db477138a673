//! A line of the access log: what is known of a request, and the forms in which it is written.
//!
//! | module | |
//! |---|---|
//! | `record` | what is known of a request that was answered |
//! | `form` | Common, Combined, JSON |
//! | `template` | a format string |
//! | `variable` | how a variable is written into a line |
//! | `number` | seconds, and numbers with this many digits |
//! | `escape` | bytes from outside as they may stand in a line |
//! | `clock` | the time, written once a second |
//!
//! Nothing here writes to a file: `log` does.

mod clock;
mod escape;
mod form;
mod number;
mod record;
mod template;
mod variable;

pub use clock::LogClock;
pub use form::{LineFormat, append_journal_fields, largest_line};
pub use record::{Record, TlsRecord, TraceIds};
pub use template::Template;
