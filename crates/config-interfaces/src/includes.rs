//! `[site.includes]`: pages with directives in them.

use std::path::Path;
use std::time::Duration;

use touchstone_config_section::values::MIB;
use touchstone_config_section::{Choice, Key, Kind, Section};
use touchstone_includes::Grammar;

/// `[site.includes]`: which files are pages with directives, and what these may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncludesConfig {
    /// Endings of the names of such files.
    pub suffixes: Vec<String>,
    /// The media types of such pages from programs and other servers.
    pub types: Vec<String>,
    /// Whether executable HTML files are such pages too.
    pub xbithack: XBitHack,
    /// Whether `exec` runs programs.
    pub exec: bool,
    /// How long such a program may run.
    pub exec_timeout: Duration,
    /// The grammar of conditions.
    pub expressions: Grammar,
    /// The text in place of a directive that fails.
    pub error_text: String,
    /// The text for an undefined variable.
    pub undefined_text: String,
    /// The form of times.
    pub time_format: String,
    /// What begins a directive.
    pub start_tag: String,
    /// What ends it.
    pub end_tag: String,
    /// Whether answers have the file's Last-Modified.
    pub last_modified: bool,
    /// Whether answers have the file's ETag.
    pub etag: bool,
    /// How deep pages may include each other.
    pub depth: usize,
    /// How many inclusions one request may cause.
    pub inclusions: usize,
    /// How many of them run at a time.
    pub concurrent: usize,
    /// The longest output.
    pub output_bytes: u64,
    /// The largest page.
    pub page_bytes: u64,
}

/// `xbithack`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XBitHack {
    /// Permissions are ignored.
    Off,
    /// An HTML file that its owner may execute is a page with directives.
    On,
    /// The same; and if the group may execute it too, the answer has the file's Last-Modified.
    Full,
}

impl Default for IncludesConfig {
    fn default() -> IncludesConfig {
        INCLUDES.defaults()
    }
}

