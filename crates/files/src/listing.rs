//! Directory listings as HTML for people and JSON for programs.
//!
//! A listing has the files that would be served: hidden names, links that the root's policy forbids, files of
//! the server itself, and names that are neither files nor directories are omitted. Reading waits for the
//! disk, so it must run on a thread that may wait.

use std::fmt::Write as _;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use touchstone_http::date::format_rfc3339;

use crate::percent::encode_path;
use crate::root::{FileFacts, FileKind, OpenError, Root};

/// The limits of a listing.
#[derive(Debug, Clone, Copy)]
pub struct ListingOptions {
    /// Whether names that begin with a dot are listed.
    pub hidden_files: bool,
    /// The maximum number of entries; reading stops there.
    pub most_entries: usize,
}

/// A directory's entries.
#[derive(Debug)]
pub struct Listing {
    /// Directories come first; each kind is sorted by name.
    pub entries: Vec<ListingEntry>,
    /// The directory has more entries than may be listed; the file system decides which are missing.
    pub truncated: bool,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingEntry {
    /// The name; it may contain any bytes except control bytes and slashes.
    pub name: Vec<u8>,
    /// The kind of its target.
    pub kind: FileKind,
    /// The length in bytes; undefined for a directory.
    pub size: u64,
    /// The time of the last change in whole seconds since 1970.
    pub modified_seconds: i64,
}

/// Reads the directory at `path`, which is normalised and ends with a slash.
///
/// # Errors
/// As for [`Root::open`]; a path that is not a directory is not found.
pub fn read(root: &Root, path: &[u8], options: &ListingOptions) -> Result<Listing, OpenError> {
    let opened = root.open(path)?;
    if opened.facts.kind != FileKind::Directory {
        return Err(OpenError::NotFound);
    }
    // The entries are read from the pinned directory, so a rename at the same time has no effect.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(&opened.descriptor, ".", flags, Mode::empty())?;
    let mut entries = Vec::new();
    let mut truncated = false;
    let own_entries = root.own_entries(&directory);
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !is_listed(name, options) {
            continue;
        }
        let facts = match statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
                root.facts(&[path, name].concat())
            }
            Ok(stat) => {
                FileFacts::from_stat(&stat).and_then(|facts| match own_entries.contains(name, &facts) {
                    true => Err(OpenError::NotFound),
                    false => Ok(facts),
                })
            }
            // The file was deleted since its name was read.
            Err(_) => continue,
        };
        let Ok(facts) = facts else { continue };
        if entries.len() == options.most_entries {
            truncated = true;
            break;
        }
        entries.push(ListingEntry {
            name: name.to_vec(),
            kind: facts.kind,
            size: facts.size,
            modified_seconds: facts.modified_seconds,
        });
    }
    entries.sort_by_cached_key(|entry| {
        let folded = String::from_utf8_lossy(&entry.name).to_lowercase();
        (entry.kind != FileKind::Directory, folded, entry.name.clone())
    });
    Ok(Listing { entries, truncated })
}

/// A request cannot contain names with control bytes.
fn is_listed(name: &[u8], options: &ListingOptions) -> bool {
    name != b"."
        && name != b".."
        && (options.hidden_files || !name.starts_with(b"."))
        && !name.iter().any(|byte| byte.is_ascii_control())
}

impl ListingEntry {
    /// The relative link to the entry: a directory's name gets a slash. It begins with `./`, so that text
    /// before a colon in the name is not read as a scheme (RFC 3986 section 4.2).
    fn link(&self) -> String {
        let mut link = b"./".to_vec();
        encode_path(&self.name, &mut link);
        link.extend_from_slice(self.slash().as_bytes());
        String::from_utf8_lossy(&link).into_owned()
    }

    fn slash(&self) -> &'static str {
        if self.kind == FileKind::Directory { "/" } else { "" }
    }
}

