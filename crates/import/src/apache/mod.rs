//! Apache httpd: servers, directories, locations, `.htaccess`, and what stands in them.
//!
//! ```text
//! files -> read: directives with their places -> site: virtual hosts
//!       -> area: which sections hold for a part of the paths -> routes: the longest path first
//! ```
//!
//! | module | |
//! |---|---|
//! | `read` | from files to directives: sections, `Include`, `Define`, `IfModule` |
//! | `area` | a part of the paths, and the sections that hold there |
//! | `access` | `Require`, `Order`, `Auth...`: who is let in |
//! | `rewrite` | `Redirect`, `RewriteCond`, `RewriteRule` |
//! | `answer` | what answers: another server, PHP, CGI, files, with fields and error pages |
//! | `site` | a virtual host: addresses, names, certificates, its areas |
//! | `translate` | the whole |

mod access;
mod answer;
mod area;
mod read;
mod rewrite;
mod site;
mod translate;

pub use read::{parse, read};
pub use translate::translate;
