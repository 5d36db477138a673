//! What a site says about its pages with directives.

use bytes::Bytes;

/// How pages are read and evaluated. The defaults are Apache's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whether `exec` runs programs.
    pub exec: bool,
    /// Whether conditions are in the grammar of Apache 2.2 and nginx instead of that of Apache 2.4.
    pub legacy_expressions: bool,
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
            legacy_expressions: false,
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
