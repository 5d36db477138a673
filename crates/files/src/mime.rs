//! Content types by file name suffix (RFC 9110 section 8.3).
//!
//! There are three sources, and the first that contains the suffix is used: the site's own `mime_types`, the
//! corrections below, and the table of the `mime_guess` crate, which is long but in parts older than RFC 9239
//! (JavaScript), RFC 8081 (fonts) and other recent registrations. The type is looked up once for each cache
//! entry, not on a cache hit.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

/// The type of a file with an unknown suffix or none: browsers offer to save it.
pub const UNKNOWN: &str = "application/octet-stream";

/// The content types of one site.
#[derive(Clone, Debug, Default)]
pub struct ContentTypes {
    /// From a suffix in lower case without its first dot, such as "html" or "tar.gz", to the type as it is
    /// sent.
    overrides: HashMap<String, String>,
    /// The text to append: "; charset=utf-8".
    charset: Option<String>,
}

/// A `mime_types` or `charset` setting that cannot be sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum InvalidContentType {
    /// The suffix is empty, or contains a slash or a control character.
    Ending(String),
    /// The value is not `type/subtype`, with or without `; name=value` parameters.
    MediaType {
        /// The suffix.
        ending: String,
        /// The value as given.
        media_type: String,
    },
    /// The charset is not a token by RFC 9110.
    Charset(String),
}

impl ContentTypes {
    /// Takes the site's own suffixes (`html`, `.html` and `tar.gz` are all valid, case does not matter) with
    /// their types, and the charset for texts, if any.
    ///
    /// # Errors
    /// The first setting that would not make a valid Content-Type field.
    pub fn new<Ending, MediaType>(
        overrides: impl IntoIterator<Item = (Ending, MediaType)>,
        charset: Option<&str>,
    ) -> Result<ContentTypes, InvalidContentType>
    where
        Ending: Into<String>,
        MediaType: Into<String>,
    {
        let mut table = HashMap::new();
        for (ending, media_type) in overrides {
            let (ending, media_type) = (ending.into(), media_type.into());
            let key = ending.strip_prefix('.').unwrap_or(&ending).to_ascii_lowercase();
            if key.is_empty() || key.contains(|character: char| character == '/' || character.is_control()) {
                return Err(InvalidContentType::Ending(ending));
            }
            if !is_media_type(&media_type) {
                return Err(InvalidContentType::MediaType { ending, media_type });
            }
            table.insert(key, media_type);
        }
        let charset = match charset {
            Some(name) if is_token(name) => Some(format!("; charset={name}")),
            Some(name) => return Err(InvalidContentType::Charset(name.to_owned())),
            None => None,
        };
        Ok(ContentTypes { overrides: table, charset })
    }

    /// The value of the Content-Type field for the file at `path`; only the part after the last slash is
    /// used. The longest suffix that the site configures is chosen, or else the part after the last dot: for
    /// `a.tar.gz` first `tar.gz`, then `gz`. A name whose only dot is its first character (`.profile`) has no
    /// suffix.
    pub fn content_type(&self, path: &[u8]) -> Cow<'_, str> {
        let media_type = self.media_type(path);
        match &self.charset {
            Some(charset) if takes_charset(media_type) => Cow::Owned(format!("{media_type}{charset}")),
            _ => Cow::Borrowed(media_type),
        }
    }

    fn media_type(&self, path: &[u8]) -> &str {
        let Some(endings) = endings(path) else { return UNKNOWN };
        let last = || endings.rsplit('.').next().and_then(built_in);
        self.listed_ending(&endings).or_else(last).unwrap_or(UNKNOWN)
    }

    /// The type that the site itself sets for the file at `path`, if any; without the charset.
    pub fn listed(&self, path: &[u8]) -> Option<&str> {
        self.listed_ending(&endings(path)?)
    }

    /// Whether the site itself sets this type.
    pub fn has_type(&self, media_type: &[u8]) -> bool {
        self.overrides.values().any(|known| known.as_bytes().eq_ignore_ascii_case(media_type))
    }

    fn listed_ending(&self, endings: &str) -> Option<&str> {
        let mut ending = endings;
        loop {
            if let Some(media_type) = self.overrides.get(ending) {
                return Some(media_type);
            }
            ending = ending.split_once('.')?.1;
        }
    }
}

