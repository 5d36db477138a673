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
    const LOGS: &str = "use access_log";
    const CACHE: &str = "use the section [cache]";
    const THREADS: &str = "use the keys of the route for threads";
    const ACCESS: &str = "use allow, deny and basic_authentication";
    const SERVLETS: &str = "use a separate route with servlet";
    const REPLACED: [(&str, &str); 27] = [
        ("flex-init", LOGS),
        ("init-clf", LOGS),
        ("cache-init", CACHE),
        ("accel-cache-init", CACHE),
        ("nsapi-cache-init", CACHE),
        ("time-cache-init", CACHE),
        ("dns-cache-init", CACHE),
        ("thread-pool-init", THREADS),
        ("pool-init", "the memory of requests is always pooled"),
        ("perf-init", "the lab measures"),
        ("define-perf-bucket", "the lab measures"),
        ("stats-init", "the lab measures"),
        ("init-cgi", "use cgi of a route"),
        ("init-uhome", "unix-home uses the users of the system"),
        ("shtml-init", "use includes of the site"),
        ("cindex-init", "use directory_listing"),
        ("load-types", "its files are read at the start"),
        ("dbm-userdb", ACCESS),
        ("cert2user", ACCESS),
        ("acl-register-module", ACCESS),
        ("NSServletEarlyInit", SERVLETS),
        ("NSServletLateInit", SERVLETS),
        ("init-j2ee", SERVLETS),
        ("init-filter-order", "filters are not supported"),
        ("register-http-method", "all methods are allowed"),
        ("init-request-limits", "use rate_limit"),
        ("qos-handler", "use rate_limit"),
    ];
    let name = name.replace('_', "-");
    REPLACED.iter().find(|(known, _)| *known == name).map(|(_, instead)| *instead)
}

/// Functions of directives without effect, each with how Touchstone does this work; an error if ignoring the
/// directive would be wrong.
pub fn directive_without_effect(name: &str, parameters: &Parameters) -> Result<Option<&'static str>, String> {
    let name = name.replace('_', "-");
    let refused = |instead: &str| Err(format!("{name} is not supported: {instead}"));
    Ok(Some(match name.as_str() {
        "flex-log" | "common-log" | "record-useragent" | "record-keysize" => "use access_log",
        "qos-handler" | "qos-error" | "check-request-limits" => "use rate_limit",
        "match-browser" | "image-switch" | "html-switch" | "append-trailer" | "detect-vulnerable"
        | "mozilla-redirect" | "ssl-logout" => "it has no effect",
        "service-dump" | "service-nsfc-dump" | "stats-xml" => "use the admin listener",
        "NSServletNameTrans" | "NSServletService" | "ntrans-j2ee" | "service-j2ee" | "find-index-j2ee"
        | "type-j2ee" | "error-j2ee" => "use a separate route with servlet",
        "service-trace" => "TRACE is always refused, because its answer can contain secrets",
        "ntrans-dav" | "pcheck-dav" | "service-dav" | "type-dav" => "use a separate route with webdav",
        "get-sslid" => "TLS sessions have no identifier for plug-ins",
        "find-compressed" => "use compression of the site",
        "check-acl" if matches!(parameter(parameters, "acl"), Some(b"default" | b"es-internal")) => {
            "use allow and deny of the site"
        }
        "check-acl" | "load-config" => {
            return refused(
                "without it the server would send what it protects. Use allow, deny and \
                basic_authentication of a route, and remove the line",
            );
        }
        "basic-auth" if parameter(parameters, "userfn").is_some() => return Ok(None),
        "basic-auth" | "basic-ncsa" | "set-basic-auth" | "user2name" => {
            return refused(
                "use basic_authentication of the site or its routes; plug-ins find the user in \
                auth-user. Remove the line",
            );
        }
        "map" | "reverse-map" | "regexp-map" | "regexp-redirect" | "service-http" | "proxy-retrieve"
        | "set-origin-server" => {
            return refused("use proxy, redirect or rewrite of a route, and remove the line");
        }
        "upload-file" | "delete-file" | "list-dir" | "make-dir" | "remove-dir" | "rename-file" => {
            return refused("requests cannot change files. Remove the line");
        }
        _ => return Ok(None),
    }))
}

/// Whether a function of a directive is refused, even if a plug-in provides one.
pub fn is_refused(name: &str, parameters: &Parameters) -> bool {
    directive_without_effect(name, parameters).is_err()
}
