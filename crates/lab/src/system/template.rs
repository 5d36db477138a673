//! Templates of commands and configuration files: text with `{placeholders}`.
//!
//! Only braces around lower-case letters and underscores are placeholders, so that the braces of configuration
//! languages stand as they are.

use std::path::Path;

/// The placeholders that there are.
pub(super) const PLACEHOLDERS: [&str; 6] =
    ["executable", "root", "directory", "port", "cores", "mean_body_bytes"];

/// What stands for the placeholders.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// The executable that was found.
    pub executable: &'a Path,
    /// The tree to serve.
    pub root: &'a Path,
    /// The system's own directory: its configuration, its output, its temporary files.
    pub directory: &'a Path,
    /// The port to listen on.
    pub port: u16,
    /// How many processors it is given.
    pub cores: usize,
    /// The workload's mean body, rounded.
    pub mean_body_bytes: u64,
}

impl Values<'_> {
    /// The text with every placeholder replaced.
    pub(super) fn fill(&self, template: &str) -> String {
        let mut filled = String::with_capacity(template.len() + 64);
        let mut rest = template;
        while let Some((before, name, after)) = next_placeholder(rest) {
            filled.push_str(before);
            match self.value(name) {
                Some(value) => filled.push_str(&value),
                None => filled.push_str(&format!("{{{name}}}")),
            }
            rest = after;
        }
        filled.push_str(rest);
        filled
    }

    fn value(&self, name: &str) -> Option<String> {
        Some(match name {
            "executable" => self.executable.display().to_string(),
            "root" => self.root.display().to_string(),
            "directory" => self.directory.display().to_string(),
            "port" => self.port.to_string(),
            "cores" => self.cores.to_string(),
            "mean_body_bytes" => self.mean_body_bytes.to_string(),
            _ => return None,
        })
    }
}

/// The first placeholder that is not known, if any.
pub(super) fn unknown_placeholder(template: &str) -> Option<&str> {
    let mut rest = template;
    while let Some((_, name, after)) = next_placeholder(rest) {
        if !PLACEHOLDERS.contains(&name) {
            return Some(name);
        }
        rest = after;
    }
    None
}

/// The text before the next `{name}`, the name, and the text after it.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(open) = text[from..].find('{').map(|at| from + at) {
        let inside = &text[open + 1..];
        let length = inside.bytes().take_while(|byte| byte.is_ascii_lowercase() || *byte == b'_').count();
        if length > 0 && inside.as_bytes().get(length) == Some(&b'}') {
            return Some((&text[..open], &inside[..length], &inside[length + 1..]));
        }
        from = open + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values() -> Values<'static> {
        Values {
            executable: Path::new("/bin/server"),
            root: Path::new("/tree"),
            directory: Path::new("/results"),
            port: 80,
            cores: 2,
            mean_body_bytes: 8348,
        }
    }

    #[test]
    fn placeholders_are_replaced_and_other_braces_stand() {
        let template = "events { x {cores}; } server {root}:{port} {} { {directory}/{Name} {{port}}";
        assert_eq!(values().fill(template), "events { x 2; } server /tree:80 {} { /results/{Name} {80}");
    }

    #[test]
    fn unknown_placeholders_are_found() {
        assert_eq!(unknown_placeholder("{root} {prot} {port}"), Some("prot"));
        assert_eq!(unknown_placeholder("http { server { listen {port}; } }"), None);
    }

    proptest! {
        #[test]
        fn text_without_braces_is_kept(text in "[^{}]{0,100}") {
            prop_assert_eq!(values().fill(&text), text);
        }

        #[test]
        fn no_template_panics(text in "[{}a-z_é ]{0,60}") {
            let _ = values().fill(&text);
            let _ = unknown_placeholder(&text);
        }
    }
}
