//! A visitor on the way through the check: whether it has a pass, the page with a task, and the two ways to
//! pass.

use touchstone_config::CHECK_PATH;
use touchstone_handler::answer::Answer;
use touchstone_handler::crawler_counts::Result as Counted;
use touchstone_handler::request::Request;
use touchstone_http::addresses::{is_local_path, parameter};
use touchstone_http::request::Method;

use crate::check::token::{Contents, Kind};
use crate::check::{cookie, page, work};
use crate::rule::{Crawlers, TaskSettings, now_s, refused};

/// How long a task may take, without the wait that it requires.
const LONGEST_TASK_S: u64 = 1800;

/// How far the clocks of machines that share keys may differ.
const LEEWAY_S: u64 = 60;

/// The most cookies with one name that are checked.
const MOST_COOKIES: usize = 4;

/// What a path of the check does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint<'p> {
    /// A file of the page.
    File(&'p str),
    /// Takes the answer to a task.
    Pass,
    /// Takes a task after its wait.
    Wait,
}

/// The endpoint at a path; `None`: it is not one of the check.
pub fn endpoint(path: &[u8]) -> Option<Endpoint<'_>> {
    let name = path.strip_prefix(CHECK_PATH.as_bytes())?;
    Some(match std::str::from_utf8(name).unwrap_or_default() {
        "pass" => Endpoint::Pass,
        "wait" => Endpoint::Wait,
        name => Endpoint::File(name),
    })
}

/// The site that a request is for, as tasks and passes name it.
fn site_of(request: &Request) -> Vec<u8> {
    let scheme: &[u8] = if request.is_https() { b"https://" } else { b"http://" };
    let host = request.host.as_deref().unwrap_or_default();
    [scheme, &host.to_ascii_lowercase()].concat()
}

/// The path and query of a request, if a browser may be sent there again.
fn requested_path(request: &Request) -> String {
    let whole = request.path_and_query();
    let text = String::from_utf8(whole).unwrap_or_default();
    if is_local_path(text.as_bytes()) { text } else { "/".to_string() }
}

impl TaskSettings {
    /// Whether a request has a pass for this site, this client and these settings.
    pub(crate) fn has_pass(&self, request: &Request, now_s: u64) -> bool {
        let is_https = request.is_https();
        let name = cookie::name(&self.cookie, is_https);
        let mut found =
            cookie::values(request.received.values("cookie"), &name).take(MOST_COOKIES).peekable();
        if found.peek().is_none() {
            return false;
        }
        let site = site_of(request);
        let binding = self.bound_to.of(request);
        found.filter_map(|text| self.keys.open(Kind::Pass, &site, text)).any(|pass| {
            let (is_enough, lifetime_s) = match pass.difficulty {
                0 => (self.wait_s > 0 && pass.wait_s >= self.wait_s, self.wait_lifetime_s),
                bits => (bits >= self.difficulty, self.lifetime_s),
            };
            let is_now = pass.issued_s <= now_s + LEEWAY_S && now_s < pass.issued_s + lifetime_s;
            is_enough && is_now && pass.binding == binding
        })
    }

    /// The answer to a request without a pass.
    pub(crate) fn challenge(&self, request: &Request) -> Answer {
        let to = requested_path(request);
        if !matches!(request.method(), Method::Get | Method::Head) {
            return page::not_sent(&to);
        }
        let contents = Contents::new(now_s(), self.difficulty, self.wait_s, self.bound_to.of(request));
        let Some(contents) = contents else { return refused(503) };
        self.page_of(request, &to, &contents, u64::from(self.wait_s))
    }

    fn page_of(&self, request: &Request, to: &str, contents: &Contents, left_s: u64) -> Answer {
        let text = self.keys.make(Kind::Task, &site_of(request), contents);
        let wait_s = (self.wait_s > 0).then_some(left_s);
        let mut answer =
            page::challenge(&page::Task { text: &text, difficulty: contents.difficulty, wait_s, to });
        let is_https = request.is_https();
        let probe = cookie::set(&cookie::name(cookie::PROBE, is_https), "1", LONGEST_TASK_S, is_https);
        answer.fields.extend_from_slice(probe.as_bytes());
        answer
    }

