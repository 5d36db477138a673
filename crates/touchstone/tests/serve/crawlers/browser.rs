//! The check in a real browser: with scripts, without them, and its appearance.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use super::devtools::Browser;
use super::visitor::zero_bits;
use crate::support::{ALPHABET, Server, Tree, skipped};

/// Far longer than the check takes on a busy machine.
const MOST: Duration = Duration::from_secs(60);

fn start(tree: &Tree, keys: &str) -> Server {
    let fields = "security_fields = {}\n";
    let keys = format!("{}{fields}crawlers = {{ challenge = \"browsers\"{keys} }}\n", tree.configuration(""));
    Server::configured(tree.around(), &keys)
}

fn browser() -> Option<Browser> {
    let browser = Browser::start();
    if browser.is_none() {
        skipped("the check in a browser (install chromium)");
    }
    browser
}

#[test]
fn a_browser_with_scripts_passes_by_itself() {
    let Some(browser) = browser() else { return };
    let tree = Tree::standard();
    let server = start(&tree, ", difficulty = 12");
    let top = format!("http://127.0.0.1:{}", server.address().port());
    let mut page = browser.open(&format!("{top}/alphabet.txt?a=b#there"));
    page.wait_for_text(ALPHABET.trim(), MOST);
    let address = page.evaluate("location.pathname + location.search + location.hash");
    assert_eq!(address, json!("/alphabet.txt?a=b#there"));
    // The next page is loaded at once.
    page.go(&format!("{top}/page.html"));
    page.wait_for("document.title === 'Page'", MOST);
}

#[test]
fn a_browser_without_scripts_passes_by_waiting() {
    let Some(browser) = browser() else { return };
    let tree = Tree::standard();
    let server = start(&tree, ", wait = \"10s\"");
    let mut page = browser.open("about:blank");
    page.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
    page.go(&format!("http://127.0.0.1:{}/alphabet.txt", server.address().port()));
    page.wait_for_text("the page loads by itself in 11 seconds", MOST);
    page.wait_for_text(ALPHABET.trim(), MOST);
}

#[test]
fn the_page_fits_small_screens_and_dark_ones() {
    let Some(browser) = browser() else { return };
    let tree = Tree::standard();
    let server = start(&tree, ", difficulty = 28");
    let mut page = browser.open("about:blank");
    // The worker gets no task: a task of any difficulty can have an early answer, which would end the page.
    let without_task = json!({ "source": "Worker.prototype.postMessage = () => {};" });
    page.call("Page.enable", json!({}));
    page.call("Page.addScriptToEvaluateOnNewDocument", without_task);
    let mut backgrounds = Vec::new();
    for (scheme, width) in [("light", 390), ("dark", 390), ("light", 1000), ("dark", 1000)] {
        page.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": 700, "deviceScaleFactor": 1, "mobile": width < 500 }),
        );
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        page.call("Emulation.setEmulatedMedia", features);
        page.go(&format!("http://127.0.0.1:{}/alphabet.txt", server.address().port()));
        page.wait_for("document.querySelector('progress:not([hidden])') !== null", MOST);
        page.wait_for("getComputedStyle(document.querySelector('main')).maxWidth === '576px'", MOST);
        let overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth");
        assert!(overflow.as_i64().unwrap() <= 0, "{scheme} {width}: {overflow}");
        backgrounds.push(page.evaluate("getComputedStyle(document.body).backgroundColor"));
        let parts = "[document.documentElement.lang, document.querySelectorAll('h1').length, \
                     document.querySelectorAll('main').length, \
                     document.getElementById('status').role].join()";
        assert_eq!(page.evaluate(parts), json!("en,1,1,status"));
        let built = Path::new(env!("CARGO_BIN_EXE_touchstone"));
        let pictures = built.ancestors().nth(2).unwrap().join("screenshots");
        std::fs::create_dir_all(&pictures).unwrap();
        page.screenshot(&pictures.join(format!("check-{scheme}-{width}.png")));
    }
    assert_eq!(backgrounds[..2], backgrounds[2..]);
    assert_ne!(backgrounds[0], backgrounds[1], "a dark screen gets a dark page");
}

#[test]
fn the_script_computes_without_webcrypto_too() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/crawlers/search.mjs");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crawlers/src/check/check.js");
    for (task, bits) in [("abc", 10), ("a longer task, so that there are two blocks of 64 bytes to hash", 9)]
    {
        let node = Command::new("node").arg(&tests).arg(&script).args([task, &bits.to_string()]).output();
        let Ok(output) = node else {
            skipped("the script of the check without WebCrypto (install nodejs)");
            return;
        };
        let answer = String::from_utf8(output.stdout).unwrap().trim().to_string();
        assert!(!answer.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(zero_bits(task, &answer) >= bits, "{task}: {answer}");
    }
}
