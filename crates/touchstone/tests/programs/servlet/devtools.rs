//! A headless Chromium that is driven over a pipe, by the DevTools protocol: each message is JSON, and ends
//! in a zero byte.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

/// Far longer than any answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// The names that it has.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

pub(crate) struct Browser {
    child: Child,
    input: RefCell<ChildStdin>,
    messages: Receiver<Value>,
    last_id: Cell<u64>,
    _profile: tempfile::TempDir,
}

/// A page of it.
pub(crate) struct Page<'b> {
    browser: &'b Browser,
    target: String,
    session: String,
}

impl Browser {
    /// Starts one; `None` where there is none.
    pub(crate) fn start() -> Option<Browser> {
        let found = |name: &&&str| Command::new(name).arg("--version").stdout(Stdio::null()).status().is_ok();
        let name = NAMES.iter().find(found)?;
        let profile = tempfile::tempdir().unwrap();
        // It reads at descriptor 3 and writes at 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null", name])
            .args([
                "--headless",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args(["--disable-dev-shm-usage", "--disable-background-networking", "--no-proxy-server"])
            .args(["--ignore-certificate-errors", "--window-size=1000,700"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = RefCell::new(child.stdin.take().unwrap());
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (send, messages) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while output.read_until(0, &mut message).is_ok_and(|count| count > 0) {
                let text = message.strip_suffix(&[0]).unwrap_or(&message);
                if send.send(serde_json::from_slice(text).unwrap()).is_err() {
                    return;
                }
                message.clear();
            }
        });
        Some(Browser { child, input, messages, last_id: Cell::new(0), _profile: profile })
    }

    /// Opens a page.
    pub(crate) fn open(&self, url: &str) -> Page<'_> {
        let target = self.call(None, "Target.createTarget", json!({ "url": "about:blank" }));
        let target = target["targetId"].as_str().unwrap().to_string();
        let attached =
            self.call(None, "Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        let session = attached["sessionId"].as_str().unwrap().to_string();
        let mut page = Page { browser: self, target, session };
        page.go(url);
        page
    }

    fn call(&self, session: Option<&str>, method: &str, parameters: Value) -> Value {
        self.try_call(session, method, parameters).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_call(&self, session: Option<&str>, method: &str, parameters: Value) -> Result<Value, Value> {
        let id = self.last_id.get() + 1;
        self.last_id.set(id);
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.borrow_mut().write_all(&bytes).unwrap();
        loop {
            let mut answer =
                self.messages.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{method}: {error}"));
            if answer["id"] == id {
                let error = answer["error"].take();
                return if error.is_null() { Ok(answer["result"].take()) } else { Err(error) };
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Page<'_> {
    /// Calls a method of the protocol.
    pub(crate) fn call(&self, method: &str, parameters: Value) -> Value {
        self.browser.call(Some(&self.session), method, parameters)
    }

    /// Goes elsewhere.
    pub(crate) fn go(&mut self, url: &str) {
        let result = self.call("Page.navigate", json!({ "url": url }));
        assert!(result["errorText"].is_null(), "{url}: {}", result["errorText"]);
    }

    /// The value of an expression of JavaScript.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let mut result =
            self.call("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait_for(&mut self, expression: &str, most: Duration) {
        let until = Instant::now() + most;
        let ask = json!({ "expression": format!("Boolean({expression})"), "returnByValue": true });
        // During a navigation there is no page, or not yet the requested one.
        let is_true = || {
            let answer = self.browser.try_call(Some(&self.session), "Runtime.evaluate", ask.clone());
            answer.is_ok_and(|answer| answer["result"]["value"] == true)
        };
        while !is_true() {
            if Instant::now() > until {
                panic!("{expression} on the page:\n{}", self.evaluate("document.body.innerText"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until a text can be read on the page.
    pub(crate) fn wait_for_text(&mut self, text: &str, most: Duration) {
        self.wait_for(&format!("document.body.innerText.includes({})", json!(text)), most);
    }

    /// Puts the caret into a field.
    pub(crate) fn focus(&mut self, selector: &str) {
        self.evaluate(&format!("document.querySelector({}).focus()", json!(selector)));
    }

    /// Types where the caret is.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Presses the key Enter.
    pub(crate) fn press_enter(&mut self) {
        for kind in ["keyDown", "keyUp"] {
            let key = json!({ "type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13 });
            self.call("Input.dispatchKeyEvent", key);
        }
    }

    /// Leaves a picture of it.
    pub(crate) fn screenshot(&mut self, path: &Path) {
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let picture =
            base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        std::fs::write(path, picture).unwrap();
    }

    /// Closes it.
    pub(crate) fn close(self) {
        self.browser.call(None, "Target.closeTarget", json!({ "targetId": self.target }));
    }
}
