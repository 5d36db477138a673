//! A visitor that passes the check without a browser.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::support::{AnswerTo, Response, Server};

pub(crate) const MOZILLA: &str = "Mozilla/5.0 (X11; Linux x86_64) Test/1.0";

/// A visitor with its cookies.
pub(crate) struct Visitor<'s> {
    pub(crate) server: &'s Server,
    pub(crate) host: String,
    pub(crate) user_agent: &'static str,
    pub(crate) cookies: BTreeMap<String, String>,
}

/// The resources that a page requests.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) text: String,
    pub(crate) bits: u32,
    pub(crate) to: String,
}

impl<'s> Visitor<'s> {
    pub(crate) fn new(server: &'s Server) -> Visitor<'s> {
        let host = format!("127.0.0.1:{}", server.address().port());
        Visitor { server, host, user_agent: MOZILLA, cookies: BTreeMap::new() }
    }

    /// Sends a request with the cookies, and takes those of the answer.
    pub(crate) fn ask(&mut self, method: &str, target: &str, fields: &str) -> Response {
        let pairs: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookies =
            if pairs.is_empty() { String::new() } else { format!("Cookie: {}\r\n", pairs.join("; ")) };
        let (host, user_agent) = (&self.host, self.user_agent);
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {user_agent}\r\n{cookies}{fields}\r\n"
        );
        let mut client = self.server.connect();
        client.send(head);
        let to = if method == "HEAD" { AnswerTo::Head } else { AnswerTo::Other };
        let response = client.try_answer(to).unwrap();
        for line in response.values("set-cookie") {
            let (pair, attributes) = line.split_once("; ").unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            assert!(attributes.starts_with("Path=/; Max-Age="), "{line}");
            assert!(attributes.ends_with("HttpOnly; SameSite=Lax"), "{line}");
            self.cookies.insert(name.to_string(), value.to_string());
        }
        response
    }

    /// Sends a request with a body.
    pub(crate) fn send(&mut self, method: &str, target: &str, fields: &str, body: &str) -> Response {
        let (host, user_agent) = (&self.host, self.user_agent);
        let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {user_agent}\r\n");
        self.server.connect().ask(format!("{head}{fields}\r\n{body}"))
    }

    pub(crate) fn get(&mut self, target: &str) -> Response {
        self.ask("GET", target, "")
    }

    /// The task of a page that it must pass.
    pub(crate) fn challenged(&mut self, target: &str) -> Task {
        let page = self.get(target);
        assert_eq!((page.status, page.field("cache-control")), (403, Some("no-store")), "{page:?}");
        task_of(&String::from_utf8(page.body).unwrap())
    }

    /// Brings the answer to a task.
    pub(crate) fn pass(&mut self, task: &Task, answer: &str, to: &str) -> Response {
        self.get(&format!("/.touchstone/check/pass?task={}&answer={answer}&to={to}", task.text))
    }

    /// Passes by work; returns where it is led.
    pub(crate) fn work(&mut self, target: &str) -> String {
        let task = self.challenged(target);
        let to = encoded(&task.to);
        let passed = self.pass(&task, &answer_to(&task), &to);
        assert_eq!((passed.status, passed.field("cache-control")), (303, Some("no-store")), "{passed:?}");
        passed.field("location").unwrap().to_string()
    }
}

/// The task of a page.
pub(crate) fn task_of(page: &str) -> Task {
    let value = |name: &str| {
        let rest = page.split_once(&format!("{name}=\"")).unwrap_or_else(|| panic!("{page}")).1;
        rest.split_once('"').unwrap().0.replace("&amp;", "&")
    };
    Task { text: value("data-task"), bits: value("data-bits").parse().unwrap(), to: value("data-to") }
}

/// The first answer to a task.
pub(crate) fn answer_to(task: &Task) -> String {
    let is_answer = |answer: &String| zero_bits(&task.text, answer) >= task.bits;
    (0u64..).map(|number| number.to_string()).find(is_answer).unwrap()
}

pub(crate) fn zero_bits(task: &str, answer: &str) -> u32 {
    let hash = Sha256::digest(format!("{task}:{answer}"));
    u64::from_be_bytes(hash[..8].try_into().unwrap()).leading_zeros()
}

pub(crate) fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
