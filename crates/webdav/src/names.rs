//! Names that are hidden from clients, and names that they may not write.

/// The beginning of the names of what is not complete yet, or no longer there.
pub const TEMPORARY_PREFIX: &str = ".touchstone-";

/// Names with a meaning for this or another server, in lower case; also names that begin with one of them.
const PROTECTED: [&str; 4] = [".ht", ".touchstone-", ".user.ini", ".nsconfig"];

/// Whether a path is hidden: a name in it begins with a dot, except `/.well-known/` (RFC 8615), as for files.
pub fn is_hidden(path: &[u8], hidden_files: bool) -> bool {
    let after = path.strip_prefix(b"/.well-known/").unwrap_or(path);
    after.split(|&byte| byte == b'/').any(|name| is_hidden_name(name, hidden_files))
}

/// Whether a name is hidden.
pub fn is_hidden_name(name: &[u8], hidden_files: bool) -> bool {
    let is_temporary = name.starts_with(TEMPORARY_PREFIX.as_bytes());
    is_temporary || !hidden_files && name.starts_with(b".")
}

/// Whether no client may create, change or remove a resource at this path: it is hidden, has a name of a
/// server's configuration file, or is below `/.well-known/`, where authorities of certificates check proofs.
pub fn is_protected(path: &[u8], hidden_files: bool) -> bool {
    let is_well_known = path == b"/.well-known" || path.starts_with(b"/.well-known/");
    is_hidden(path, hidden_files)
        || is_well_known && !hidden_files
        || path.split(|&byte| byte == b'/').any(is_protected_name)
}

fn is_protected_name(name: &[u8]) -> bool {
    let begins =
        |begin: &&str| name.get(..begin.len()).is_some_and(|own| own.eq_ignore_ascii_case(begin.as_bytes()));
    PROTECTED.iter().any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_servers_cannot_be_written() {
        for (path, hidden_files, expected) in [
            (&b"/a/b.txt"[..], false, false),
            (b"/a/.git/config", false, true),
            (b"/a/.git/config", true, false),
            (b"/a/.htaccess", true, true),
            (b"/a/.HtAccess", true, true),
            (b"/.htpasswd/x", true, true),
            (b"/a/.user.ini", true, true),
            (b"/a/.touchstone-upload-1", true, true),
            (b"/.well-known/acme-challenge/x", false, true),
            (b"/.well-known", false, true),
            (b"/.well-known/x", true, false),
        ] {
            assert_eq!(is_protected(path, hidden_files), expected, "{}", path.escape_ascii());
        }
    }

    #[test]
    fn what_is_not_complete_is_hidden_always() {
        assert!(is_hidden(b"/a/.touchstone-copy-1/x", true));
        assert!(!is_hidden(b"/.well-known/x", false));
    }
}
