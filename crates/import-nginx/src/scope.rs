//! Scopes: the directive that applies at a place is that of the innermost block that has one of its name.

use touchstone_import_base::directive::Directive;

/// Directives that servers and locations inherit from the enclosing blocks.
pub const INHERITED: [&str; 44] = [
    "satisfy",
    "auth_request",
    "auth_request_set",
    "fastcgi_hide_header",
    "uwsgi_hide_header",
    "scgi_hide_header",
    "limit_rate",
    "limit_rate_after",
    "limit_req",
    "limit_req_status",
    "sub_filter",
    "sub_filter_once",
    "sub_filter_types",
    "sub_filter_last_modified",
    "secure_link",
    "secure_link_md5",
    "root",
    "index",
    "autoindex",
    "charset",
    "add_header",
    "expires",
    "error_page",
    "allow",
    "deny",
    "auth_basic",
    "auth_basic_user_file",
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_protocols",
    "proxy_set_header",
    "proxy_read_timeout",
    "proxy_connect_timeout",
    "proxy_send_timeout",
    "fastcgi_param",
    "uwsgi_param",
    "uwsgi_read_timeout",
    "proxy_redirect",
    "proxy_cookie_path",
    "proxy_cookie_domain",
    "proxy_intercept_errors",
    "fastcgi_intercept_errors",
    "uwsgi_intercept_errors",
    "proxy_hide_header",
];

/// A block, and the blocks around it.
#[derive(Debug, Clone)]
pub struct Scope<'d> {
    /// From the outermost to the innermost.
    blocks: Vec<&'d [Directive]>,
}

impl<'d> Scope<'d> {
    /// The scope of the outermost block.
    pub fn new(block: &'d [Directive]) -> Scope<'d> {
        Scope { blocks: vec![block] }
    }

    /// The scope of a block nested in this one.
    pub fn within(&self, block: &'d [Directive]) -> Scope<'d> {
        let mut blocks = self.blocks.clone();
        blocks.push(block);
        Scope { blocks }
    }

    /// The directives of the innermost block that has any of this name.
    pub fn all(&self, name: &str) -> Vec<&'d Directive> {
        let named_in = |block: &&'d [Directive]| -> Vec<&'d Directive> {
            block.iter().filter(|directive| directive.name == name).collect()
        };
        self.blocks.iter().rev().map(named_in).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The `allow` and `deny` of the innermost block that has any, in their order.
    pub fn clients(&self) -> Vec<&'d Directive> {
        let access_rules_of = |block: &&'d [Directive]| -> Vec<&'d Directive> {
            block.iter().filter(|one| matches!(one.name.as_str(), "allow" | "deny")).collect()
        };
        self.blocks.iter().rev().map(access_rules_of).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The servers of the `upstream` of this name.
    pub fn upstream(&self, name: &str) -> Option<Vec<&'d Directive>> {
        let block = self.all("upstream").into_iter().find(|upstream| upstream.argument(0) == name)?;
        Some(block.inside().iter().filter(|directive| directive.name == "server").collect())
    }

    /// The innermost block.
    pub fn innermost(&self) -> &'d [Directive] {
        self.blocks.last().copied().unwrap_or_default()
    }

    /// The block around the innermost.
    pub fn around(&self) -> &'d [Directive] {
        self.blocks.iter().rev().nth(1).copied().unwrap_or_default()
    }

    /// The last of these, which is the one that applies.
    pub fn one(&self, name: &str) -> Option<&'d Directive> {
        self.all(name).pop()
    }
}

/// What a location inherits from the location around it, besides [`INHERITED`].
const OF_LOCATIONS: [&str; 6] =
    ["alias", "autoindex", "access_log", "error_log", "client_max_body_size", "proxy_http_version"];

/// The directives of a location that one nested in it inherits: those that it has none of itself.
pub fn inherited(outer: &[Directive], inner: &[Directive]) -> Vec<Directive> {
    let has = |name: &str| inner.iter().any(|directive| directive.name == name);
    let is_inherited = |name: &str| INHERITED.contains(&name) || OF_LOCATIONS.contains(&name);
    // The block's own directory replaces one of either kind, and so do rules for clients.
    let replaced = |name: &str| match name {
        "root" | "alias" => has("root") || has("alias"),
        "allow" | "deny" => has("allow") || has("deny"),
        name => has(name),
    };
    let inherited =
        outer.iter().filter(|directive| is_inherited(&directive.name) && !replaced(&directive.name));
    inherited.cloned().collect()
}

/// Whether the directives of a location refuse all clients.
pub fn refuses_all(block: &[Directive]) -> bool {
    let refuses = |one: &Directive| match one.name.as_str() {
        "deny" => one.argument(0) == "all",
        "return" => one.argument(0).starts_with('4'),
        "internal" => true,
        _ => false,
    };
    let is_open = block.iter().any(|one| matches!(one.name.as_str(), "allow" | "satisfy"));
    !is_open && block.iter().any(refuses)
}