/// The part of a file's name after the first dot, in lower case.
fn endings(path: &[u8]) -> Option<String> {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    // The first byte is skipped: a dot there hides the file and does not begin a suffix.
    let after_first = name.get(1..).unwrap_or_default();
    let dot = after_first.iter().position(|&byte| byte == b'.')?;
    // A suffix that is not UTF-8 is in no table, and neither is its form with replacement characters.
    Some(String::from_utf8_lossy(&after_first[dot + 1..]).to_ascii_lowercase())
}

/// The type of a suffix in lower case.
fn built_in(ending: &str) -> Option<&'static str> {
    corrected(ending).or_else(|| mime_guess::from_ext(ending).first_raw())
}

/// Corrections for suffixes that `mime_guess` does not contain, or for which browsers and registries now use
/// another type.
fn corrected(ending: &str) -> Option<&'static str> {
    Some(match ending {
        // RFC 9239: text/javascript is the only name; browsers refuse module scripts with most others.
        "js" | "mjs" | "cjs" => "text/javascript",
        // A source map is JSON, whatever language it maps.
        "map" => "application/json",
        "jsonl" | "ndjson" => "application/jsonl",
        "yaml" | "yml" => "application/yaml",
        "toml" => "application/toml",
        "wgsl" => "text/wgsl",
        "shtm" | "shtml" => "text/html",
        "diff" | "patch" | "properties" => "text/plain",
        "vcf" => "text/vcard",
        "asc" => "text/plain",
        // RFC 8081 fonts.
        "otf" => "font/otf",
        "ttc" => "font/collection",
        "woff" => "font/woff",
        "ico" => "image/vnd.microsoft.icon",
        "avifs" => "image/avif",
        // Streaming: on the web a .ts file is a segment of HLS (RFC 8216), not a recording for television.
        "ts" => "video/mp2t",
        "m4s" => "video/iso.segment",
        "m3u8" => "application/vnd.apple.mpegurl",
        "m4a" => "audio/mp4",
        "m4v" => "video/mp4",
        "mid" | "midi" => "audio/midi",
        "stl" => "model/stl",
        "usdz" => "model/vnd.usdz+zip",
        "mml" | "mathml" => "application/mathml+xml",
        // Archives and packages.
        "br" => "application/x-brotli",
        "tgz" => "application/gzip",
        "zst" => "application/zstd",
        "rar" => "application/vnd.rar",
        "deb" => "application/vnd.debian.binary-package",
        "rpm" => "application/x-rpm",
        "class" => "application/java-vm",
        // Programs that this server does not run are saved, not displayed.
        "java" => "text/plain",
        _ => return None,
    })
}

/// Whether content of this type usually becomes smaller by compression: all kinds of text, code, and formats
/// without their own compression.
pub fn is_compressible(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    let structured = essence.ends_with("+json") || essence.ends_with("+xml") || essence.ends_with("+yaml");
    essence.starts_with("text/")
        || structured
        || matches!(
            essence.as_str(),
            "application/json"
                | "application/jsonl"
                | "application/json5"
                | "application/x-ndjson"
                | "application/javascript"
                | "application/x-javascript"
                | "application/ecmascript"
                | "application/xml"
                | "application/xml-dtd"
                | "application/yaml"
                | "application/toml"
                | "application/sql"
                | "application/graphql"
                | "application/wasm"
                | "application/rtf"
                | "application/postscript"
                | "application/x-sh"
                | "application/x-tex"
                | "application/x-latex"
                | "application/vnd.apple.mpegurl"
                | "application/vnd.ms-fontobject"
                | "application/x-font-ttf"
                | "font/ttf"
                | "font/otf"
                | "font/sfnt"
                | "font/collection"
                | "image/bmp"
                | "image/x-icon"
                | "image/vnd.microsoft.icon"
                | "model/gltf-binary"
                | "model/stl"
                | "model/obj"
        )
}

