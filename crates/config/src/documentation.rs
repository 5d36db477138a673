//! The table of keys written out for people: the page of the book, a complete example, and the help of
//! `touchstone check`.

use std::fmt::Write as _;

use touchstone_config_section::reader::alternatives;
use touchstone_config_section::values::{format_duration, format_size, nearest};
use touchstone_config_section::{ABSENT, KeyDescription, SectionDescription, ValidValues};

use super::keys::sections;

/// The page of the book that documents every key (`docs/configuration.md`).
pub fn documentation_markdown() -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str("\n## All keys\n\n| key | value | default |\n|---|---|---|\n");
    let sections = sections();
    for section in &sections {
        for key in &section.keys {
            let name = format!("{} {}", section.header, key.name);
            let anchor = name.replace(['[', ']', '.'], "").replace(' ', "-");
            let value = value_of(&key.values).replace('|', "\\|");
            let _ = writeln!(page, "| [`{name}`](#{anchor}) | {value} | {} |", default_of(key.default));
        }
    }
    for section in &sections {
        write_section(&mut page, section);
    }
    page.push_str("\n## A complete example\n\nEvery key, with a value that makes sense.\n\n```toml\n");
    page.push_str(&complete_example());
    page.push_str("```\n");
    page
}

/// A configuration with every key, each after a comment that describes it.
pub fn complete_example() -> String {
    let mut example = String::new();
    for section in sections() {
        if !example.is_empty() {
            example.push('\n');
        }
        let _ = writeln!(example, "{}{}", before_in_example(section.name), section.header);
        for key in section.keys.iter().filter(|key| !key.is_section()) {
            let sign = if stands_with_others(section.name, key.name) { "" } else { "# " };
            let sentence = first_sentence(key.documentation);
            let _ = writeln!(example, "# {sentence}\n{sign}{} = {}", key.name, key.example);
        }
    }
    example
}

/// The documentation as plain text: of every key (`None`), of a section (`limits`), or of the keys of a name
/// (`root`, `site.root`). The error for an unknown name is the text of a refusal.
pub fn explain(name: Option<&str>) -> Result<String, String> {
    let Some(name) = name else {
        let mut text = String::new();
        for section in sections() {
            explain_section(&mut text, &section);
        }
        return Ok(text);
    };
    let wanted = name.replace(['[', ']', ' '], "");
    let mut text = String::new();
    let mut known = Vec::new();
    for section in sections() {
        if section.name == wanted {
            explain_section(&mut text, &section);
        }
        known.push(section.name.to_string());
        for key in &section.keys {
            let full = format!("{}.{}", section.name, key.name);
            if key.name == wanted || full == wanted {
                explain_key(&mut text, &section, key);
            }
            known.push(key.name.to_string());
            known.push(full);
        }
    }
    if text.is_empty() {
        let advice = match nearest(&wanted, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean '{near}'?"),
            None => "without a name, every key is listed".to_string(),
        };
        return Err(format!("unknown key '{name}'; {advice}"));
    }
    Ok(text)
}

const INTRODUCTION: &str = r#"# The configuration

<!-- Generated from crates/config/src/keys.rs. Change it there, then run:
     BLESS=1 cargo test -p touchstone-config configuration_page -->

