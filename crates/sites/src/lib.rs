//! From a checked configuration to what the cores use of it: sites with their roots opened, and routes with
//! their interfaces.
//!
//! [`site::Snapshot`] is one generation of the configuration. [`route`] applies the routes and access rules
//! of a site; [`forward_auth`] is a server that decides, [`login`] asks users to sign in, and
//! [`answer_policy`] is what answers say to browsers.
//! [`interface`] opens the interface of a route, with a module for each kind; [`compression`] and
//! [`accelerator`] stand before it. [`delivery`] is how answers are sent, [`substitution`] what is replaced
//! in them, and [`logs`] those of sites and routes. `traced` makes calls of programs spans of a trace.
//! [`streams`] carry no requests. [`machine`] checks what a configuration needs from the machine,
//! [`shared_libraries`] what a statically linked program cannot serve, and [`archives`] what applications are
//! packed in; [`checks`] is all of that. [`services`] are the programs and origins of a server, over reloads. `file_access` has what checks and interfaces share.
//!
//! Nothing here knows listeners or connections.

pub mod accelerator;
pub mod answer_policy;
pub mod archives;
mod cgi;
mod changed_answer;
pub mod checks;
pub mod compression;
mod cors;
pub mod crawlers;
pub mod delivery;
mod file_access;
pub mod forward_auth;
pub mod hidden_names;
mod htaccess;
pub mod includes;
pub mod interface;
pub mod login;
pub mod logs;
pub mod machine;
mod memory_limit;
mod nsapi;
pub mod pieces;
mod places;
pub mod programs;
mod proxy;
pub mod python;
pub mod route;
pub mod services;
pub mod servlet;
pub mod shared_libraries;
pub mod site;
pub mod site_tls;
pub mod streams;
pub mod substitution;
mod traced;
pub mod unusable;
mod wasm;
mod webdav;
