//! The use of session values by a client: initial values, substitution in requests, extraction from answers,
//! and redirects.

use crate::answer::Answer;
use crate::engine::Engine;
use crate::failure::{Example, Failure};
use crate::outcome::ErrorKind;
use crate::request_template::RedirectForm;
use crate::retained_answer::RetainedAnswer;
use std::time::{SystemTime, UNIX_EPOCH};
use touchstone_session::{Problem, Start, resolve_location};

/// The most bytes of an answer in an example.
const EXAMPLE_BYTES: usize = 200;

impl Engine<'_> {
    /// Begins the client's next session.
    pub(crate) fn begin_script(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let Some(state) = &mut client.script else { return };
        let start =
            Start { client: client.number, clients: self.shared.plan.clients, random: client.random.next() };
        self.shared.script.begin(state, &start);
    }

    /// Renders the client's request, if it varies, and prepares for the retained parts of its answer.
    pub(crate) fn write_request(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let request = &self.shared.requests[client.request];
        if request.retains_answer || self.shared.script.has_cookies() {
            client.retained.get_or_insert_default().reset(request, self.shared.script.has_cookies());
        } else {
            client.retained = None;
        }
        client.is_written = request.varying.is_some();
        if let (Some(varying), Some(state)) = (&request.varying, &client.script) {
            let written = client.written.get_or_insert_default();
            varying.write(client.redirect_form, client.is_last, state, written);
        }
    }

    /// Evaluates an answer with an expected status: follows a redirect, or extracts values and checks
    /// assertions.
    pub(crate) fn take_answer(&mut self, index: usize, answer: &Answer) -> Result<(), Failure> {
        let client = &mut self.clients[index];
        let (Some(retained), Some(state)) = (&client.retained, &mut client.script) else { return Ok(()) };
        let request = &self.shared.requests[client.request];
        if self.shared.script.has_cookies()
            && let Some(written) = &client.written
        {
            let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
            state.take_cookies(&retained.view(), request.target, &written.path, now_s as i64);
        }
        let Some(step) = &request.step else { return Ok(()) };
        if client.redirects < step.redirects()
            && let Some(location) = self.redirect(index, answer.status)
        {
            let client = &mut self.clients[index];
            client.redirects += 1;
            client.redirect_form = match answer.status {
                307 | 308 if client.redirect_form != RedirectForm::AsGet => RedirectForm::SameMethod,
                _ => RedirectForm::AsGet,
            };
            client.is_redirected = true;
            if let Some(state) = &mut client.script {
                state.set_location(&location);
            }
            return Ok(());
        }
        let client = &mut self.clients[index];
        let (Some(retained), Some(state)) = (&client.retained, &mut client.script) else { return Ok(()) };
        let cache = &mut self.step_caches[client.request];
        step.take(&retained.view(), state, cache).map_err(|problem| match problem {
            Problem::Extraction(number) => Failure::numbered(ErrorKind::Extraction, number),
            Problem::Assertion(number) => Failure::numbered(ErrorKind::Assertion, number),
        })
    }

    /// The location of a redirect, if it is on the same server.
    fn redirect(&self, index: usize, status: u16) -> Option<Vec<u8>> {
        if !matches!(status, 301 | 302 | 303 | 307 | 308) {
            return None;
        }
        let client = &self.clients[index];
        let location = client.retained.as_ref()?.field(b"location")?;
        let target = self.shared.plan.targets().nth(self.shared.requests[client.request].target)?;
        let base = &client.written.as_ref()?.path;
        resolve_location(&location, target.tls.is_some(), &target.host, base)
    }

    /// Ends the session after a failed request whose answer sets variables.
    pub(crate) fn end_session_without_value(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let step = &self.shared.requests[client.request].step;
        if step.as_ref().is_some_and(|step| step.sets().next().is_some()) {
            client.page.started = usize::MAX;
            client.session_requests_left = 0;
        }
        (client.redirect_form, client.redirects, client.is_redirected) = (RedirectForm::None, 0, false);
    }

    /// The failed request as text, and the beginning of its answer if it explains the failure.
    pub(crate) fn example(&self, index: usize, failure: Failure) -> Example {
        let client = &self.clients[index];
        let method = &self.shared.plan.requests[client.request].method;
        let written = client.written.as_ref().filter(|_| client.is_written);
        let request = written.map(|written| {
            let method = if client.redirect_form == RedirectForm::AsGet { "GET" } else { method };
            format!("{method} {}", String::from_utf8_lossy(&written.path))
        });
        let shows_answer = matches!(failure.kind, ErrorKind::Extraction | ErrorKind::Assertion);
        let answer = match failure.kind {
            ErrorKind::WrongFrame | ErrorKind::Closed => {
                let layers = self.connections[client.connection].layers.as_ref();
                layers.and_then(|layers| layers.failure_detail.as_deref()).map(without_control_characters)
            }
            _ => client.retained.as_deref().filter(|_| shows_answer).map(beginning),
        };
        Example { request, answer }
    }
}

/// The beginning of an answer's body.
fn beginning(retained: &RetainedAnswer) -> String {
    let body = retained.view().body;
    let text = String::from_utf8_lossy(&body[..body.len().min(EXAMPLE_BYTES)]);
    let rest = if body.len() > EXAMPLE_BYTES { "..." } else { "" };
    format!("{}{rest}", without_control_characters(&text))
}

/// Replaces control characters by spaces.
fn without_control_characters(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
