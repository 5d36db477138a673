//! Names of files that a site does not serve unless it is configured to.

use crate::site::Site;

/// Whether a name begins with a dot; such files are for the operator. RFC 8615 makes one exception.
fn is_hidden(path: &[u8]) -> bool {
    let path = path.strip_prefix(b"/.well-known/").unwrap_or(path);
    path.split(|&byte| byte == b'/').any(|segment| segment.starts_with(b"."))
}

/// Whether the site does not serve files with such a name.
pub fn is_refused_name(site: &Site, path: &[u8]) -> bool {
    !site.config.hidden_files && is_hidden(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_names() {
        for (path, hidden) in [
            ("/a/b.html", false),
            ("/.git/config", true),
            ("/a/.htpasswd", true),
            ("/.well-known/acme", false),
            ("/.well-known/.x", true),
            ("/a/.well-known/x", true),
        ] {
            assert_eq!(is_hidden(path.as_bytes()), hidden, "{path}");
        }
    }
}