`touchstone serve --config FILE` reads one file in [TOML](https://toml.io). This is a whole one:

```toml
[[site]]
listen = ["127.0.0.1:8080"]
root = "www"
```

`touchstone check --config FILE` prints every problem of a file as `file:line:column: message`, and exits with
0 if there is none. A server does not start with a file that has a problem. On SIGHUP the server reads the
file again; if the file has a problem, the old configuration stays and the error log says why.

- A **size** is a whole number of bytes, or a string with a unit: `"64KiB"`, `"1MiB"`, `"1GiB"`, `"1TiB"` are
  powers of 1,024; `"64KB"`, `"1MB"`, `"1GB"`, `"1TB"` are powers of 1,000.
- A **duration** is a string with a unit: `"500ms"`, `"10s"`, `"2m"`, `"1h"`.
- A relative **path** is relative to the directory of the configuration file.
- An unknown key or section is refused; the message gives the nearest known name.

## Several files

A line before every section names other files whose sections belong to the configuration:

```toml
include = ["conf.d/*.toml"]

[limits]
body_bytes = "10MiB"

[[site]]
listen = ["127.0.0.1:8080"]
root = "www"
```

- A name is relative to the directory of the file with `include`. Its last part may contain `*` and `?`. The
  files that match a pattern are read in the order of their names. A pattern may match no file, but a file
  named without a pattern must exist.
- The sites of all files form one list, in that order. Every other section may be in one file only. `[server]`
  must be in the first, because `reload`, `status` and `stop` look for the running server there. An included
  file cannot include others.
- A relative path in an included file is relative to the directory of that file.
- A problem names its file. A reload reads all files again, including new ones.
"#;

/// A key as Markdown.
fn write_key(page: &mut String, section: &SectionDescription, key: &KeyDescription) {
    let _ = write!(page, "\n### `{} {}`\n\n{}\n", section.header, key.name, key.documentation);
    let choices = choices_of(key);
    if !choices.is_empty() {
        page.push('\n');
    }
    for (word, meaning) in choices {
        let _ = writeln!(page, "- `\"{word}\"`: {meaning}");
    }
    let (value, default) = (value_of(&key.values), default_of(key.default));
    let (name, example) = (key.name, key.example);
    let _ = writeln!(page, "\nValue: {value}. Default: {default}. Example: `{name} = {example}`");
}

/// A key for a terminal.
fn explain_key(text: &mut String, section: &SectionDescription, key: &KeyDescription) {
    let documentation = wrap(&key.documentation.replace('`', ""), "    ");
    let _ = write!(text, "\n  {} {}\n{documentation}\n", section.header, key.name);
    for (word, meaning) in choices_of(key) {
        let _ = writeln!(text, "      \"{word}\": {meaning}");
    }
    let value = value_of(&key.values).replace('`', "");
    let default = default_of(key.default).replace('`', "");
    let example = format!("{} = {}", key.name, key.example);
    for (what, value) in [("value", value), ("default", default), ("example", example)] {
        let line = format!("    {what}: {value}");
        let _ = match line.chars().count() {
            ..=100 => writeln!(text, "{line}"),
            _ => writeln!(text, "    {what}:\n{}", wrap(&value, "      ")),
        };
    }
}

/// The words that a key takes, and their meanings.
fn choices_of(key: &KeyDescription) -> &[(&'static str, &'static str)] {
    match &key.values {
        ValidValues::Choice(choices) => choices,
        _ => &[],
    }
}

fn write_section(page: &mut String, section: &SectionDescription) {
    let _ = write!(page, "\n## `{}`\n\n{}\n", section.header, section.documentation);
    for key in &section.keys {
        write_key(page, section, key);
    }
}

fn explain_section(text: &mut String, section: &SectionDescription) {
    if !text.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "{}\n{}", section.header, wrap(section.documentation, "  "));
    for key in &section.keys {
        explain_key(text, section, key);
    }
}

/// The description of a value, with code between backquotes.
fn value_of(values: &ValidValues) -> String {
    match values {
        ValidValues::Boolean => "`true` or `false`".to_string(),
        ValidValues::Number { least, most } => format!("whole number, {least} to {most}"),
        ValidValues::NumberOrWord { word, least, most } => {
            format!("whole number, {least} to {most}, or `\"{word}\"`")
        }
        ValidValues::Share => "number, 0 to 1".to_string(),
        ValidValues::Size { least, most } => {
            format!("size, {} to {}", format_size(*least), format_size(*most))
        }
        ValidValues::SizeOrAuto { least, most } => {
            format!("size, {} to {}, or `\"auto\"`", format_size(*least), format_size(*most))
        }
        ValidValues::Duration { least, most } => {
            format!("duration, {} to {}", format_duration(*least), format_duration(*most))
        }
        ValidValues::Choice(choices) => {
            alternatives(&choices.iter().map(|(word, _)| format!("`\"{word}\"`")).collect::<Vec<_>>())
        }
        ValidValues::LogDestination => {
            "`\"off\"`, `\"stdout\"`, `\"stderr\"`, a path, `\"syslog:...\"` or `\"journald\"`".to_string()
        }
        ValidValues::LineFormat => {
            "`\"common\"`, `\"combined\"`, `\"json\"` or a line with variables".to_string()
        }
        ValidValues::Directory => "path of a directory".to_string(),
        ValidValues::File => "path of a file".to_string(),
        ValidValues::FileOrWord { word } => format!("path of a file, or `\"{word}\"`"),
        ValidValues::HeaderValue => "string of printable ASCII".to_string(),
        ValidValues::Token => "string, one word".to_string(),
        ValidValues::Files => "array of paths of files".to_string(),
        ValidValues::FileNames => "array of file names".to_string(),
        ValidValues::Hosts => "array of host names".to_string(),
        ValidValues::ListenAddresses => {
            "array of `\"ADDRESS:PORT\"` and `\"unix:PATH\"`, at least one".to_string()
        }
        ValidValues::MediaTypes => "table from endings to media types".to_string(),
        ValidValues::ContentCodings => "array of `\"br\"`, `\"zstd\"` and `\"gzip\"`".to_string(),
        ValidValues::CompressionLevels => "table from content codings to levels".to_string(),
        ValidValues::ErrorPages => "table from status codes to paths that begin with `/`".to_string(),
        ValidValues::SocketAddresses => "array of `\"ADDRESS:PORT\"` and `\"unix:PATH\"`".to_string(),
        ValidValues::Networks => "array of addresses and networks".to_string(),
        ValidValues::Checked { what }
        | ValidValues::CheckedArray { what }
        | ValidValues::CheckedOneOrMore { what }
        | ValidValues::Fields { what }
        | ValidValues::Pairs { what } => what.to_string(),
        ValidValues::Table => "table".to_string(),
        ValidValues::Tables => "array of tables".to_string(),
    }
}

