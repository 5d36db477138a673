//! Directives that have the same translation, or none, at every place.

use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::output::Section;

/// Directives that need no counterpart, with the reason.
const UNNEEDED: &[(&str, &[&str])] = &[
    (
        "the server does this by itself",
        &[
            "events",
            "worker_connections",
            "multi_accept",
            "use",
            "sendfile",
            "tcp_nopush",
            "tcp_nodelay",
            "aio",
            "directio",
            "output_buffers",
            "types_hash_max_size",
            "types_hash_bucket_size",
            "server_names_hash_bucket_size",
            "server_names_hash_max_size",
            "variables_hash_max_size",
            "map_hash_bucket_size",
            "open_file_cache",
            "open_file_cache_valid",
            "open_file_cache_min_uses",
            "open_file_cache_errors",
            "worker_rlimit_nofile",
            "worker_cpu_affinity",
            "load_module",
            "pid",
            "lock_file",
            "daemon",
            "master_process",
            "client_body_temp_path",
            "proxy_temp_path",
            "fastcgi_temp_path",
            "client_body_buffer_size",
            "client_header_buffer_size",
            "connection_pool_size",
            "request_pool_size",
            "reset_timedout_connection",
            "absolute_redirect",
            "port_in_redirect",
            "server_name_in_redirect",
            "server_tokens",
            "merge_slashes",
        ],
    ),
    (
        "bodies are streamed and not buffered in files",
        &[
            "proxy_buffering",
            "proxy_buffers",
            "proxy_buffer_size",
            "proxy_busy_buffers_size",
            "proxy_request_buffering",
            "proxy_max_temp_file_size",
            "fastcgi_max_temp_file_size",
            "proxy_temp_file_write_size",
            "fastcgi_buffering",
            "fastcgi_buffers",
            "fastcgi_buffer_size",
            "fastcgi_busy_buffers_size",
            "fastcgi_request_buffering",
            "client_body_in_file_only",
        ],
    ),
    (
        "files and answers are compressed unless 'compression' says otherwise",
        &[
            "gzip",
            "gzip_vary",
            "gzip_proxied",
            "gzip_comp_level",
            "gzip_buffers",
            "gzip_http_version",
            "gzip_types",
            "gzip_min_length",
            "gzip_disable",
            "gzip_static",
            "brotli",
            "brotli_comp_level",
            "brotli_types",
            "brotli_static",
        ],
    ),
    (
        "the TLS suites are safe, and ticket keys rotate automatically",
        &[
            "ssl_session_cache",
            "ssl_session_timeout",
            "ssl_session_tickets",
            "ssl_ciphers",
            "ssl_prefer_server_ciphers",
            "ssl_dhparam",
            "ssl_ecdh_curve",
            "ssl_conf_command",
            "ssl_buffer_size",
            "ssl",
            "http2",
            "http3",
            "ssl_early_data",
            "ssl_verify_depth",
        ],
    ),
    (
        "connections to origins are kept open, and names are resolved again regularly",
        &[
            "proxy_http_version",
            "keepalive",
            "zone",
            "resolver",
            "resolver_timeout",
            "proxy_socket_keepalive",
            "proxy_ssl_server_name",
        ],
    ),
    ("media types follow from file suffixes", &["types", "default_type"]),
    ("a missing file is not logged as an error", &["log_not_found"]),
    ("each rewrite is a route of its own", &["break"]),
    ("the server sets these variables", &["fastcgi_index", "fastcgi_split_path_info", "fastcgi_keep_conn"]),
];

/// Files that distributions include, and that set only what programs and origins get by default.
const COMMON_INCLUDES: [&str; 7] = [
    "mime.types",
    "uwsgi_params",
    "fastcgi_params",
    "fastcgi.conf",
    "fastcgi-php.conf",
    "proxy_params",
    "scgi_params",
];

/// Handles a directive that has the same translation, or none, at every place.
pub fn common(directive: &Directive, section: &mut Section, account: &mut Account) {
    let name = directive.name.as_str();
    if let Some((why, _)) = UNNEEDED.iter().find(|(_, names)| names.contains(&name)) {
        return account.unneeded(directive, section, why);
    }
    let advice = match name {
        "include" => {
            let file = directive.argument(0).rsplit('/').next().unwrap_or_default();
            if COMMON_INCLUDES.contains(&file) {
                let why = "the server sets these variables and fields, and knows media types";
                return account.unneeded(directive, section, why);
            }
            "the file is missing; import again on the machine that has it"
        }
        "map" if directive.argument(0) == "$http_upgrade" => {
            return account.unneeded(directive, section, "WebSocket passes");
        }
        "map" | "geo" | "split_clients" => {
            "it has no counterpart; write a [[map]] (docs/expressions.md) or a route for each value"
        }
        "valid_referers" => {
            return account.unneeded(directive, section, "its names are in the condition on 'Referer'");
        }
        "limit_conn_zone" | "limit_conn" => "see 'connections_per_client' of [limits]",
        "proxy_cache_path" | "fastcgi_cache_path" | "uwsgi_cache_path" | "scgi_cache_path" => {
            let why = "answers are kept in memory; 'disk' of [accelerator] keeps copies of them";
            return account.unneeded(directive, section, why);
        }
        "ssl_stapling" | "ssl_stapling_verify" | "ssl_trusted_certificate" => {
            "OCSP responses are not stapled"
        }
        "limit_except" => "all requests are refused until you write a route with 'methods' before this one",
        "auth_jwt" => "all requests are refused until you write 'jwt' (docs/access.md)",
        name if name.starts_with("auth_") || name.starts_with("access_by_lua") => {
            "all requests of its place are refused until you write 'basic_authentication' or another rule \
             (docs/access.md)"
        }
        "if" | "set" => "write conditions as routes with 'when', 'methods' and 'pattern' (docs/routes.md)",
        "ssi" | "ssi_types" => "see 'includes' of a site or route (docs/includes.md)",
        "proxy_cookie_flags" => "the application sets the flags of its cookies",
        _ => "it has no counterpart, or this command does not know it",
    };
    account.problem(directive, section, advice);
}
