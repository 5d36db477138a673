//! Apache httpd: servers, directories, locations and `.htaccess`, with their directives.
//!
//! The result is a text for people to read: each original line is a comment beside its translation. A
//! directive without a counterpart is listed with its place and with advice; no directive is dropped
//! silently.
//!
//! ```text
//! files -> reader: directives with their places in the source -> site: virtual hosts
//!       -> area: the sections that apply to a part of the paths -> routes: the longest path first
//! ```
//!
//! | module | |
//! |---|---|
//! | `overrides` | the `.htaccess` files that apply, and which of their directives |
//! | `area` | a part of the paths, and the sections that apply to it |
//! | `variant` | parts of an area with other settings: files, expressions, conditions, methods |
//! | `condition` | expressions of `<If>` as conditions |
//! | `environment` | `SetEnvIf`, and the directives that read its variables |
//! | `oidc` | mod_auth_openidc as a login |
//! | `access` | `Require`, `Order`, `Auth...`: which clients are allowed |
//! | `refused` | routes that refuse what was not translated |
//! | `rewrite` | `Redirect`, `RewriteCond`, `RewriteRule` |
//! | `rewrite_map` | `RewriteMap`, and the keys that rules look up |
//! | `guard` | restrictions that routes of rules and origins must keep |
//! | `origin` | `ProxyPass`, `ProxyPassReverse`: origins and the paths for them |
//! | `answer` | the handler: another server, PHP, CGI, files, with fields and error pages |
//! | `handlers` | areas whose scripts Apache does not run |
//! | `mapped` | `AliasMatch`, `UserDir`, `VirtualDocumentRoot` |
//! | `host` | the directives of a virtual host |
//! | `site` | a virtual host: addresses, names, certificates, its areas |
//! | `translate` | the whole configuration |

mod access;
mod answer;
mod area;
mod condition;
mod environment;
mod guard;
mod handlers;
mod host;
mod mapped;
mod oidc;
mod origin;
mod overrides;
mod refused;
mod rewrite;
mod rewrite_map;
mod site;
mod translate;
mod variant;

pub use touchstone_import_base::apache::{parse, read};
pub use translate::translate;
