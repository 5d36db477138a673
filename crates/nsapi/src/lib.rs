//! NSAPI: plug-ins of the Netscape, iPlanet and Sun web servers, with their obj.conf and magnus.conf.
//!
//! A plug-in is a shared library in C. It reaches the server through three tables of functions (`slots`) and
//! through structures that it reads and writes itself (`abi`). Most modules implement what C code sees:
//! parameter blocks (`pblock`), memory of requests (`memory`), handles (`handle`) and the functions of the
//! tables (`api`).
//!
//! `engine` is a running configuration; `plugin_request` is one request, which `pipeline` takes through the
//! stages. `connection` is the interface to the server, and [`host`] implements it for the server's handlers:
//! functions run on the core if they may, otherwise on workers or in a child process.
#![allow(
    unsafe_op_in_unsafe_fn,
    clippy::missing_safety_doc,
    clippy::mut_from_ref,
    reason = "functions of the interface are unsafe as a whole: their contract is that of nsapi.h, see `api`"
)]

mod abi;
mod api;
mod breadcrumb;
mod builtin;
pub mod conf;
mod connection;
mod crash;
mod directive;
mod ending;
mod engine;
mod functions;
mod handle;
pub mod host;
mod memory;
pub mod pattern;
mod pblock;
mod pipeline;
mod plugin;
mod plugin_request;
mod slots;

pub use engine::{Settings, directories};

/// Checks the settings, without calling a function of a plug-in.
pub fn check(settings: &Settings) -> Vec<String> {
    slots::install();
    engine::check(settings)
}
