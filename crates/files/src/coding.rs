//! The content codings of a file, and the sources of its coded forms.
//!
//! A coded form is either a file that the publisher has put beside the original (a twin: `page.html.br`
//! beside `page.html`), or it is made here once and cached. Only compressible types are considered, from
//! [`LEAST_BYTES`] on.

use touchstone_http::content_coding::ContentCoding;

use crate::mime::is_compressible;
use crate::root::{FileFacts, FileKind, Root};

/// Below this size a coding saves less than its own fields take.
pub const LEAST_BYTES: u64 = 256;

/// The settings of a site for content codings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodingSettings {
    /// All codings, the preferred one first.
    pub order: [ContentCoding; 3],
    /// The level of compression, by [`ContentCoding`]; `None`: this coding is not made.
    pub levels: [Option<u8>; 3],
    /// Whether twins are searched for.
    pub precompressed: bool,
}

impl CodingSettings {
    /// No content coding is used.
    pub const OFF: CodingSettings =
        CodingSettings { order: ContentCoding::ALL, levels: [None; 3], precompressed: false };

    /// True when Accept-Encoding never matters.
    pub fn is_off(&self) -> bool {
        !self.precompressed && self.levels == [None; 3]
    }

    /// The coded forms of the file at `file_path`. `kept`: it fits into the cache, so that a form needs to be
    /// made only once.
    pub fn codings(
        &self,
        root: &Root,
        file_path: &[u8],
        facts: &FileFacts,
        content_type: &str,
        kept: bool,
    ) -> Codings {
        if facts.size < LEAST_BYTES || !is_compressible(content_type) {
            return Codings::NONE;
        }
        let twins = self.precompressed.then(|| PrecompressedFiles::find(root, file_path));
        Codings { original: Some(*facts), twins, levels: if kept { self.levels } else { [None; 3] } }
    }
}

/// The coded forms that one version of a file has or could have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Codings {
    original: Option<FileFacts>,
    /// `None`: no twins were searched for.
    pub(crate) twins: Option<PrecompressedFiles>,
    levels: [Option<u8>; 3],
}

/// The source of a coded form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodingSource {
    /// A file beside the original.
    Twin(FileFacts),
    /// It is made here with this level.
    Compress {
        /// The level.
        level: u8,
    },
}

impl Codings {
    /// No coded forms, for a file that is always sent unchanged.
    pub const NONE: Codings = Codings { original: None, twins: None, levels: [None; 3] };

    /// The source of this coding; `None`: there is none.
    pub fn source(&self, coding: ContentCoding) -> Option<CodingSource> {
        self.twin(coding)
            .map(CodingSource::Twin)
            .or(self.levels[coding as usize].map(|level| CodingSource::Compress { level }))
    }

    /// The twin of this coding, if it may be sent.
    pub fn twin(&self, coding: ContentCoding) -> Option<FileFacts> {
        let twin = self.twins.as_ref()?.by_coding[coding as usize]?;
        // Whole seconds are compared, because tools that copy the original's time to the twin may cut off the
        // fraction.
        let is_as_new = twin.modified_seconds >= self.original.as_ref()?.modified_seconds;
        (is_as_new && twin.size > 0).then_some(twin)
    }

    /// The level at which this coding is made from a file that fits into the cache; `None`: it is not made.
    pub fn level(&self, coding: ContentCoding) -> Option<u8> {
        self.levels[coding as usize]
    }

    /// Whether the answer can depend on Accept-Encoding. It must then have a Vary field (RFC 9110 section
    /// 12.5.5).
    pub fn is_negotiable(&self) -> bool {
        ContentCoding::ALL.into_iter().any(|coding| self.source(coding).is_some())
    }
}

/// The files beside a file that may be its coded forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrecompressedFiles {
    by_coding: [Option<FileFacts>; 3],
}

impl PrecompressedFiles {
    /// Searches for the twins. Files that may not be served count as missing.
    pub fn find(root: &Root, file_path: &[u8]) -> PrecompressedFiles {
        let by_coding = ContentCoding::ALL.map(|coding| {
            let facts = root.facts(&twin_path(file_path, coding)).ok()?;
            (facts.kind == FileKind::Regular).then_some(facts)
        });
        PrecompressedFiles { by_coding }
    }

    /// Whether `other` describes the same versions of the same files.
    pub fn same_version(&self, other: &PrecompressedFiles) -> bool {
        self.by_coding.iter().zip(&other.by_coding).all(|pair| match pair {
            (Some(one), Some(other)) => one.same_version(other),
            (None, None) => true,
            _ => false,
        })
    }
}

/// The path of a file's twin.
pub fn twin_path(file_path: &[u8], coding: ContentCoding) -> Vec<u8> {
    [file_path, coding.file_suffix().as_bytes()].concat()
}

