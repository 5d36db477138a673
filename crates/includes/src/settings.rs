//! A site's settings for pages with directives.

use bytes::Bytes;

/// The dialects of pages, which differ in conditions, variables and the order of attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grammar {
    /// That of Apache 2.4.
    Apache24,
    /// That of Apache 2.2, and the variables of nginx.
    Legacy,
    /// That of nginx.
    Nginx,
}

/// The settings for reading and evaluating pages. The defaults are Apache's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whether `exec` runs programs.
    pub exec: bool,
    /// The dialect.
    pub grammar: Grammar,
    /// The text in place of a failed directive, until `config errmsg` changes it.
    pub error_text: Bytes,
    /// The output of `echo` for an undefined variable, until `config echomsg` changes it.
    pub undefined_text: Bytes,
    /// The format of times, until `config timefmt` changes it.
    pub time_format: Bytes,
    /// The text that begins a directive.
    pub start_tag: Box<[u8]>,
    /// The text that ends it.
    pub end_tag: Box<[u8]>,
    /// The maximum depth of nested inclusions.
    pub most_depth: usize,
    /// The maximum number of inclusions and programs for one request.
    pub most_includes: usize,
    /// The maximum number of them that run at a time.
    pub concurrent_includes: usize,
    /// The maximum size of the whole output.
    pub most_output_bytes: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            exec: false,
            grammar: Grammar::Apache24,
            error_text: Bytes::from_static(b"[an error occurred while processing this directive]"),
            undefined_text: Bytes::from_static(b"(none)"),
            time_format: Bytes::from_static(b"%A, %d-%b-%Y %H:%M:%S %Z"),
            start_tag: b"<!--#"[..].into(),
            end_tag: b"-->"[..].into(),
            most_depth: 16,
            most_includes: 1000,
            concurrent_includes: 16,
            most_output_bytes: 64 * 1024 * 1024,
        }
    }
}
