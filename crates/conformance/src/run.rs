//! Runs all cases on one server, several at a time.

use crate::case::{Case, Facts, Protocol, Role, Script};
use crate::client::{self, Target, TimeLimits, Watch};
use crate::judge::{self, Verdict, judge};
use crate::origin::Origin;
use crate::transcript::Transcript;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The number of cases that run at a time.
const AT_A_TIME: usize = 12;
/// The time limits of a case, in the first and in the second attempt.
const PATIENCE: [TimeLimits; 2] = [
    TimeLimits { whole: Duration::from_millis(2000), linger: Duration::from_millis(250) },
    TimeLimits { whole: Duration::from_millis(5000), linger: Duration::from_millis(700) },
];
/// The maximum time until a server answers for the first time.
const START: Duration = Duration::from_secs(60);

/// A server under test.
#[derive(Debug)]
pub struct Server<'a> {
    /// The address on which it listens.
    pub target: Target,
    /// The path of its page.
    pub page: String,
    /// Its name, the value of Host.
    pub host: String,
    /// The origin behind it, if it is an intermediary.
    pub origin: Option<&'a Origin>,
    /// Whether it is a cache.
    pub is_cache: bool,
    /// A prefix of the names of the cases to run; empty: all of them.
    pub wanted: &'a [String],
}

/// The result of a case on a server.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseResult {
    /// The index of the case in the list.
    pub case: usize,
    /// The received bytes.
    pub transcript: Transcript,
    /// The verdict.
    pub verdict: Verdict,
    /// A short description of the answer.
    pub seen: String,
}

/// The results for a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The facts that were known before the first case.
    pub facts: Facts,
    /// The results of the cases for servers of its kind, in the order of the list.
    pub tried: Vec<CaseResult>,
}

impl Server<'_> {
    /// Waits until it answers, and determines the facts about its page.
    pub fn learn(&self, is_over: &dyn Fn() -> bool) -> Result<Facts, String> {
        let started = Instant::now();
        loop {
            match self.ask_for_page() {
                Ok(facts) => return Ok(facts),
                Err(problem) if started.elapsed() > START || is_over() => return Err(problem),
                Err(_) => std::thread::sleep(Duration::from_millis(30)),
            }
        }
    }

    fn ask_for_page(&self) -> Result<Facts, String> {
        let facts = Facts { host: self.host.clone(), page: self.page.clone(), ..Facts::default() };
        let text = facts.fill("{get}Connection: close\r\n\r\n", "", 0);
        let transcript = client::request(self.target.plain, &text, PATIENCE[1])?;
        let observed = judge::observe_http1(&transcript);
        let answer = observed.answers.first().ok_or("its page was not answered")?;
        if answer.status != 200 {
            return Err(format!("its page {} was answered with {}", self.page, answer.status));
        }
        Ok(Facts {
            size: answer.body.len() as u64,
            etag: answer.field("etag"),
            modified: answer.field("last-modified"),
            content_type: answer.field("content-type"),
            ..facts
        })
    }

    /// Runs all cases for servers of its kind. `progress` gets the number of finished cases, and the total.
    pub fn try_all(
        &self,
        cases: &[Case],
        facts: Facts,
        interrupt: &AtomicBool,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Outcome {
        let speaks = self.protocols();
        let chosen: Vec<usize> =
            (0..cases.len()).filter(|&number| self.is_for(&cases[number], &speaks)).collect();
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let tried = Mutex::new(Vec::with_capacity(chosen.len()));
        std::thread::scope(|scope| {
            for _ in 0..AT_A_TIME {
                scope.spawn(|| {
                    while let Some(&number) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if interrupt.load(Ordering::Relaxed) {
                            return;
                        }
                        let outcome = self.try_one(number, &cases[number], &facts);
                        tried.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(outcome);
                        progress(done.fetch_add(1, Ordering::Relaxed) + 1, chosen.len());
                    }
                });
            }
        });
        let mut tried = tried.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        tried.sort_by_key(|one: &CaseResult| one.case);
        Outcome { facts, tried }
    }

    /// The versions that it supports.
    fn protocols(&self) -> Vec<Protocol> {
        let mut speaks = vec![Protocol::Http1];
        if let Some(secure) = self.target.secure {
            if client::speaks_http2(secure, PATIENCE[1]) {
                speaks.push(Protocol::Http2);
            }
            if client::speaks_http3(secure, PATIENCE[0]) {
                speaks.push(Protocol::Http3);
            }
        }
        speaks
    }

    fn is_for(&self, case: &Case, speaks: &[Protocol]) -> bool {
        let role = match case.role {
            Role::Any => true,
            Role::Files => self.origin.is_none(),
            Role::Proxy => self.origin.is_some(),
            Role::Cache => self.origin.is_some() && self.is_cache,
        };
        let is_wanted =
            self.wanted.is_empty() || self.wanted.iter().any(|start| case.id.starts_with(start.as_str()));
        role && is_wanted && speaks.contains(&case.protocol())
    }

    /// Runs a case, and again with longer time limits if it fails: on a busy machine an answer may be late.
    fn try_one(&self, number: usize, case: &Case, facts: &Facts) -> CaseResult {
        let lacks = |name: &&str| match *name {
            "{etag}" => facts.etag.is_none(),
            _ => facts.modified.is_none(),
        };
        let is_scripted = matches!(case.script, Script::Steps { .. });
        if !is_scripted && let Some(name) = case.needs().iter().find(|name| lacks(name)) {
            let what = if *name == "{etag}" { "entity tag" } else { "Last-Modified" };
            let seen = format!("its page has no {what}");
            let transcript = Transcript { not_sent: Some(seen.clone()), ..Transcript::default() };
            return CaseResult { case: number, transcript, verdict: Verdict::NotTried, seen };
        }
        let first = self.attempt(number, case, facts, 0);
        if first.verdict == Verdict::Kept { first } else { self.attempt(number, case, facts, 1) }
    }

    fn attempt(&self, number: usize, case: &Case, facts: &Facts, attempt: usize) -> CaseResult {
        let key = format!("{}-{attempt}-{}", case.key(), self.target.plain.port());
        let url = match (self.origin, &case.script) {
            (Some(origin), Script::Steps { origin: answers, .. }) => origin.script(&key, answers),
            _ => self.page.clone(),
        };
        // With scripted answers, the requests that the origin received count as well.
        let with_origin = |transcript: &Transcript| Transcript {
            origin: self.origin.map(|origin| origin.requests(&key)).unwrap_or_default(),
            ..transcript.clone()
        };
        let is_kept = |transcript: &Transcript| judge(case, facts, transcript).0 == Verdict::Kept;
        let watch = Watch { is_kept: &is_kept, patience: PATIENCE[attempt], lingers: judge::waits(case) };
        let transcript = with_origin(&client::send(&self.target, case, facts, &url, &watch));
        let (verdict, seen) = judge(case, facts, &transcript);
        CaseResult { case: number, transcript, verdict, seen }
    }
}
