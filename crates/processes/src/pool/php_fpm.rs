//! The configuration file of a php-fpm that the server runs: one pool, on an inherited socket.

use std::fmt::Write;
use std::path::Path;

use super::spec::PoolSpec;

/// The text of the file. `listen` is the name by which php-fpm finds the socket that it inherits.
pub fn configuration(
    spec: &PoolSpec,
    listen: &Path,
    suffixes: &[String],
    settings: &[(String, String)],
    requests_per_process: u64,
) -> String {
    let mut text = format!(
        "; Written by Touchstone for the php-fpm that it runs.\n\
         [global]\n\
         error_log = /proc/self/fd/2\n\
         log_level = warning\n\
         daemonize = no\n\
         [touchstone]\n\
         listen = {listen}\n\
         listen.backlog = 4096\n\
         pm = static\n\
         pm.max_children = {processes}\n\
         pm.max_requests = {requests_per_process}\n\
         catch_workers_output = yes\n\
         decorate_workers_output = no\n\
         clear_env = yes\n\
         security.limit_extensions = {suffixes}\n",
        listen = listen.display(),
        processes = spec.processes,
        suffixes = suffixes.join(" "),
    );
    // Writing to a string cannot fail.
    if let Some(user) = &spec.user {
        let _ = writeln!(text, "user = {}\ngroup = {}", user.user, user.group);
    }
    if let Some(directory) = &spec.directory {
        let _ = writeln!(text, "chdir = {}", directory.display());
    }
    if let Some(open_files) = spec.limits.open_files {
        let _ = writeln!(text, "rlimit_files = {open_files}");
    }
    for (name, value) in &spec.environment {
        let _ = writeln!(text, "env[{name}] = {}", quoted(value));
    }
    for (name, value) in settings {
        let _ = writeln!(text, "php_admin_value[{name}] = {}", quoted(value));
    }
    text
}

/// Checks whether a name and a value are valid in the file.
///
/// # Errors
/// Why they are not valid.
pub fn check_setting(name: &str, value: &str) -> Result<(), String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(format!("{name:?} is not the name of a setting, such as memory_limit"));
    }
    if value.bytes().any(|byte| byte < b' ' || matches!(byte, b'"' | b'\\' | b'$')) {
        return Err(format!("the value of {name} may hold no quotes, backslashes, dollars or control bytes"));
    }
    Ok(())
}

/// A quoted value of PHP's configuration files: unquoted words can have a meaning (`yes`, `none`).
fn quoted(value: &str) -> String {
    format!("\"{value}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_cannot_become_others() {
        assert_eq!(check_setting("memory_limit", "256M"), Ok(()));
        assert_eq!(check_setting("session.save_path", "/var/lib/php sessions"), Ok(()));
        for (name, value) in [
            ("", "1"),
            ("a]b", "1"),
            ("a b", "1"),
            ("a", "1\nuser = root"),
            ("a", "\""),
            ("a", "${HOME}"),
            ("a", "\\"),
        ] {
            assert!(check_setting(name, value).is_err(), "{name:?} = {value:?}");
        }
    }
}
