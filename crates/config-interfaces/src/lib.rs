//! The keys of the interfaces: the settings of the programs, applications and origins that answer a route's
//! requests.
//!
//! Each module has the struct of a section, and the section with its keys. The route that contains these
//! sections is in `touchstone-config`.
//!
//! | module | |
//! |---|---|
//! | `cgi` | `cgi` |
//! | `programs` | `fastcgi`, `scgi`, `uwsgi`, `php` and `ajp` |
//! | `proxy` | `proxy` and its tables |
//! | `servlet` | `servlet`, and `[java]` |
//! | `python`, `wasm`, `nsapi` | `python`; `wasm` and `middleware`; `nsapi` |
//! | `includes` | `includes`: pages with directives |

pub mod cgi;
pub mod includes;
pub mod nsapi;
pub mod programs;
pub mod proxy;
pub mod python;
pub mod servlet;
pub mod wasm;