fn default_of(default: Option<&str>) -> String {
    match default {
        None => "none, it must be given".to_string(),
        Some(ABSENT) => "none".to_string(),
        Some(default) => format!("`{default}`"),
    }
}

/// The text before a section in the complete example. A route can do only one thing instead of serving files,
/// so each such section has its own route.
fn before_in_example(section: &str) -> &'static str {
    match section {
        // A site does not require both passwords and tokens.
        "site.jwt" => "[[site]]\nlisten = [\"127.0.0.1:8081\"]\nroot = \"www\"\n\n",
        "site.login" => "[[site]]\nlisten = [\"127.0.0.1:8082\"]\nroot = \"www\"\n\n",
        "site.crawlers" => "[[site]]\nlisten = [\"127.0.0.1:8083\"]\nroot = \"www\"\n\n",
        "site.route.redirect" => "[[site.route]]\npath = \"/redirected/\"\n\n",
        "site.route.rewrite" => "[[site.route]]\npath = \"/rewritten/\"\n\n",
        "site.route.proxy" => "[[site.route]]\npath = \"/passed-on/\"\n\n",
        "site.route.cgi" => "[[site.route]]\npath = \"/cgi-bin/\"\n\n",
        "site.route.fastcgi" => "[[site.route]]\npath = \"/app/\"\n\n",
        "site.route.scgi" => "[[site.route]]\npath = \"/scgi/\"\n\n",
        "site.route.uwsgi" => "[[site.route]]\npath = \"/uwsgi/\"\n\n",
        "site.route.ajp" => "[[site.route]]\npath = \"/shop/\"\n\n",
        "site.route.php" => "[[site.route]]\npath = \"/blog/\"\n\n",
        "site.route.nsapi" => "[[site.route]]\npath = \"/plug-in/\"\n\n",
        "site.route.servlet" => "[[site.route]]\npath = \"/shop/\"\n\n",
        "site.route.wasm" => "[[site.route]]\npath = \"/component/\"\n\n",
        "site.route.python" => "[[site.route]]\npath = \"/python/\"\n\n",
        "site.route.webdav" => "[[site.route]]\npath = \"/files/\"\nallow = [\"10.0.0.0/8\"]\n\n",
        "stream.origin_tls" => STREAM_WITH_TLS,
        "site.route.respond" => "[[site.route]]\npath = \"/answered/\"\n\n",
        _ => "",
    }
}

/// A stream to which the sections of streams belong in the example.
const STREAM_WITH_TLS: &str =
    "[[stream]]\nname = \"mail\"\nlisten = [\"127.0.0.1:993\"]\nto = \"tls://10.0.0.3:993\"\n\n";