    /// The task that a request brings back; `None`: it is none of these settings, or it is over.
    fn task(&self, request: &Request, text: &str, now_s: u64) -> Option<Contents> {
        let contents = self.keys.open(Kind::Task, &site_of(request), text.as_bytes())?;
        let is_of_these = contents.difficulty == self.difficulty
            && contents.wait_s == self.wait_s
            && contents.binding == self.bound_to.of(request);
        let end_s = contents.issued_s + u64::from(contents.wait_s) + LONGEST_TASK_S;
        let is_now = contents.issued_s <= now_s + LEEWAY_S && now_s < end_s;
        (is_of_these && is_now).then_some(contents)
    }

    /// The answer that sets the cookie of a pass, and redirects to the requested page.
    fn pass(&self, request: &Request, to: &str, (difficulty, wait_s): (u8, u16)) -> Answer {
        let contents = Contents::new(now_s(), difficulty, wait_s, self.bound_to.of(request));
        let Some(contents) = contents else { return refused(503) };
        let text = self.keys.make(Kind::Pass, &site_of(request), &contents);
        let is_https = request.is_https();
        let age_s = if difficulty > 0 { self.lifetime_s } else { self.wait_lifetime_s };
        let line = cookie::set(&cookie::name(&self.cookie, is_https), &text, age_s, is_https);
        let mut answer = Answer::redirect(303, to.as_bytes()).field("Cache-Control", "no-store");
        answer.fields.extend_from_slice(line.as_bytes());
        answer
    }
}

/// The answer of an endpoint. `rules` are those of the site and its routes, of which one has created the
/// task.
pub fn answer(rules: &[&Crawlers], endpoint: Endpoint<'_>, request: &Request) -> Answer {
    if !matches!(request.method(), Method::Get | Method::Head) {
        return refused(405).field("Allow", "GET, HEAD");
    }
    if let Endpoint::File(name) = endpoint {
        return page::file(name).unwrap_or_else(|| refused(404));
    }
    let query = request.query.as_deref().unwrap_or_default();
    let get = |name: &str| parameter(query, name).ok().flatten().unwrap_or_default();
    let (text, answer, to) = (get("task"), get("answer"), get("to"));
    let to = if is_local_path(to.as_bytes()) && !is_own(&to) { to } else { "/".to_string() };
    let now_s = now_s();
    let found = rules.iter().find_map(|rule| Some((*rule, rule.task.task(request, &text, now_s)?)));
    let Some((rule, task)) = found else {
        if let Some(rule) = rules.first() {
            rule.counts.add(Counted::Failed);
        }
        return page::again(&to);
    };
    let is_kept = {
        let name = cookie::name(cookie::PROBE, request.is_https());
        cookie::values(request.received.values("cookie"), &name).next().is_some()
    };
    if !is_kept {
        return page::no_cookies(&to);
    }
    if endpoint == Endpoint::Pass {
        if work::is_answer(&text, &answer, task.difficulty) {
            rule.counts.add(Counted::Worked);
            return rule.task.pass(request, &to, (task.difficulty, 0));
        }
        rule.counts.add(Counted::Failed);
        return page::again(&to);
    }
    if task.wait_s == 0 {
        rule.counts.add(Counted::Failed);
        return page::again(&to);
    }
    // Times are whole seconds: the second in which it was issued has passed in part only.
    let ready_s = task.issued_s + u64::from(task.wait_s) + 1;
    if now_s < ready_s {
        // The same task again, so that no time is lost.
        return rule.task.page_of(request, &to, &task, ready_s - now_s);
    }
    rule.counts.add(Counted::Waited);
    rule.task.pass(request, &to, (0, task.wait_s))
}

/// Whether a path is one of the check, to which no browser is sent back.
fn is_own(to: &str) -> bool {
    to.starts_with(CHECK_PATH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_below_one_path() {
        assert_eq!(endpoint(b"/.touchstone/check/pass"), Some(Endpoint::Pass));
        assert_eq!(endpoint(b"/.touchstone/check/wait"), Some(Endpoint::Wait));
        assert_eq!(endpoint(b"/.touchstone/check/x.js"), Some(Endpoint::File("x.js")));
        assert_eq!(endpoint(b"/.touchstone/check"), None);
        assert_eq!(endpoint(b"/other/pass"), None);
    }
}
