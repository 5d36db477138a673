//! The functions of obj.conf that the server itself provides.
//!
//! Functions for things that Touchstone does in another way (logs, caches, threads) are accepted without
//! effect. If ignoring a function would allow access that the configuration denies (access control lists,
//! passwords), it is refused when the configuration is read.

pub mod auth;
pub mod error;
pub mod imagemap;
pub mod name_trans;
pub mod object_type;
pub mod path_check;
pub mod service;
pub mod variable;

use crate::abi::FuncPtr;
use crate::conf::{Parameters, parameter};
use crate::functions::AllowedThreads;

/// The functions by their names.
pub const FUNCTIONS: &[(&str, FuncPtr, AllowedThreads)] = &[
    ("basic-auth", auth::basic_auth, AllowedThreads::OnWorker),
    ("document-root", name_trans::document_root, AllowedThreads::Anywhere),
    ("pfx2dir", name_trans::pfx2dir, AllowedThreads::Anywhere),
    ("assign-name", name_trans::assign_name, AllowedThreads::Anywhere),
    ("redirect", name_trans::redirect, AllowedThreads::Anywhere),
    ("home-page", name_trans::home_page, AllowedThreads::Anywhere),
    ("strip-params", name_trans::strip_params, AllowedThreads::Anywhere),
    ("unix-home", name_trans::unix_home, AllowedThreads::OnWorker),
    ("unix-uri-clean", path_check::uri_clean, AllowedThreads::Anywhere),
    ("uri-clean", path_check::uri_clean, AllowedThreads::Anywhere),
    ("nt-uri-clean", path_check::uri_clean, AllowedThreads::Anywhere),
    ("find-pathinfo", path_check::find_pathinfo, AllowedThreads::Anywhere),
    ("find-index", path_check::find_index, AllowedThreads::Anywhere),
    ("find-links", path_check::find_links, AllowedThreads::Anywhere),
    ("require-auth", path_check::require_auth, AllowedThreads::Anywhere),
    ("deny-existence", path_check::deny_existence, AllowedThreads::Anywhere),
    ("ssl-check", path_check::ssl_check, AllowedThreads::Anywhere),
    ("get-client-cert", path_check::get_client_cert, AllowedThreads::Anywhere),
    ("set-cache-control", path_check::set_cache_control, AllowedThreads::Anywhere),
    ("type-by-extension", object_type::type_by_extension, AllowedThreads::Anywhere),
    ("force-type", object_type::force_type, AllowedThreads::Anywhere),
    ("set-default-type", object_type::force_type, AllowedThreads::Anywhere),
    ("change-type", object_type::change_type, AllowedThreads::Anywhere),
    ("type-by-exp", object_type::type_by_exp, AllowedThreads::Anywhere),
    ("shtml-hacktype", object_type::shtml_hacktype, AllowedThreads::Anywhere),
    ("set-cookie", object_type::set_cookie, AllowedThreads::Anywhere),
    ("send-file", service::send_file, AllowedThreads::Asks(service::is_small_file)),
    ("send-range", service::send_file, AllowedThreads::Asks(service::is_small_file)),
    ("send-cgi", service::send_cgi, AllowedThreads::Delegates),
    ("parse-html", service::parse_html, AllowedThreads::Delegates),
    ("shtml-send", service::parse_html, AllowedThreads::Delegates),
    ("index-common", service::index, AllowedThreads::Delegates),
    ("index-simple", service::index, AllowedThreads::Delegates),
    ("imagemap", imagemap::imagemap, AllowedThreads::OnWorker),
    ("query-handler", service::query_handler, AllowedThreads::Delegates),
    ("service-toobusy", service::too_busy, AllowedThreads::Anywhere),
    ("key-toosmall", service::key_too_small, AllowedThreads::Anywhere),
    ("rewrite", name_trans::rewrite, AllowedThreads::Anywhere),
    ("restart", name_trans::restart, AllowedThreads::Anywhere),
    ("set-variable", variable::set_variable, AllowedThreads::Anywhere),
    ("set-virtual-index", path_check::set_virtual_index, AllowedThreads::Anywhere),
    ("send-error", error::send_error, AllowedThreads::Anywhere),
];

