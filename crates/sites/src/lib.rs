//! Makes the state that the cores use from a checked configuration: sites with opened roots, and routes with
//! their interfaces.
//!
//! [`site::Snapshot`] is one generation of the configuration. [`route`] applies the routes and access rules
//! of a site; [`forward_auth`] is a server that decides which requests pass, [`login`] has users sign in, and
//! [`answer_policy`] has the fields of answers for browsers. [`interface`] opens the interface of a route,
//! with a module for each kind; [`compression`] and [`accelerator`] are in front of it. [`delivery`]
//! determines how answers are sent, [`substitution`] which texts are replaced in them, and [`logs`] which log
//! they are in. `traced` makes calls of programs spans of a trace. [`streams`] are connections without
//! requests. [`services`] are the programs and origins of a server, which a reload keeps. [`machine`] checks
//! what a configuration needs from the machine, [`shared_libraries`] what a statically linked program cannot
//! serve, and [`archives`] the archives of applications; [`checks`] is all of that. `file_access` is used by
//! checks and interfaces.
//!
//! This crate does not depend on listeners or connections.

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
pub mod htaccess;
pub mod includes;
pub mod interface;
pub mod login;
pub mod logs;
pub mod machine;
mod memory_limit;
pub mod missing_pages;
mod nsapi;
pub mod pieces;
mod plugin_directories;
pub mod programs;
mod proxy;
pub mod python;
pub mod route;
pub mod services;
pub mod servlet;
pub mod shared_libraries;
pub mod site;
pub mod site_tls;
mod stream_logs;
pub mod streams;
pub mod substitution;
mod traced;
pub mod unusable;
pub mod wasm;
mod webdav;
