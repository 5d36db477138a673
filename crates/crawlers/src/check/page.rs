//! The pages of the check, with their script and style, which are files of their own so that the pages need
//! no exception from a Content-Security-Policy.

use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use touchstone_config::CHECK_PATH;
use touchstone_handler::answer::{Answer, BodyPart};

const SCRIPT: &str = include_str!("check.js");
const STYLE: &str = include_str!("check.css");

/// The names of the files, which change with them.
static SCRIPT_NAME: LazyLock<String> = LazyLock::new(|| name_of(SCRIPT, "js"));
static STYLE_NAME: LazyLock<String> = LazyLock::new(|| name_of(STYLE, "css"));

fn name_of(text: &str, ending: &str) -> String {
    let hash = URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes()));
    format!("{}.{ending}", &hash[..16])
}

/// What the pages may load and do. Sites may show their own pages in frames, and so this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// The script or the style, by its name.
pub fn file(name: &str) -> Option<Answer> {
    let (text, media_type) = match name {
        name if name == *SCRIPT_NAME => (SCRIPT, "text/javascript; charset=utf-8"),
        name if name == *STYLE_NAME => (STYLE, "text/css; charset=utf-8"),
        _ => return None,
    };
    let answer = Answer::new(200)
        .field("Content-Type", media_type)
        .field("Cache-Control", "public, max-age=86400")
        .field("X-Content-Type-Options", "nosniff")
        // A worker has the policy of its own script.
        .field("Content-Security-Policy", "default-src 'none'")
        .part(BodyPart::Bytes(text.as_bytes().into()));
    Some(answer)
}

/// A task as the page needs it.
pub struct Task<'t> {
    /// Its text.
    pub text: &'t str,
    /// The required zero bits.
    pub difficulty: u8,
    /// The remaining seconds to wait; `None`: this is not possible.
    pub wait_s: Option<u64>,
    /// The path, with its query, that the visitor has requested.
    pub to: &'t str,
}

/// The page with a task.
pub fn challenge(task: &Task<'_>) -> Answer {
    let to = attribute(task.to);
    let script = format!(
        "<script src=\"{CHECK_PATH}{}\" data-task=\"{}\" data-bits=\"{}\" data-to=\"{to}\" defer></script>",
        *SCRIPT_NAME, task.text, task.difficulty
    );
    let (refresh, other_way) = match task.wait_s {
        None => (String::new(), "<noscript><p>Please allow scripts for this site.</p></noscript>".into()),
        Some(seconds) => {
            let query = touchstone_http::addresses::form([("task", task.text), ("to", task.to)]);
            let way = attribute(&format!("{CHECK_PATH}wait?{query}"));
            // A second more, since tasks are issued within one.
            let after = seconds + 1;
            let times = if after == 1 { "a second".to_string() } else { format!("{after} seconds") };
            (
                format!("<noscript><meta http-equiv=\"refresh\" content=\"{after}; url={way}\"></noscript>"),
                format!(
                    "<noscript><p>Without scripts, the page loads by itself in \
                     {times}.</p></noscript>\n<p><small>If the page does not load, wait for {times}, then \
                     follow <a href=\"{way}\" rel=\"nofollow\">this link</a>.</small></p>"
                ),
            )
        }
    };
    page(
        "One moment, please",
        &format!("{refresh}{script}"),
        &format!(
            "<p id=\"status\" role=\"status\">This site checks that a browser requests its pages, and not a \
             program that copies all of them. The check takes a few seconds.</p>\n<progress id=\"progress\" \
             max=\"1\" value=\"0\" aria-label=\"Progress of the check\" hidden></progress>\n{other_way}"
        ),
    )
}

/// The page for a request that cannot be sent again without its body, such as a form.
pub fn not_sent(to: &str) -> Answer {
    let to = attribute(to);
    page(
        "What you sent has not been taken",
        "",
        &format!(
            "<p>This site checks browsers before it accepts data from them, and the check of this browser \
             has expired or was not done. The data was not stored.</p>\n<p>Go back, so that you do not lose \
             your input, <a href=\"{to}\" target=\"_blank\" rel=\"noopener\">open the page in a new tab</a> \
             to pass the check, and send it again.</p>"
        ),
    )
}

/// The page for a browser that keeps no cookies.
pub fn no_cookies(to: &str) -> Answer {
    let to = attribute(to);
    page(
        "Cookies are needed",
        "",
        &format!(
            "<p>This site stores in a cookie that a browser has passed its check, and this browser does not \
             store cookies of this site. The cookie contains no personal data.</p>\n<p>Please allow cookies \
             for this site, and <a href=\"{to}\">try again</a>.</p>"
        ),
    )
}

/// The page for a task that is over, or an answer that is wrong.
pub fn again(to: &str) -> Answer {
    let to = attribute(to);
    page(
        "The check did not succeed",
        "",
        &format!(
            "<p>The check took too long, or properties of this browser have changed during it.</p>\n<p><a \
             href=\"{to}\">Try again</a>.</p>"
        ),
    )
}

fn page(title: &str, head: &str, body: &str) -> Answer {
    let text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"robots\" content=\"noindex\">\n<title>{title}</title>\n\
         <link rel=\"stylesheet\" href=\"{CHECK_PATH}{}\">\n{head}</head>\n\
         <body><main><h1>{title}</h1>\n{body}\n</main></body></html>\n",
        *STYLE_NAME
    );
    Answer::new(403)
        .field("Content-Type", "text/html; charset=utf-8")
        .field("Cache-Control", "no-store")
        .field("Content-Security-Policy", POLICY)
        .field("Referrer-Policy", "same-origin")
        .field("X-Content-Type-Options", "nosniff")
        .field("X-Robots-Tag", "noindex")
        .part(BodyPart::Bytes(text.into()))
}

/// Text for a value of an attribute between double quotes.
fn attribute(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_request_becomes_markup() {
        let to = "/a?b=\"><script>alert(1)</script>&c='";
        for answer in [
            challenge(&Task { text: "t", difficulty: 16, wait_s: Some(5), to }),
            challenge(&Task { text: "t", difficulty: 16, wait_s: None, to }),
            not_sent(to),
            no_cookies(to),
            again(to),
        ] {
            let fields = String::from_utf8(answer.fields.clone()).unwrap();
            assert!(fields.contains("Cache-Control: no-store\r\n"), "{fields}");
            let BodyPart::Bytes(body) = &answer.body[0] else { panic!("a page has bytes") };
            let text = String::from_utf8(body.to_vec()).unwrap();
            assert!(!text.contains("<script>") && !text.contains("\">alert"), "{text}");
            assert!(text.contains("<html lang=\"en\">") && text.contains("width=device-width"), "{text}");
        }
    }

    #[test]
    fn files_are_found_by_their_names_only() {
        for name in [&*SCRIPT_NAME, &*STYLE_NAME] {
            assert_eq!(file(name).unwrap().status, 200);
        }
        assert!(file("check.js").is_none() && file("").is_none() && file("../x").is_none());
    }
}
