//! A line of the access log: the facts about a request, and the forms in which they are written.
//!
//! | module | |
//! |---|---|
//! | `record` | the facts about a request that was answered |
//! | `form` | Common, Combined, JSON |
//! | `template` | a format string |
//! | `variable` | how a variable is written into a line |
//! | `number` | seconds, and numbers with this many digits |
//! | `escape` | bytes from outside in the form that a line may contain |
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
