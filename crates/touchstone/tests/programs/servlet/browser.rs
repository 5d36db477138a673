//! Tomcat's example application in a real browser: the test clicks and types as a person would, and reads the
//! page. The pictures are left in `screenshots` below the target directory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use super::devtools::{Browser, Page};
use super::{START, applications, route, start, target, trial};
use crate::support::{Server, Tree, skipped};

/// The server with the examples, over TLS or not, and a browser.
fn examples(tree: &Tree, is_secure: bool) -> Option<(Server, Browser, String)> {
    trial()?;
    let Some(apps) = applications() else {
        skipped("Tomcat's examples in a browser (Maven cannot fetch them; install maven unzip)");
        return None;
    };
    let Some(browser) = Browser::start() else {
        skipped("Tomcat's examples in a browser (install chromium)");
        return None;
    };
    let tls = if is_secure { "development_certificate = true\n" } else { "" };
    let routes = tls.to_string() + &route("/examples/", &format!("app = {:?}", apps.join("examples")));
    let server = start(tree, "", &routes, 1);
    let scheme = if is_secure { "https" } else { "http" };
    let top = format!("{scheme}://localhost:{}/examples", server.address().port());
    Some((server, browser, top))
}

fn picture(page: &mut Page<'_>, name: &str) {
    let directory = target().join("screenshots");
    std::fs::create_dir_all(&directory).unwrap();
    page.screenshot(&directory.join(format!("{name}.png")));
}

#[test]
fn examples_of_servlets_pages_and_sessions_work_in_a_browser() {
    let tree = Tree::empty();
    let Some((_server, browser, top)) = examples(&tree, false) else { return };
    let mut page = browser.open(&format!("{top}/servlets/"));
    page.wait_for_text("Servlet Examples", START);
    picture(&mut page, "servlets");
    page.evaluate("document.querySelector('a[href=\"servlet/HelloWorldExample\"]').click()");
    page.wait_for_text("Hello World!", START);

    page.go(&format!("{top}/jsp/jsp2/el/basic-arithmetic.jsp"));
    page.wait_for_text("${(1==2) ? 3 : 4}", START);
    let cells = "Array.from(document.querySelectorAll('td')).map(cell => cell.innerText).join('|')";
    let cells = page.evaluate(cells).as_str().unwrap().to_string();
    assert!(cells.contains("${1.2 + 2.3}|3.5|") && cells.contains("${(1==2) ? 3 : 4}|4"), "{cells}");
    picture(&mut page, "pages");
    page.go(&format!("{top}/jsp/jsp2/tagfiles/panel.jsp"));
    page.wait_for_text("Third panel.", START);

    // A game that counts its guesses in the session; zero is never the number.
    page.go(&format!("{top}/jsp/num/numguess.jsp"));
    for guesses in 1..=3 {
        page.wait_for("document.querySelector('input[name=guess]') !== null", START);
        page.evaluate(
            "document.querySelector('input[name=guess]').value = '0'; \
             document.querySelector('form').submit()",
        );
        page.wait_for_text(&format!("You have made {guesses} guesses"), START);
    }
    picture(&mut page, "session");
    // A value that a form stores in the session is available to another page.
    page.go(&format!("{top}/servlets/servlet/SessionExample"));
    page.wait_for("document.querySelector('input[name=dataname]') !== null", START);
    page.evaluate(
        "document.querySelector('input[name=dataname]').value = 'colour'; \
         document.querySelector('input[name=datavalue]').value = 'grün <b>'; \
         document.querySelector('form').submit()",
    );
    page.wait_for_text("colour = grün <b>", START);
    let mut other = browser.open(&format!("{top}/servlets/servlet/SessionExample"));
    other.wait_for_text("colour = grün <b>", START);

    for (example, said) in
        [("async0", "Async dispatch worked"), ("async1", "async request"), ("async3", "async 3 request")]
    {
        page.go(&format!("{top}/async/{example}"));
        page.wait_for_text(said, START);
    }
    // The page sends more while a browser shows it.
    page.go(&format!("{top}/async/stockticker"));
    page.wait_for("document.body.innerText.split('STOCK#').length > 3", START);
    picture(&mut page, "async");
}

#[test]
fn two_browser_pages_chat() {
    for is_secure in [false, true] {
        let tree = Tree::empty();
        let Some((_server, browser, top)) = examples(&tree, is_secure) else { return };
        let chat = format!("{top}/websocket/chat.xhtml");
        let (mut one, mut other) = (browser.open(&chat), browser.open(&chat));
        one.wait_for_text("Info: WebSocket connection opened.", START);
        other.wait_for_text("Info: WebSocket connection opened.", START);
        // Each gets the messages of the other immediately.
        one.wait_for_text("has joined", START);
        for (number, text) in ["good morning", "Grüße", "<i>markup</i>"].iter().enumerate() {
            let (from, to) = if number % 2 == 0 { (&mut one, &mut other) } else { (&mut other, &mut one) };
            from.focus("#chat");
            from.type_text(text);
            from.press_enter();
            to.wait_for_text(&format!(": {text}"), START);
            from.wait_for_text(&format!(": {text}"), START);
        }
        picture(&mut other, if is_secure { "chat-over-tls" } else { "chat" });
        one.close();
        other.wait_for_text("has disconnected", START);
    }
}
