//! The kind of resource of a request: the classes of an imported suite.

/// A kind of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// HTML, and paths without a suffix.
    Pages,
    /// Style sheets.
    Styles,
    /// Scripts.
    Scripts,
    /// Pictures.
    Images,
    /// Fonts.
    Fonts,
    /// Sound and video.
    Media,
    /// JSON, XML, and data that is sent to a server.
    Data,
    /// Another kind.
    Other,
}

impl Kind {
    /// All, in the order of an imported suite.
    pub const ALL: [Kind; 8] = [
        Kind::Pages,
        Kind::Styles,
        Kind::Scripts,
        Kind::Images,
        Kind::Fonts,
        Kind::Media,
        Kind::Data,
        Kind::Other,
    ];

    /// The name of its class.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Pages => "PAGES",
            Kind::Styles => "STYLES",
            Kind::Scripts => "SCRIPTS",
            Kind::Images => "IMAGES",
            Kind::Fonts => "FONTS",
            Kind::Media => "MEDIA",
            Kind::Data => "DATA",
            Kind::Other => "OTHER",
        }
    }

    /// By the suffix of a path.
    pub fn of_path(path: &str) -> Kind {
        let path = path.split('?').next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        let Some((_, suffix)) = name.rsplit_once('.') else { return Kind::Pages };
        match suffix.to_ascii_lowercase().as_str() {
            "html" | "htm" | "shtml" | "xhtml" | "php" | "jsp" | "asp" | "aspx" | "cgi" => Kind::Pages,
            "css" => Kind::Styles,
            "js" | "mjs" => Kind::Scripts,
            "png" | "jpg" | "jpeg" | "gif" | "webp" | "avif" | "svg" | "ico" | "bmp" => Kind::Images,
            "woff" | "woff2" | "ttf" | "otf" | "eot" => Kind::Fonts,
            "mp4" | "webm" | "mp3" | "m4a" | "ogg" | "wav" | "m3u8" | "ts" => Kind::Media,
            "json" | "xml" | "rss" | "atom" => Kind::Data,
            _ => Kind::Other,
        }
    }

    /// By the media type of an answer; by the path if the answer states none.
    pub fn of_media_type(media_type: &str, path: &str) -> Kind {
        let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.split_once('/') {
            Some(("text", "html")) | Some((_, "xhtml+xml")) => Kind::Pages,
            Some(("text", "css")) => Kind::Styles,
            Some((_, "javascript" | "x-javascript" | "ecmascript")) => Kind::Scripts,
            Some(("image", _)) => Kind::Images,
            Some(("font", _)) => Kind::Fonts,
            Some((_, subtype)) if subtype.contains("font") => Kind::Fonts,
            Some(("audio" | "video", _)) => Kind::Media,
            Some((_, subtype)) if subtype.ends_with("json") || subtype.ends_with("xml") => Kind::Data,
            _ => Kind::of_path(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_have_their_kinds() {
        for (path, kind) in [
            ("/", Kind::Pages),
            ("/a/b", Kind::Pages),
            ("/a.b/c", Kind::Pages),
            ("/style.CSS?v=1.js", Kind::Styles),
            ("/x.min.js", Kind::Scripts),
            ("/x.woff2", Kind::Fonts),
            ("/x.tar.gz", Kind::Other),
        ] {
            assert_eq!(Kind::of_path(path), kind, "{path}");
        }
        assert_eq!(Kind::of_media_type("application/json; charset=utf-8", "/x"), Kind::Data);
        assert_eq!(Kind::of_media_type("application/font-woff", "/x"), Kind::Fonts);
        assert_eq!(Kind::of_media_type("", "/x.png"), Kind::Images);
    }
}
