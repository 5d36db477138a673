//! The server from the outside: its start and end, files, access, logs, certificates, packages.
//!
//! One program for all of them: a new file is a module here, and takes what it needs from `crate::support`.
//! `cargo test -p touchstone --test serve NAME` runs the tests whose path contains NAME.

#[path = "../support/mod.rs"]
mod support;

mod acme;
mod admin;
mod connections;
mod content;
mod control;
mod control_api;
mod crawlers;
mod delivery;
mod dictionaries;
mod files;
mod first_minutes;
mod forward_auth;
mod geoip;
mod http2_waits;
#[allow(dead_code, reason = "the tests of HTTP/3 use all of it")]
#[path = "../protocols/http3/client.rs"]
mod http3_client;
mod https;
mod idle;
mod import_applications;
mod import_caddy;
mod import_conditions;
mod import_fronts;
mod import_nginx;
mod import_protections;
mod import_published;
mod import_refusals;
mod import_servers;
mod killing;
mod login;
mod logs;
mod own_files;
mod packaging;
mod privileges;
mod route_files;
mod satisfy;
mod scarcity;
mod signals;
mod site_logs;
mod site_rules;
mod start;
mod static_program;
mod streams;
mod systemd;
mod telemetry;
mod tokens;
mod unix_sockets;
mod upgrade;
mod variables;
mod webdav;
mod without_files;