/// Text, and XML under other names (RFC 7303). Not JSON: RFC 8259 section 11 defines no charset parameter for
/// it. A type that already has a charset keeps it.
fn takes_charset(media_type: &str) -> bool {
    let (essence, parameters) = media_type.split_once(';').unwrap_or((media_type, ""));
    let essence = essence.trim_end().to_ascii_lowercase();
    let named = parameters.split(';').any(|parameter| {
        let name = parameter.split('=').next().unwrap_or_default();
        name.trim().eq_ignore_ascii_case("charset")
    });
    let text = essence.starts_with("text/")
        || essence.ends_with("+xml")
        || matches!(essence.as_str(), "application/xml" | "application/javascript" | "application/xml-dtd");
    text && !named
}

/// `media-type = type "/" subtype parameters` (RFC 9110 section 8.3.1), without empty parameters.
fn is_media_type(text: &str) -> bool {
    let mut parts = split_outside_quotes(text).into_iter();
    let essence = parts.next().unwrap_or_default().trim_end_matches([' ', '\t']);
    let essence_is_valid =
        essence.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype));
    essence_is_valid && parts.all(|parameter| is_parameter(parameter.trim_matches([' ', '\t'])))
}

fn is_parameter(text: &str) -> bool {
    text.split_once('=')
        .is_some_and(|(name, value)| is_token(name) && (is_token(value) || is_quoted_string(value)))
}

/// The parts between semicolons that are outside quoted strings.
fn split_outside_quotes(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (position, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b';' if !quoted => {
                parts.push(&text[start..position]);
                start = position + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// RFC 9110 section 5.6.4, ASCII only.
fn is_quoted_string(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return false;
    };
    let mut escaped = false;
    for byte in inner.bytes() {
        let printable = matches!(byte, b'\t' | b' '..=b'~');
        if !printable || (byte == b'"' && !escaped) {
            return false;
        }
        escaped = byte == b'\\' && !escaped;
    }
    !escaped
}

/// RFC 9110 section 5.6.2.
fn is_token(text: &str) -> bool {
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token_byte)
}

impl fmt::Display for InvalidContentType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidContentType::Ending(ending) => write!(
                formatter,
                "{ending:?} is not a file name ending; write it like \"html\" or \"tar.gz\""
            ),
            InvalidContentType::MediaType { ending, media_type } => write!(
                formatter,
                "{media_type:?}, given for the ending {ending:?}, is not a media type; write it like \
                 \"text/html\""
            ),
            InvalidContentType::Charset(charset) => {
                write!(formatter, "{charset:?} is not the name of a charset; write it like \"utf-8\"")
            }
        }
    }
}

impl std::error::Error for InvalidContentType {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain() -> ContentTypes {
        ContentTypes::default()
    }

    fn with(overrides: &[(&str, &str)], charset: Option<&str>) -> Result<ContentTypes, InvalidContentType> {
        ContentTypes::new(overrides.iter().copied(), charset)
    }