/// Init functions without effect, each with how Touchstone does this work.
pub fn init_without_effect(name: &str) -> Option<&'static str> {
    const LOGS: &str = "access_log says what is logged";
    const CACHE: &str = "the section cache says what is kept";
    const THREADS: &str = "the route says how many threads there are";
    const ACCESS: &str = "allow, deny and basic_authentication say who is let in";
    const SERVLETS: &str = "servlets are for a route of their own";
    const ELSEWHERE: [(&str, &str); 27] = [
        ("flex-init", LOGS),
        ("init-clf", LOGS),
        ("cache-init", CACHE),
        ("accel-cache-init", CACHE),
        ("nsapi-cache-init", CACHE),
        ("time-cache-init", CACHE),
        ("dns-cache-init", CACHE),
        ("thread-pool-init", THREADS),
        ("pool-init", "memory of requests is always pooled"),
        ("perf-init", "the lab measures"),
        ("define-perf-bucket", "the lab measures"),
        ("stats-init", "the lab measures"),
        ("init-cgi", "cgi of a route says how programs run"),
        ("init-uhome", "unix-home reads the system's users"),
        ("shtml-init", "the site says which pages are parsed"),
        ("cindex-init", "directory_listing says how directories are shown"),
        ("load-types", "its files have been read"),
        ("dbm-userdb", ACCESS),
        ("cert2user", ACCESS),
        ("acl-register-module", ACCESS),
        ("NSServletEarlyInit", SERVLETS),
        ("NSServletLateInit", SERVLETS),
        ("init-j2ee", SERVLETS),
        ("init-filter-order", "there are no filters"),
        ("register-http-method", "every method is let through"),
        ("init-request-limits", "rate_limit says how much a client may ask for"),
        ("qos-handler", "rate_limit says how much a client may ask for"),
    ];
    let name = name.replace('_', "-");
    ELSEWHERE.iter().find(|(known, _)| *known == name).map(|(_, instead)| *instead)
}

/// Functions of directives without effect, each with how Touchstone does this work; an error if ignoring the
/// directive would be wrong.
pub fn directive_without_effect(name: &str, parameters: &Parameters) -> Result<Option<&'static str>, String> {
    let name = name.replace('_', "-");
    let refused = |instead: &str| Err(format!("{name} is not supported: {instead}"));
    Ok(Some(match name.as_str() {
        "flex-log" | "common-log" | "record-useragent" | "record-keysize" => "access_log says what is logged",
        "qos-handler" | "qos-error" | "check-request-limits" => {
            "rate_limit says how much a client may ask for"
        }
        "match-browser" | "image-switch" | "html-switch" | "append-trailer" | "detect-vulnerable"
        | "mozilla-redirect" | "ssl-logout" => "it makes no difference any more",
        "service-dump" | "service-nsfc-dump" | "stats-xml" => "the admin listener shows what the server does",
        "NSServletNameTrans" | "NSServletService" | "ntrans-j2ee" | "service-j2ee" | "find-index-j2ee"
        | "type-j2ee" | "error-j2ee" => "servlets are for a route of their own",
        "service-trace" => "TRACE shows a client what it must not see, and is refused",
        "ntrans-dav" | "pcheck-dav" | "service-dav" | "type-dav" => "there is no WebDAV",
        "get-sslid" => "TLS sessions have no number to ask for",
        "find-compressed" => "compression of the site does it",
        "check-acl" if matches!(parameter(parameters, "acl"), Some(b"default" | b"es-internal")) => {
            "allow and deny of the site say who is let in"
        }
        "check-acl" | "load-config" => {
            return refused(
                "without it the server would give out what it protects. Say who is let in with allow, deny \
                and basic_authentication of a route, and take the line out",
            );
        }
        "basic-auth" if parameter(parameters, "userfn").is_some() => return Ok(None),
        "basic-auth" | "basic-ncsa" | "set-basic-auth" | "user2name" => {
            return refused(
                "basic_authentication of the site or its routes asks for passwords; plug-ins find the user \
                in auth-user. Take the line out",
            );
        }
        "map" | "reverse-map" | "regexp-map" | "regexp-redirect" | "service-http" | "proxy-retrieve"
        | "set-origin-server" => {
            return refused("proxy, redirect and rewrite of a route do that. Take the line out");
        }
        "upload-file" | "delete-file" | "list-dir" | "make-dir" | "remove-dir" | "rename-file" => {
            return refused("files are not changed by requests. Take the line out");
        }
        _ => return Ok(None),
    }))
}

/// Whether a function of a directive is refused, even if a plug-in provides one.
pub fn is_refused(name: &str, parameters: &Parameters) -> bool {
    directive_without_effect(name, parameters).is_err()
}
