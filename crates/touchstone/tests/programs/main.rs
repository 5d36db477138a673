//! Programs that answer requests: CGI, FastCGI, PHP, AJP, server-parsed HTML, NSAPI, servlets, Python.
//!
//! One program for all of them: a new file is a module here, and takes what it needs from `crate::support`.
//! `cargo test -p touchstone --test programs NAME` runs the tests whose path contains NAME.

#[path = "../support/mod.rs"]
mod support;

mod ajp;
mod cgi;
mod fastcgi;
mod includes;
mod nsapi;
mod php;
mod python;
mod python_applications;
mod servlet;
