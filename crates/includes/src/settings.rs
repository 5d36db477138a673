//! What a site says about its pages with directives.

use bytes::Bytes;

/// The languages of pages, where they differ: in conditions, in variables, in the order of attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grammar {
    /// That of Apache 2.4.
    Apache24,
    /// That of Apache 2.2, with the variables of nginx besides.
    Legacy,
    /// That of nginx.
    Nginx,
}

/// How pages are read and evaluated. The defaults are Apache's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whether `exec` runs programs.
    pub exec: bool,
    /// Which of the servers' languages pages are in, as far as these differ.
    pub grammar: Grammar,
    /// What stands where a directive fails, until `config errmsg` says otherwise.
    pub error_text: Bytes,
    /// What `echo` gives for an undefined variable, until `config echomsg` says otherwise.
    pub undefined_text: Bytes,
    /// The form of times, until `config timefmt` says otherwise.
    pub time_format: Bytes,
    /// What begins a directive.
    pub start_tag: Box<[u8]>,
    /// What ends it.
    pub end_tag: Box<[u8]>,
    /// How deep pages may include each other.
    pub most_depth: usize,
    /// How many inclusions and programs one request may cause.
    pub most_includes: usize,
    /// How many of them run at a time.
    pub concurrent_includes: usize,
    /// How long the whole output may get.
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
