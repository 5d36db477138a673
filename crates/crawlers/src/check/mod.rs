//! The check that visitors pass before a site answers them: by a proof of work, which a script does, or by
//! waiting, for browsers without scripts. The server stores no state of it.
//!
//! ```text
//! no pass -> page with a task -> script finds an answer -> /.touchstone/check/pass -> pass in a cookie
//!                             -> or the page loads again after some seconds -> /.touchstone/check/wait
//! ```
//!
//! | module | |
//! |---|---|
//! | `token` | tasks and passes: texts that only this server can make |
//! | `work` | whether an answer is one to a task |
//! | `binding` | what of a client a pass is bound to |
//! | `cookie` | the cookie with the pass |
//! | `page` | the pages, and their script and style |

pub mod binding;
pub mod cookie;
pub mod page;
pub mod token;
pub mod work;