impl Listing {
    /// The listing as an HTML page. `path` is the directory's normalised path.
    pub fn to_html(&self, path: &[u8]) -> String {
        let title = format!("Index of {}", escape_html(&String::from_utf8_lossy(path)));
        let mut page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1><bdi>{title}</bdi></h1>\n<table>\n\
             <thead><tr><th scope=\"col\">Name</th><th scope=\"col\">Size</th>\
             <th scope=\"col\">Modified (UTC)</th></tr></thead>\n<tbody>\n"
        );
        if path != b"/" {
            page.push_str(
                "<tr><td><a href=\"../\">../ <span class=\"hint\">parent directory</span></a></td>\
                 <td></td><td></td></tr>\n",
            );
        }
        for entry in &self.entries {
            entry.write_row(&mut page);
        }
        page.push_str("</tbody>\n</table>\n");
        if self.entries.is_empty() {
            page.push_str("<p>This directory is empty.</p>\n");
        }
        if self.truncated {
            let count = self.entries.len();
            let _ = writeln!(
                page,
                "<p role=\"note\">Only {count} entries are shown; the directory has more.</p>"
            );
        }
        page.push_str("</main>\n</body>\n</html>\n");
        page
    }

    /// An array with an object for each entry: `name`, `type` (`"file"` or `"directory"`), `size` in bytes
    /// (files only), `modified` (RFC 3339) and `url`, relative to the directory. A name that is not UTF-8 has
    /// replacement characters in `name`; its `url` is exact.
    pub fn to_json(&self) -> String {
        let mut json = String::from("[");
        for (index, entry) in self.entries.iter().enumerate() {
            json.push_str(if index == 0 { "\n" } else { ",\n" });
            let name = escape_json(&String::from_utf8_lossy(&entry.name));
            let (modified, url) = (format_rfc3339(entry.modified_seconds), entry.link());
            let _ = match entry.kind {
                FileKind::Directory => write!(json, "{{\"name\":{name},\"type\":\"directory\","),
                FileKind::Regular => {
                    write!(json, "{{\"name\":{name},\"type\":\"file\",\"size\":{},", entry.size)
                }
            };
            // All characters of a link can be in JSON without escapes.
            let _ = write!(json, "\"modified\":\"{modified}\",\"url\":\"{url}\"}}");
        }
        json.push_str("\n]\n");
        json
    }
}

impl ListingEntry {
    fn write_row(&self, page: &mut String) {
        let name = escape_html(&String::from_utf8_lossy(&self.name));
        let link = escape_html(&self.link());
        let slash = self.slash();
        let time = format_rfc3339(self.modified_seconds);
        let shown_time = time.get(..16).unwrap_or(&time).replace('T', " ");
        let size = match self.kind {
            FileKind::Directory => "<td></td>".to_owned(),
            FileKind::Regular => {
                format!("<td title=\"{} bytes\">{}</td>", self.size, readable_size(self.size))
            }
        };
        let _ = writeln!(
            page,
            "<tr><td><a href=\"{link}\"><bdi>{name}</bdi>{slash}</a></td>{size}\
             <td><time datetime=\"{time}\">{shown_time}</time></td></tr>"
        );
    }
}

const STYLE: &str = "\
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}\
body{margin:0}main{max-width:60rem;margin:0 auto;padding:1.5rem}\
h1{font-size:1.35rem;font-weight:600;overflow-wrap:anywhere}\
table{width:100%;border-collapse:collapse}\
th,td{padding:.35rem .5rem;text-align:left;border-bottom:1px solid color-mix(in srgb,CanvasText 15%,Canvas)}\
th{font-weight:600}td:first-child{overflow-wrap:anywhere}\
td:nth-child(n+2),th:nth-child(n+2){white-space:nowrap;text-align:right;font-variant-numeric:tabular-nums}\
a{color:LinkText}tr:hover td{background:color-mix(in srgb,CanvasText 5%,Canvas)}.hint{opacity:.75}";