    #[test]
    fn the_web_of_today() {
        let table = [
            ("/index.html", "text/html"),
            ("/index.htm", "text/html"),
            ("/page.shtml", "text/html"),
            ("/page.xhtml", "application/xhtml+xml"),
            ("/style.css", "text/css"),
            ("/app.js", "text/javascript"),
            ("/app.mjs", "text/javascript"),
            ("/app.js.map", "application/json"),
            ("/data.json", "application/json"),
            ("/data.jsonld", "application/ld+json"),
            ("/data.csv", "text/csv"),
            ("/feed.xml", "text/xml"),
            ("/feed.rss", "application/rss+xml"),
            ("/feed.atom", "application/atom+xml"),
            ("/app.wasm", "application/wasm"),
            ("/app.webmanifest", "application/manifest+json"),
            ("/README.md", "text/markdown"),
            ("/robots.txt", "text/plain"),
            ("/captions.vtt", "text/vtt"),
            ("/calendar.ics", "text/calendar"),
            ("/a.woff", "font/woff"),
            ("/a.woff2", "font/woff2"),
            ("/a.ttf", "font/ttf"),
            ("/a.otf", "font/otf"),
            ("/a.gif", "image/gif"),
            ("/a.jpg", "image/jpeg"),
            ("/a.jpeg", "image/jpeg"),
            ("/a.png", "image/png"),
            ("/a.apng", "image/apng"),
            ("/a.avif", "image/avif"),
            ("/a.webp", "image/webp"),
            ("/a.jxl", "image/jxl"),
            ("/a.svg", "image/svg+xml"),
            ("/favicon.ico", "image/vnd.microsoft.icon"),
            ("/a.mp3", "audio/mpeg"),
            ("/a.m4a", "audio/mp4"),
            ("/a.ogg", "audio/ogg"),
            ("/a.opus", "audio/ogg"),
            ("/a.flac", "audio/flac"),
            ("/a.wav", "audio/wav"),
            ("/a.mp4", "video/mp4"),
            ("/a.m4v", "video/mp4"),
            ("/a.webm", "video/webm"),
            ("/a.ts", "video/mp2t"),
            ("/a.m3u8", "application/vnd.apple.mpegurl"),
            ("/a.mpd", "application/dash+xml"),
            ("/a.pdf", "application/pdf"),
            ("/a.zip", "application/zip"),
            ("/a.gz", "application/gzip"),
            ("/a.tar", "application/x-tar"),
            ("/a.tar.gz", "application/gzip"),
            ("/a.tgz", "application/gzip"),
            ("/a.tar.zst", "application/zstd"),
            ("/a.7z", "application/x-7z-compressed"),
            ("/a.jar", "application/java-archive"),
            ("/a.class", "application/java-vm"),
            ("/a.jnlp", "application/x-java-jnlp-file"),
            ("/a.exe", "application/octet-stream"),
            ("/a.iso", "application/octet-stream"),
        ];
        for (path, expected) in table {
            assert_eq!(plain().content_type(path.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn what_shrinks() {
        for name in [
            "a.html",
            "a.css",
            "a.js",
            "a.mjs",
            "a.json",
            "a.map",
            "a.svg",
            "a.xml",
            "a.rss",
            "a.txt",
            "a.md",
            "a.csv",
            "a.wasm",
            "a.ttf",
            "a.otf",
            "a.ico",
            "a.webmanifest",
            "a.xhtml",
            "a.gltf",
            "a.glb",
            "a.yaml",
            "a.m3u8",
        ] {
            assert!(is_compressible(&plain().content_type(name.as_bytes())), "{name}");
        }
        for name in [
            "a.png", "a.jpg", "a.webp", "a.avif", "a.gif", "a.woff", "a.woff2", "a.mp4", "a.mp3", "a.zip",
            "a.gz", "a.br", "a.zst", "a.tar.gz", "a.pdf", "a.7z", "a.bin", "README",
        ] {
            assert!(!is_compressible(&plain().content_type(name.as_bytes())), "{name}");
        }
        assert!(is_compressible("TEXT/Html ; charset=utf-8"));
        assert!(!is_compressible(""));
    }

    #[test]
    fn names_of_every_shape() {
        let table: &[(&[u8], &str)] = &[
            (b"/INDEX.HTML", "text/html"),
            (b"/Photo.JPeG", "image/jpeg"),
            (b"no-slash.html", "text/html"),
            (b"/jquery-3.7.1.min.js", "text/javascript"),
            (b"/version-1.0", UNKNOWN),
            (b"/a.unknown-ending", UNKNOWN),
            (b"/a.html.unknown", UNKNOWN),
            (b"/README", UNKNOWN),
            (b"/html", UNKNOWN),
            (b"/a.", UNKNOWN),
            (b"/a..html", "text/html"),
            (b"/.html", UNKNOWN),
            (b"/.htaccess", UNKNOWN),
            (b"/.config.json", "application/json"),
            (b"/..html", "text/html"),
            (b"/site.html/", UNKNOWN),
            (b"/site.html/README", UNKNOWN),
            (b"/v1.2/page.html", "text/html"),
            (b"/a.ht\xffml", UNKNOWN),
            (b"/\xff\xfe.html", "text/html"),
            (b"/", UNKNOWN),
            (b"", UNKNOWN),
        ];
        for &(path, expected) in table {
            assert_eq!(plain().content_type(path), expected, "{}", String::from_utf8_lossy(path));
        }
    }

    #[test]
    fn the_site_decides_first_and_the_longest_ending_wins() {
        let types = with(
            &[
                (".HTML", "text/x-mine"),
                ("tar.gz", "application/x-site-archive"),
                ("foo", "text/x-foo; version=\"1;2\""),
            ],
            None,
        )
        .unwrap();
        assert_eq!(types.content_type(b"/a.html"), "text/x-mine");
        assert_eq!(types.content_type(b"/a.HTML"), "text/x-mine");
        assert_eq!(types.content_type(b"/a.tar.gz"), "application/x-site-archive");
        assert_eq!(types.content_type(b"/a-1.2.Tar.GZ"), "application/x-site-archive");
        assert_eq!(types.content_type(b"/a.gz"), "application/gzip");
        assert_eq!(types.content_type(b"/a.foo"), "text/x-foo; version=\"1;2\"");
        assert_eq!(types.content_type(b"/a.css"), "text/css");
    }

    #[test]
    fn charset_only_if_configured_and_only_with_text() {
        assert_eq!(plain().content_type(b"/a.html"), "text/html");
        let overrides = [
            ("latin", "text/plain; charset=iso-8859-1"),
            ("odd", "text/plain;Charset=x"),
            ("flow", "text/plain; format=flowed"),
        ];
        let types = with(&overrides, Some("utf-8")).unwrap();
        let table = [
            ("/a.html", "text/html; charset=utf-8"),
            ("/a.js", "text/javascript; charset=utf-8"),
            ("/a.svg", "image/svg+xml; charset=utf-8"),
            ("/a.xhtml", "application/xhtml+xml; charset=utf-8"),
            ("/a.flow", "text/plain; format=flowed; charset=utf-8"),
            ("/a.json", "application/json"),
            ("/a.png", "image/png"),
            ("/a.latin", "text/plain; charset=iso-8859-1"),
            ("/a.odd", "text/plain;Charset=x"),
            ("/a", UNKNOWN),
        ];
        for (path, expected) in table {
            assert_eq!(types.content_type(path.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn settings_that_would_break_the_head_are_refused() {
        for media_type in [
            "",
            "html",
            "text/",
            "/html",
            "text/html\r\nX: y",
            "text/ html",
            "text/html;",
            "text/html; a",
            "text/html; a=",
            "text/ht\u{e4}ml",
            "text/html; a=\"b",
            "text/html; a=\"b\\\"",
            "a/b/c",
        ] {
            let refused = with(&[("x", media_type)], None).unwrap_err();
            let expected =
                InvalidContentType::MediaType { ending: "x".to_owned(), media_type: media_type.to_owned() };
            assert_eq!(refused, expected);
        }
        for media_type in ["text/html", "text/html;a=b", "text/html ; a=\"b;\\\"c\" ; d=e", "image/svg+xml"] {
            assert!(with(&[("x", media_type)], None).is_ok(), "{media_type}");
        }
        for ending in ["", ".", "a/b", "a\n"] {
            assert_eq!(
                with(&[(ending, "text/html")], None).unwrap_err(),
                InvalidContentType::Ending(ending.to_owned())
            );
        }
        for charset in ["", "utf 8", "utf-8\r\n", "\"utf-8\""] {
            assert_eq!(
                with(&[], Some(charset)).unwrap_err(),
                InvalidContentType::Charset(charset.to_owned())
            );
        }
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let error = with(&[("x", "html")], None).unwrap_err().to_string();
        assert_eq!(
            error,
            "\"html\", given for the ending \"x\", is not a media type; write it like \"text/html\""
        );
    }

    proptest! {
        #[test]
        fn every_path_gets_a_type_that_can_be_sent(path in proptest::collection::vec(any::<u8>(), 0..64)) {
            let types = with(&[("a", "text/x-a")], Some("utf-8")).unwrap();
            let content_type = types.content_type(&path);
            prop_assert!(is_media_type(&content_type), "{content_type}");
        }

        #[test]
        fn the_directory_does_not_matter(directory in "[a-z./]{0,20}", name in "[a-z.]{1,12}") {
            let types = plain();
            let long = format!("{directory}/{name}");
            prop_assert_eq!(types.content_type(long.as_bytes()), types.content_type(name.as_bytes()));
        }

        #[test]
        fn whatever_is_accepted_is_printable(media_type in "[ -~\\t\\n\u{80}]{0,30}") {
            if is_media_type(&media_type) {
                prop_assert!(media_type.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')));
            }
        }
    }
}
