//! The common parts of the HTML pages: their frame, their style and script, and their content security
//! policy.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("live.js");

/// An HTML page with its policy.
pub struct Html {
    /// The page.
    pub text: String,
    /// The value of Content-Security-Policy.
    pub policy: String,
}

/// The frame of a page.
pub fn page_of(title: &str, current: &str, refresh: Option<u32>, content: &Markup) -> Markup {
    let link = |path: &str, name: &str| {
        let is_current = path.trim_start_matches('/') == current;
        html! { a href=(path) aria-current=[is_current.then_some("page")] { (name) } }
    };
    html! {
        html lang="en" data-refresh=[refresh] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (title) " \u{b7} Touchstone" }
                @if let Some(seconds) = refresh {
                    noscript { meta http-equiv="refresh" content=(seconds); }
                }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the figures" }
                header {
                    h1 { "Touchstone" }
                    nav aria-label="Pages" {
                        (link("/status", "Status"))
                        (link("/sessions", "Sessions"))
                        (link("/metrics", "Metrics"))
                    }
                    div.refresh {
                        label for="refresh" { "Refresh" }
                        select id="refresh" {
                            option value="0" { "off" }
                            option value="1" { "every second" }
                            option value="2" selected { "every 2 s" }
                            option value="5" { "every 5 s" }
                            option value="30" { "every 30 s" }
                        }
                        output id="updated" for="refresh" { }
                    }
                    noscript { p.note { a href="?refresh=5" { "Refresh every 5 seconds" } } }
                }
                main id="main" { (content) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// The policy of a page: it may run its own script and style, and request from this listener.
pub fn policy() -> String {
    static POLICY: LazyLock<String> = LazyLock::new(|| {
        let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
        format!(
            "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            hash(STYLE),
            hash(SCRIPT)
        )
    });
    POLICY.clone()
}