/// The entity tag of a twin.
pub fn twin_etag(twin: &FileFacts, coding: ContentCoding) -> Box<[u8]> {
    suffixed_etag(twin.etag().as_bytes(), coding.token())
}

/// Whether `name` is the name of a twin of `original`.
pub(crate) fn is_twin_name(name: &[u8], original: &[u8]) -> bool {
    name.strip_prefix(original)
        .is_some_and(|rest| ContentCoding::ALL.iter().any(|coding| coding.file_suffix().as_bytes() == rest))
}

/// The entity tag of a coded form: `suffix` is added inside the quotes, so that each form has its own tag
/// (RFC 9110 section 8.8.3.3).
pub(crate) fn suffixed_etag(etag: &[u8], suffix: &str) -> Box<[u8]> {
    let inner = etag.strip_suffix(b"\"").unwrap_or(etag);
    [inner, b"-", suffix.as_bytes(), b"\""].concat().into()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::root::SymlinkPolicy;

    const SETTINGS: CodingSettings =
        CodingSettings { order: ContentCoding::ALL, levels: [Some(5), None, Some(6)], precompressed: true };

    fn write(directory: &tempfile::TempDir, name: &str, length: usize, modified_ms: u64) {
        let path = directory.path().join(name);
        fs::write(&path, vec![b'x'; length]).unwrap();
        let time = UNIX_EPOCH + Duration::from_millis(modified_ms);
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    fn codings(
        directory: &tempfile::TempDir,
        settings: &CodingSettings,
        content_type: &str,
        kept: bool,
    ) -> Codings {
        let root = Root::new(directory.path(), SymlinkPolicy::Inside).unwrap();
        let facts = root.facts(b"/a.html").unwrap();
        settings.codings(&root, b"/a.html", &facts, content_type, kept)
    }

    #[test]
    fn a_twin_takes_precedence_over_compressing() {
        let directory = tempfile::tempdir().unwrap();
        write(&directory, "a.html", 1000, 5_900);
        write(&directory, "a.html.br", 10, 5_000);
        write(&directory, "a.html.zst", 10, 4_999);
        let codings = codings(&directory, &SETTINGS, "text/html", true);
        assert!(matches!(
            codings.source(ContentCoding::Brotli),
            Some(CodingSource::Twin(facts)) if facts.size == 10
        ));
        assert_eq!(codings.source(ContentCoding::Zstd), None, "older than the original, and not made here");
        assert_eq!(codings.source(ContentCoding::Gzip), Some(CodingSource::Compress { level: 6 }));
        assert!(codings.is_negotiable());
    }

    #[test]
    fn what_is_not_kept_is_not_compressed() {
        let directory = tempfile::tempdir().unwrap();
        write(&directory, "a.html", 1000, 5_000);
        assert!(!codings(&directory, &SETTINGS, "text/html", false).is_negotiable());
        write(&directory, "a.html.gz", 10, 6_000);
        let codings = codings(&directory, &SETTINGS, "text/html", false);
        assert!(matches!(codings.source(ContentCoding::Gzip), Some(CodingSource::Twin(_))));
        assert_eq!(codings.source(ContentCoding::Brotli), None);
    }

    #[test]
    fn content_that_does_not_shrink_is_sent_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        write(&directory, "a.html", 1000, 5_000);
        write(&directory, "a.html.gz", 10, 6_000);
        assert_eq!(codings(&directory, &SETTINGS, "image/png", true), Codings::NONE);
        write(&directory, "a.html", 255, 5_000);
        assert_eq!(codings(&directory, &SETTINGS, "text/html", true), Codings::NONE);
        write(&directory, "a.html", 256, 5_000);
        assert!(codings(&directory, &SETTINGS, "text/html", true).is_negotiable());
        assert!(!codings(&directory, &CodingSettings::OFF, "text/html", true).is_negotiable());
    }

    #[test]
    fn empty_files_and_directories_are_no_twins() {
        let directory = tempfile::tempdir().unwrap();
        write(&directory, "a.html", 1000, 5_000);
        write(&directory, "a.html.br", 0, 6_000);
        fs::create_dir(directory.path().join("a.html.gz")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("a.html.zst")).unwrap();
        let settings = CodingSettings { levels: [None; 3], ..SETTINGS };
        assert!(!codings(&directory, &settings, "text/html", true).is_negotiable());
    }

    #[test]
    fn names_and_tags() {
        assert_eq!(twin_path(b"/a.html", ContentCoding::Zstd), b"/a.html.zst");
        for (name, expected) in
            [("a.html.br", true), ("a.html.gz", true), ("a.html", false), ("a.html.bz", false)]
        {
            assert_eq!(is_twin_name(name.as_bytes(), b"a.html"), expected, "{name}");
        }
        assert_eq!(&*suffixed_etag(b"\"abc\"", "br5"), b"\"abc-br5\"");
    }
}