/// Whether a key is active in the complete example; otherwise it is a comment there, because it excludes
/// another key, or needs a file or program that not every machine has.
fn stands_with_others(section: &str, key: &str) -> bool {
    let calls_programs = [
        "site.route.ajp",
        "site.route.cgi",
        "site.route.fastcgi",
        "site.route.scgi",
        "site.route.uwsgi",
        "site.route.php",
    ];
    let excludes_or_names = [
        "command",
        "directory",
        "front_controller",
        "interpreter",
        "program",
        "secret",
        "send_files_from",
        "spool_directory",
        "user",
    ];
    if section == "stream" {
        // They are for datagrams, or for TLS that ends here or begins here.
        let others =
            ["certificate", "key", "alpn", "origin_alpn", "replies", "session_timeout", "datagram_bytes"];
        return !others.contains(&key) && !key.starts_with("socket_");
    }
    if section == "stream.route" {
        return key != "tls";
    }
    if section == "telemetry" {
        // The files would have to exist.
        return !["headers_file", "ca_certificate"].contains(&key);
    }
    if section == "map" {
        // The file would have to exist, and the others replace values.
        return !["file", "networks", "networks_file", "shares", "function"].contains(&key);
    }
    if key == "satisfy" {
        // It needs one rule on users, and the example has all.
        return false;
    }
    if section == "site" && key.starts_with("socket_") {
        // They are for unix sockets.
        return false;
    }
    if section == "site.crawlers.bot" {
        // A bot has its keys in one place.
        return key != "key_file";
    }
    if section == "site.route.servlet" {
        return !["directory", "users"].contains(&key);
    }
    if section == "site.route.webdav" {
        return key != "methods";
    }
    if section == "site.route.python" {
        return key != "user";
    }
    if section == "site.route" {
        return !["alias", "try_files"].contains(&key);
    }
    let of_origins = section == "site.route.proxy" && ["proxy_protocol", "path"].contains(&key);
    !(calls_programs.contains(&section) && excludes_or_names.contains(&key) || of_origins)
}

fn first_sentence(text: &str) -> &str {
    match text.find(". ") {
        Some(end) => &text[..=end],
        None => text,
    }
}

/// Wraps into lines of at most 79 characters, each after an indent.
fn wrap(text: &str, indent: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= 79 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{indent}{word}")),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AccessLogFormat, LogDestination, json_schema, parse};
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    /// The page in the book and the schema are up to date with the table. `BLESS=1` writes them again.
    #[test]
    fn configuration_page_and_schema_are_up_to_date() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for (name, text) in
            [("configuration.md", documentation_markdown()), ("config.schema.json", json_schema())]
        {
            let path = docs.join(name);
            if std::env::var_os("BLESS").is_some() {
                std::fs::write(&path, &text).unwrap();
            }
            let written = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                written == text,
                "docs/{name} is not up to date: BLESS=1 cargo test -p touchstone-config configuration_page"
            );
        }
    }

    /// Every TOML block of the page is a configuration that works.
    #[test]
    fn the_examples_of_the_page_parse() {
        let page = documentation_markdown();
        let blocks: Vec<&str> =
            page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
        assert_eq!(blocks.len(), 3);
        for block in &blocks {
            parse(block, Path::new("/etc/touchstone/site.toml")).unwrap();
        }
        assert_eq!(blocks[2], complete_example());
    }

    #[test]
    fn the_complete_example_means_what_it_says() {
        let config = parse(&complete_example(), Path::new("/etc/touchstone/site.toml")).unwrap();
        assert_eq!(config.server.cores, 2);
        assert!(config.server.pin_cores);
        assert_eq!(config.limits.stall_timeout, Duration::from_secs(60));
        assert_eq!(config.cache.bytes, Some(1 << 30));
        assert_eq!(config.access_log.format, AccessLogFormat::Json);
        assert_eq!(
            config.access_log.destination,
            LogDestination::File(PathBuf::from("/etc/touchstone/log/access.log"))
        );
        assert_eq!(config.sites[0].root.as_deref(), Some(Path::new("/etc/touchstone/www")));
        assert_eq!(config.sites[0].mime_types["glb"], "model/gltf-binary");
    }

    #[test]
    fn explanations() {
        let all = explain(None).unwrap();
        for section in sections() {
            for key in &section.keys {
                let name = format!("{} {}", section.header, key.name);
                assert!(all.contains(&name), "{name}");
                let one = explain(Some(&format!("{}.{}", section.name, key.name))).unwrap();
                assert!(one.contains(&name), "{one}");
            }
        }
        assert!(all.lines().all(|line| line.chars().count() <= 100));
        assert_eq!(explain(Some("path")).unwrap().matches("example:").count(), 8);
        // The six keys of the section, and the key of routes that has its name.
        assert_eq!(explain(Some("[cache]")).unwrap().matches("example:").count(), 7);
        assert_eq!(
            explain(Some("site.rot")).unwrap_err(),
            "unknown key 'site.rot'; did you mean 'site.root'?"
        );
        assert_eq!(
            explain(Some("proxy_pass")).unwrap_err(),
            "unknown key 'proxy_pass'; without a name, every key is listed"
        );
        assert_eq!(
            explain(Some("site.charset")).unwrap(),
            "\n  [[site]] charset\n    The charset to add to the Content-Type of text. Empty: none is \
             added.\n    value: string, one word\n    default: \"\"\n    example: charset = \"utf-8\"\n"
        );
    }
}