/// `1.5 KiB`; exact below 1,024 bytes.
fn readable_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    // A value that would be rounded to 1024.0 belongs to the next unit.
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// Text for an element or a quoted attribute.
fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A JSON string with its quotes (RFC 8259 section 7).
fn escape_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 2);
    escaped.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => escaped.extend(['\\', character]),
            control if control.is_control() => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(control));
            }
            other => escaped.push(other),
        }
    }
    escaped.push('"');
    escaped
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::root::SymlinkPolicy;
    use proptest::prelude::*;

    const ALL: ListingOptions = ListingOptions { hidden_files: false, most_entries: 100 };

    fn listed(directory: &std::path::Path, path: &str, options: &ListingOptions) -> Listing {
        let root = Root::new(directory, SymlinkPolicy::Inside).unwrap();
        read(&root, path.as_bytes(), options).unwrap()
    }

    fn names(listing: &Listing) -> Vec<String> {
        listing.entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect()
    }

    #[test]
    fn only_what_would_be_served_and_in_order() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        let tree = tempfile::tempdir().unwrap();
        let top = tree.path();
        for name in ["b.txt", "A.txt", ".hidden", "a.txt", "\u{e9}.txt", "new\nline"] {
            fs::write(top.join(name), name).unwrap();
        }
        fs::create_dir(top.join("z")).unwrap();
        fs::create_dir(top.join(".git")).unwrap();
        symlink("z", top.join("link-to-z")).unwrap();
        symlink("b.txt", top.join("link-to-b")).unwrap();
        symlink(outside.path().join("secret"), top.join("out")).unwrap();
        symlink(outside.path(), top.join("out-dir")).unwrap();
        symlink("nowhere", top.join("broken")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(top.join("socket")).unwrap());
        let listing = listed(top, "/", &ALL);
        assert_eq!(names(&listing), ["link-to-z", "z", "A.txt", "a.txt", "b.txt", "link-to-b", "\u{e9}.txt"]);
        assert!(!listing.truncated);
        assert_eq!(listing.entries[5].size, 5, "the size of the link's target");
        let with_hidden = listed(top, "/", &ListingOptions { hidden_files: true, ..ALL });
        assert!(names(&with_hidden).contains(&".hidden".to_owned()));
        assert!(!names(&with_hidden).iter().any(|name| name == "." || name == ".."));
    }

    #[test]
    fn nothing_outside_of_the_root_is_listed() {
        let outside = tempfile::tempdir().unwrap();
        let tree = tempfile::tempdir().unwrap();
        symlink(outside.path(), tree.path().join("out")).unwrap();
        fs::write(tree.path().join("file"), "").unwrap();
        let root = Root::new(tree.path(), SymlinkPolicy::Inside).unwrap();
        assert!(matches!(read(&root, b"/out/", &ALL), Err(OpenError::Forbidden)));
        assert!(matches!(read(&root, b"/../", &ALL), Err(OpenError::Forbidden)));
        assert!(matches!(read(&root, b"/file", &ALL), Err(OpenError::NotFound)));
        assert!(matches!(read(&root, b"/missing/", &ALL), Err(OpenError::NotFound)));
    }

    #[test]
    fn no_more_than_the_most() {
        let tree = tempfile::tempdir().unwrap();
        for number in 0..10 {
            fs::write(tree.path().join(number.to_string()), "").unwrap();
        }
        for (most_entries, count, truncated) in [(9, 9, true), (10, 10, false), (0, 0, true)] {
            let listing = listed(tree.path(), "/", &ListingOptions { most_entries, ..ALL });
            assert_eq!((listing.entries.len(), listing.truncated), (count, truncated));
            assert_eq!(listing.to_html(b"/").contains("directory has more"), truncated);
        }
    }

    #[test]
    fn a_page_is_escaped_and_its_links_are_relative() {
        let name = b"a&b <script>\"'#?%:\xff.txt";
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join(OsStr::from_bytes(name)), "x").unwrap();
        fs::create_dir(tree.path().join("sub")).unwrap();
        let listing = listed(tree.path(), "/", &ALL);
        let page = listing.to_html(b"/<x>/");
        assert!(page.contains("<title>Index of /&lt;x&gt;/</title>"), "{page}");
        assert!(page.contains("href=\"./a&amp;b%20%3Cscript%3E%22&#39;%23%3F%25:%FF.txt\""), "{page}");
        assert!(page.contains("<bdi>a&amp;b &lt;script&gt;&quot;&#39;#?%:\u{fffd}.txt</bdi>"), "{page}");
        assert!(page.contains("href=\"./sub/\"><bdi>sub</bdi>/</a>"), "{page}");
        assert!(page.contains("href=\"../\""));
        assert!(!page.contains("<script"));
        assert!(!listing.to_html(b"/").contains("href=\"../\""), "the root has no parent");
    }

    #[test]
    fn json_is_json() {
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("quote\"back\\slash.txt"), "12345").unwrap();
        fs::create_dir(tree.path().join("sub")).unwrap();
        let value: serde_json::Value =
            serde_json::from_str(&listed(tree.path(), "/", &ALL).to_json()).unwrap();
        assert_eq!(value[0]["name"], "sub");
        assert_eq!(value[0]["type"], "directory");
        assert_eq!(value[0].get("size"), None);
        assert_eq!(value[0]["url"], "./sub/");
        assert_eq!(value[1]["name"], "quote\"back\\slash.txt");
        assert_eq!(value[1]["type"], "file");
        assert_eq!(value[1]["size"], 5);
        assert_eq!(value[1]["url"], "./quote%22back%5Cslash.txt");
        assert_eq!(value[1]["modified"].as_str().unwrap().len(), "2026-01-02T03:04:05Z".len());
        let empty = Listing { entries: Vec::new(), truncated: false };
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&empty.to_json()).unwrap(),
            serde_json::json!([])
        );
        assert!(empty.to_html(b"/").contains("is empty"));
    }

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (1 << 20, "1.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(readable_size(bytes), text);
        }
        assert_eq!(format_rfc3339(1_767_323_045), "2026-01-02T03:04:05Z");
    }

    proptest! {
        #[test]
        fn any_name_stays_inside_its_place(
            name in proptest::collection::vec((0x20u8..).prop_filter("a slash", |&byte| byte != b'/'), 1..40),
            size in any::<u64>(),
            modified_seconds in any::<i32>(),
        ) {
            let modified_seconds = modified_seconds.into();
            let entry = ListingEntry { name, kind: FileKind::Regular, size, modified_seconds };
            let listing = Listing { entries: vec![entry.clone()], truncated: false };
            let json: serde_json::Value = serde_json::from_str(&listing.to_json()).unwrap();
            prop_assert_eq!(json[0]["name"].as_str().unwrap(), String::from_utf8_lossy(&entry.name));
            let mut row = String::new();
            entry.write_row(&mut row);
            // There is one row for any name: it has as many brackets and quotes as without the name.
            prop_assert_eq!(row.matches('<').count(), 14);
            prop_assert_eq!(row.matches('"').count(), 6);
        }
    }
}
