//! The parts of a route that need no configuration: the conditions for a request, and the texts that it makes
//! of one. `touchstone-config` reads the keys of routes and puts these parts into the table of a site.
//!
//! | module | |
//! |---|---|
//! | `matcher` | the conditions for a path, a field and a request |
//! | `template` | the target of a redirect or rewrite |
//! | `escape` | percent-encoding |
//! | `target` | the path and query for a program or an origin |
//! | `answer_fields` | fields that the answer gets |

mod answer_fields;
mod escape;
pub mod matcher;
mod target;
pub mod template;

pub use answer_fields::AnswerFields;
pub use target::{RouteTarget, TargetRequest};
