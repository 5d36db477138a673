//! A real browser for tests of pages: it opens a copy of a page with a script in it, in a frame of a certain
//! width, and the script returns what it found.
//!
//! A window of Chromium has at least 500 pixels, so a telephone is a frame of 390 in it. The pages forbid
//! every script but their own, so the copy is without that policy.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where the browser writes the outcome.
const FOUND: &str = "<pre id=\"found\">";

/// How a page is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Viewport {
    /// For messages.
    pub(super) name: &'static str,
    /// Pixels.
    pub(super) width: u32,
    /// Whether the reader's setting is dark.
    pub(super) is_dark: bool,
}

/// A screen and a telephone, in light and in dark colours.
pub(super) const LOOKS: [Viewport; 4] = [
    Viewport { name: "light", width: 1280, is_dark: false },
    Viewport { name: "dark", width: 1280, is_dark: true },
    Viewport { name: "narrow", width: 390, is_dark: false },
    Viewport { name: "narrow and dark", width: 390, is_dark: true },
];

/// The browser's program, where there is one.
pub(super) fn program() -> Option<&'static str> {
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(is_there)
}

/// The page with scripts in it and without its own policy.
fn with_scripts(page: &str, scripts: &[&str]) -> String {
    let policy = page.find("<meta http-equiv=\"Content-Security-Policy\"");
    let without = policy.map_or_else(
        || page.to_owned(),
        |start| {
            let end = start + page[start..].find('>').expect("the tag ends") + 1;
            page[..start].to_owned() + &page[end..]
        },
    );
    let scripts: String = scripts.iter().map(|script| format!("<script>{script}</script>")).collect();
    without.replacen("</head>", &format!("{scripts}</head>"), 1)
}

/// Opens a page with scripts. The last one passes what it found to `parent.postMessage(text, "*")`: JSON,
/// with `encodeURIComponent` around it.
pub(super) fn run(program: &str, directory: &Path, page: &str, scripts: &[&str], look: Viewport) -> Value {
    run_all(program, directory, &[page], scripts, &[look]).remove(0)
}

/// The same for several pages, each with several styles of the same colours, in one browser: its start takes
/// longer than most pages. Returns what was found for each page with each style, in that order.
pub(super) fn run_all(
    program: &str,
    directory: &Path,
    pages: &[&str],
    scripts: &[&str],
    looks: &[Viewport],
) -> Vec<Value> {
    let is_dark = looks[0].is_dark;
    assert!(looks.iter().all(|look| look.is_dark == is_dark), "a browser has colours of one kind");
    let mut views = Vec::new();
    for (number, page) in pages.iter().enumerate() {
        let name = format!("page{number}.html");
        fs::write(directory.join(&name), with_scripts(page, scripts)).expect("written");
        views.extend(looks.iter().map(|look| (name.clone(), look.width)));
    }
    let frame = format!(
        "<!doctype html><title>frame</title><body style=\"margin:0\"><script>\
         const views = {}, found = [];\
         const next = () => {{ const view = views[found.length];\
           const place = document.createElement(view ? \"iframe\" : \"pre\");\
           if (view) {{ place.src = view[0]; place.style = `border:0;width:${{view[1]}}px;height:900px`; }}\
           else {{ place.id = \"found\"; place.textContent = found.join(\"|\"); }}\
           document.body.replaceChildren(place); }};\
         addEventListener(\"message\", (event) => {{ found.push(event.data); next(); }}); next();</script>",
        serde_json::to_string(&views).expect("names and numbers are JSON"),
    );
    let path = directory.join("frame.html");
    fs::write(&path, frame).expect("written");
    let widest = looks.iter().map(|look| look.width).max().unwrap_or_default();
    let mut command = Command::new(program);
    command
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--hide-scrollbars", "--no-first-run", "--disable-extensions"])
        .args(["--virtual-time-budget=600000", "--timeout=600000", "--allow-file-access-from-files"])
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .arg(format!("--window-size={widest},900"));
    if is_dark {
        command.arg("--blink-settings=preferredColorScheme=0");
    }
    let output = command
        .arg("--dump-dom")
        .arg(format!("file://{}", path.display()))
        .output()
        .expect("the browser starts");
    let document = String::from_utf8_lossy(&output.stdout);
    let start = document
        .find(FOUND)
        .unwrap_or_else(|| panic!("the script did not finish: {}", String::from_utf8_lossy(&output.stderr)));
    let text = &document[start + FOUND.len()..];
    let text = &text[..text.find('<').expect("the element ends")];
    let decode = |part| serde_json::from_slice(&percent_decoded(part)).expect("the script gave JSON");
    text.split('|').map(decode).collect()
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}
