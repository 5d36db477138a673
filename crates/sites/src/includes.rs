//! The settings of a site's pages with directives.

use std::sync::Arc;

use touchstone_config::{IncludesConfig, XBitHack};
use touchstone_files::root::FileFacts;
use touchstone_includes::{Grammar, Settings};

/// The settings of a site's pages with directives, ready for use.
pub struct SiteIncludes {
    /// The settings of the language.
    pub settings: Arc<Settings>,
    config: IncludesConfig,
}

/// The execute permission of the owner, and of the group.
const OWNER_EXECUTES: u32 = 0o100;
const GROUP_EXECUTES: u32 = 0o010;

impl SiteIncludes {
    /// Applies a configuration.
    pub fn new(config: &IncludesConfig) -> SiteIncludes {
        let settings = Settings {
            exec: config.exec,
            grammar: config.expressions,
            error_text: error_text(config).into(),
            undefined_text: config.undefined_text.clone().into(),
            time_format: config.time_format.clone().into(),
            start_tag: config.start_tag.as_bytes().into(),
            end_tag: config.end_tag.as_bytes().into(),
            most_depth: config.depth,
            most_includes: config.inclusions,
            concurrent_includes: config.concurrent,
            most_output_bytes: config.output_bytes,
        };
        SiteIncludes { settings: Arc::new(settings), config: config.clone() }
    }

    /// Whether a file is a page with directives.
    pub fn is_page(&self, file_path: &[u8], facts: &FileFacts, content_type: &str) -> bool {
        let by_name = self.config.suffixes.iter().any(|suffix| file_path.ends_with(suffix.as_bytes()));
        by_name
            || (self.config.xbithack != XBitHack::Off
                && facts.permissions & OWNER_EXECUTES != 0
                && content_type.split(';').next().is_some_and(|media_type| media_type.trim() == "text/html"))
    }

    /// Whether an answer of a program or origin with this media type is a page.
    pub fn is_page_type(&self, content_type: &[u8]) -> bool {
        let media_type = content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        self.config
            .types
            .iter()
            .any(|known| known == "*" || known.as_bytes().eq_ignore_ascii_case(media_type))
    }

    /// Whether a field of an answer of a program or origin is kept. Fields that describe its bytes may be
    /// wrong for the page.
    pub fn keeps_field(&self, name: &[u8]) -> bool {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        let others: [&[u8]; 5] =
            [b"accept-ranges", b"content-md5", b"digest", b"content-digest", b"repr-digest"];
        match () {
            () if is(b"last-modified") => self.config.last_modified,
            () if is(b"etag") => self.config.etag,
            () => !others.iter().any(|other| is(other)),
        }
    }

    /// Whether answers have the modification time of the page's file.
    pub fn has_last_modified(&self, facts: &FileFacts) -> bool {
        let by_permission = self.config.xbithack == XBitHack::Full && facts.permissions & GROUP_EXECUTES != 0;
        self.config.last_modified || by_permission
    }

    /// Whether answers have the entity tag of the page's file.
    pub fn has_etag(&self) -> bool {
        self.config.etag
    }

    /// The largest page.
    pub fn page_bytes(&self) -> u64 {
        self.config.page_bytes
    }

    /// How long a command may run.
    pub fn exec_timeout(&self) -> std::time::Duration {
        self.config.exec_timeout
    }
}

/// The text for errors: that of nginx differs from that of Apache, which is the default.
fn error_text(config: &IncludesConfig) -> String {
    let is_default = config.error_text == IncludesConfig::default().error_text;
    match is_default && config.expressions == Grammar::Nginx {
        true => "[an error occurred while processing the directive]".to_owned(),
        false => config.error_text.clone(),
    }
}