/// `[site.includes]`
pub static INCLUDES: Section<IncludesConfig> = Section {
    name: "site.includes",
    repeated: false,
    documentation: "Pages with directives in them, such as `<!--#include virtual=\"/menu.html\" -->`. \
        An empty section makes every file with the ending `.shtml` such a page. The quick form (`touchstone \
        serve --root`) has it.",
    blank: || IncludesConfig {
        suffixes: Vec::new(),
        types: Vec::new(),
        xbithack: XBitHack::Off,
        exec: false,
        exec_timeout: Duration::ZERO,
        expressions: Grammar::Apache24,
        error_text: String::new(),
        undefined_text: String::new(),
        time_format: String::new(),
        start_tag: String::new(),
        end_tag: String::new(),
        last_modified: false,
        etag: false,
        depth: 0,
        inclusions: 0,
        concurrent: 0,
        output_bytes: 0,
        page_bytes: 0,
    },
    keys: &[
        Key {
            name: "suffixes",
            default: Some("[\".shtml\"]"),
            example: "[\".shtml\", \".html\"]",
            documentation: "The endings of the names of files that are searched for directives.",
            kind: Kind::CheckedArray {
                what: "endings of file names",
                parse: |text| match text.is_empty() || text.contains('/') {
                    true => Err("must be the ending of a file name, such as \".shtml\"".to_string()),
                    false => Ok(text.to_string()),
                },
                set: |includes, value| includes.suffixes = value,
            },
        },
        Key {
            name: "types",
            default: Some("[\"text/html\"]"),
            example: "[\"text/html\", \"text/xml\"]",
            documentation: "The media types of answers that are searched for directives, in a route with a \
                program or another server and with its own `includes`. `\"*\"`: any.",
            kind: Kind::CheckedArray {
                what: "array of media types",
                parse: |text| match text == "*"
                    || text.split('/').filter(|part| !part.is_empty()).count() == 2
                {
                    true => Ok(text.to_ascii_lowercase()),
                    false => Err(format!("{text:?} is not a media type, such as \"text/html\"")),
                },
                set: |includes, value| includes.types = value,
            },
        },
        Key {
            name: "xbithack",
            default: Some("\"off\""),
            example: "\"full\"",
            documentation: "Whether permissions make an HTML file a page with directives (Apache's \
                XBitHack).",
            kind: Kind::Choice(&[
                Choice {
                    word: "off",
                    meaning: "permissions are ignored",
                    set: |includes| includes.xbithack = XBitHack::Off,
                },
                Choice {
                    word: "on",
                    meaning: "files of type text/html that their owner may execute are searched for \
                        directives",
                    set: |includes| includes.xbithack = XBitHack::On,
                },
                Choice {
                    word: "full",
                    meaning: "the same, and where their group may execute them, answers have Last-Modified",
                    set: |includes| includes.xbithack = XBitHack::Full,
                },
            ]),
        },
        Key {
            name: "exec",
            default: Some("false"),
            example: "true",
            documentation: "Whether `exec` runs programs. \
                A user who may write a page below the root may then run any command as the server's user.",
            kind: Kind::Boolean(|includes, value| includes.exec = value),
        },
        Key {
            name: "exec_timeout",
            default: Some("\"30s\""),
            example: "\"5s\"",
            documentation: "How long a command of `exec cmd` may run before it is killed.",
            kind: Kind::Duration {
                least: Duration::from_millis(100),
                most: Duration::from_secs(3600),
                set: |includes, value| includes.exec_timeout = value,
            },
        },
        Key {
            name: "expressions",
            default: Some("\"apache-2.4\""),
            example: "\"legacy\"",
            documentation: "The server whose language the pages use. The languages differ in the conditions \
                of `if` and `elif`, and that of `nginx` in more, see [Coming from \
                nginx](includes.md#coming-from-nginx).",
            kind: Kind::Choice(&[
                Choice {
                    word: "apache-2.4",
                    meaning: "`v(\"name\") =~ /regex/ && ...`, as Apache 2.4 has it",
                    set: |includes| includes.expressions = Grammar::Apache24,
                },
                Choice {
                    word: "legacy",
                    meaning: "`$name = /regex/ && ...`, as Apache 2.2 has it (SSILegacyExprParser)",
                    set: |includes| includes.expressions = Grammar::Legacy,
                },
                Choice {
                    word: "nginx",
                    meaning: "`$name = /regex/`, as nginx has it",
                    set: |includes| includes.expressions = Grammar::Nginx,
                },
            ]),
        },
        Key {
            name: "error_text",
            default: Some("\"[an error occurred while processing this directive]\""),
            example: "\"<!-- error -->\"",
            documentation: "The text in place of a directive that fails, unless `config errmsg` sets \
                another. The error log has the file and the line.",
            kind: any_text(|includes, value| includes.error_text = value),
        },
        Key {
            name: "undefined_text",
            default: Some("\"(none)\""),
            example: "\"\"",
            documentation: "The output of `echo` for an undefined variable, unless `config echomsg` sets \
                another.",
            kind: any_text(|includes, value| includes.undefined_text = value),
        },
        Key {
            name: "time_format",
            default: Some("\"%A, %d-%b-%Y %H:%M:%S %Z\""),
            example: "\"%Y-%m-%d\"",
            documentation: "The format of dates and times, in the letters of `strftime`, unless `config \
                timefmt` sets another.",
            kind: any_text(|includes, value| includes.time_format = value),
        },
        Key {
            name: "start_tag",
            default: Some("\"<!--#\""),
            example: "\"<!--#\"",
            documentation: "What begins a directive.",
            kind: Kind::Checked {
                what: "text without white space",
                parse: check_tag,
                set: |includes, value| includes.start_tag = value,
            },
        },
        Key {
            name: "end_tag",
            default: Some("\"-->\""),
            example: "\"-->\"",
            documentation: "What ends a directive.",
            kind: Kind::Checked {
                what: "text without white space",
                parse: check_tag,
                set: |includes, value| includes.end_tag = value,
            },
        },
        Key {
            name: "last_modified",
            default: Some("false"),
            example: "false",
            documentation: "Whether answers have Last-Modified with the time of the page's file, although \
                what it includes may be newer (SSILastModified).",
            kind: Kind::Boolean(|includes, value| includes.last_modified = value),
        },
        Key {
            name: "etag",
            default: Some("false"),
            example: "false",
            documentation: "Whether answers have an entity tag made from the page's file, although what it \
                includes may be newer (SSIETag).",
            kind: Kind::Boolean(|includes, value| includes.etag = value),
        },
        Key {
            name: "depth",
            default: Some("16"),
            example: "8",
            documentation: "How deep pages may include each other. A page that includes itself is always an \
                error.",
            kind: Kind::Number { least: 0, most: 64, set: |includes, value| includes.depth = value as usize },
        },
        Key {
            name: "inclusions",
            default: Some("1000"),
            example: "100",
            documentation: "How many inclusions and programs one request may cause, all pages together.",
            kind: Kind::Number {
                least: 0,
                most: 1_000_000,
                set: |includes, value| includes.inclusions = value as usize,
            },
        },
        Key {
            name: "concurrent",
            default: Some("16"),
            example: "4",
            documentation: "How many inclusions of one request run at a time. Their output keeps its order.",
            kind: Kind::Number {
                least: 1,
                most: 1000,
                set: |includes, value| includes.concurrent = value as usize,
            },
        },
        Key {
            name: "output_bytes",
            default: Some("\"64MiB\""),
            example: "\"1MiB\"",
            documentation: "The longest output of a page with all that it includes. A longer output is cut \
                there, with the error text.",
            kind: Kind::Size {
                least: 1,
                most: 1024 * 1024 * MIB,
                set: |includes, value| includes.output_bytes = value,
            },
        },
        Key {
            name: "page_bytes",
            default: Some("\"4MiB\""),
            example: "\"1MiB\"",
            documentation: "The largest file that is searched for directives. Larger ones are answered with \
                500.",
            kind: Kind::Size {
                least: 1,
                most: 1024 * MIB,
                set: |includes, value| includes.page_bytes = value,
            },
        },
    ],
};

const fn any_text(set: fn(&mut IncludesConfig, String)) -> Kind<IncludesConfig> {
    Kind::Checked { what: "string", parse: |text, _| Ok(text.to_string()), set }
}

fn check_tag(text: &str, _: &Path) -> Result<String, String> {
    match text.is_empty() || text.contains(|character: char| character.is_ascii_whitespace()) {
        true => Err("must not be empty or hold white space".to_string()),
        false => Ok(text.to_string()),
    }
}
