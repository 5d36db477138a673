//! A visitor of an application, who keeps cookies, and the comparison of what two servers answered to the
//! same visit.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::support::{AnswerTo, Client, Response, shown};

/// Fields of the server itself, which do not depend on the application.
const OF_THE_SERVER: [&str; 6] =
    ["date", "server", "connection", "keep-alive", "transfer-encoding", "content-length"];

/// What differs from visit to visit: the text before it, and the character behind it.
const OF_CHANCE: [(&str, char); 13] = [
    ("csrfmiddlewaretoken\" value=\"", '"'),
    ("csrftoken=", ';'),
    ("sessionid=", ';'),
    ("session=", ';'),
    // Flask signs a session with the second of the signature.
    ("\"session\":\"", '"'),
    ("messages=.", ';'),
    ("Expires=", ';'),
    ("\"CSRF_TOKEN\": \"", '"'),
    ("\"end_id\":\"", '"'),
    ("expires=", ';'),
    ("\"csrfToken\": \"", '"'),
    ("datetime=\"", '"'),
    ("data-w-userbar-token=\"", '"'),
];

/// A client of a server, with a new connection for each request.
pub(crate) struct Visitor {
    address: SocketAddr,
    cookies: BTreeMap<String, String>,
    /// The requests and the answers.
    seen: Vec<(String, Response)>,
}

impl Visitor {
    pub(crate) fn new(address: SocketAddr) -> Visitor {
        Visitor { address, cookies: BTreeMap::new(), seen: Vec::new() }
    }

    pub(crate) fn get(&mut self, target: &str) -> Response {
        self.ask("GET", target, "", b"")
    }

    /// Posts a form, or another body of this kind.
    pub(crate) fn post(&mut self, target: &str, kind: &str, body: &[u8]) -> Response {
        self.ask("POST", target, &format!("Content-Type: {kind}\r\n"), body)
    }

    /// Posts fields as a browser does.
    pub(crate) fn form(&mut self, target: &str, fields: &[(&str, &str)]) -> Response {
        let fields: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", percent_encoded(value))).collect();
        self.post(target, "application/x-www-form-urlencoded", fields.join("&").as_bytes())
    }

    pub(crate) fn ask(&mut self, method: &str, target: &str, fields: &str, body: &[u8]) -> Response {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookie =
            if cookies.is_empty() { String::new() } else { format!("Cookie: {}\r\n", cookies.join("; ")) };
        let length = match body {
            [] => String::new(),
            body => format!("Content-Length: {}\r\n", body.len()),
        };
        let mut client = Client::connect(self.address);
        client.set_patience(Duration::from_secs(120));
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\
             {cookie}{fields}{length}\r\n"
        );
        // At once: the server may answer without the body, and close.
        client.send([head.as_bytes(), body].concat());
        let to = if method == "HEAD" { AnswerTo::Head } else { AnswerTo::Other };
        let answer = client.try_answer(to).unwrap_or_else(|broken| panic!("{method} {target}: {broken}"));
        for set in answer.values("set-cookie") {
            let (name, value) = set.split(';').next().unwrap().split_once('=').unwrap();
            self.cookies.insert(name.to_string(), value.to_string());
        }
        self.seen.push((format!("{method} {target}"), answer.clone()));
        answer
    }
}

/// Has the same visit made of both servers, ours first, and compares all answers.
pub(crate) fn compare(application: &str, ours: SocketAddr, theirs: SocketAddr, visit: impl Fn(&mut Visitor)) {
    let [ours, theirs] = [ours, theirs].map(|address| {
        let mut visitor = Visitor::new(address);
        visit(&mut visitor);
        visitor.seen
    });
    assert_eq!(ours.len(), theirs.len(), "{application}");
    assert!(!ours.is_empty(), "{application}: nothing was asked");
    let faults: Vec<String> = ours
        .iter()
        .zip(&theirs)
        .filter_map(|((asked, ours), (_, theirs))| {
            Some(format!("{application}: {asked}: {}", difference(ours, theirs)?))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The first thing in which two answers differ that must be the same: the status, the application's fields in
/// order, or the body.
fn difference(ours: &Response, theirs: &Response) -> Option<String> {
    if ours.status != theirs.status {
        return Some(format!("status {}, theirs is {}\n{}", ours.status, theirs.status, shown(&ours.raw)));
    }
    let (our_fields, their_fields) = (fields(ours), fields(theirs));
    if our_fields != their_fields {
        let only = |one: &[(String, String)], other: &[(String, String)]| {
            one.iter().filter(|field| !other.contains(field)).cloned().collect::<Vec<_>>()
        };
        let (of_ours, of_theirs) = (only(&our_fields, &their_fields), only(&their_fields, &our_fields));
        return Some(format!("fields {of_ours:?}, theirs {of_theirs:?}, or another order"));
    }
    let (ours, theirs) = (body(ours), body(theirs));
    let at = ours.iter().zip(&theirs).position(|(one, other)| one != other);
    let at = at.or((ours.len() != theirs.len()).then_some(ours.len().min(theirs.len())))?;
    let around = |body: &[u8]| shown(&body[at.saturating_sub(60)..body.len().min(at + 60)]);
    Some(format!("body, from byte {at}:\n  ours   {}\n  theirs {}", around(&ours), around(&theirs)))
}

/// The fields that an application makes.
fn fields(answer: &Response) -> Vec<(String, String)> {
    let of_application = answer.fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
    of_application
        .filter(|(name, _)| !OF_THE_SERVER.contains(&name.as_str()))
        .map(|(name, value)| {
            let value = match name.as_str() {
                "expires" => String::new(),
                // Flask has the methods in a set, whose order is random.
                "allow" => sorted(value),
                _ => without_chance(value),
            };
            (name, value)
        })
        .collect()
}

fn sorted(list: &str) -> String {
    let mut members: Vec<&str> = list.split(", ").collect();
    members.sort_unstable();
    members.join(", ")
}

fn body(answer: &Response) -> Vec<u8> {
    match std::str::from_utf8(&answer.body) {
        Ok(text) => without_chance(text).into_bytes(),
        Err(_) => answer.body.clone(),
    }
}

/// The text with a mark in the place of each token and time.
fn without_chance(text: &str) -> String {
    let mut text = text.to_string();
    for (before, end) in OF_CHANCE {
        let mut from = 0;
        while let Some(at) = text[from..].find(before).map(|at| from + at + before.len()) {
            let to = text[at..].find(end).map_or(text.len(), |length| at + length);
            text.replace_range(at..to, "CHANCE");
            from = at;
        }
    }
    text
}

/// The token of a form of Django.
pub(crate) fn form_token(page: &Response) -> String {
    let text = String::from_utf8_lossy(&page.body);
    let (_, after) = text.split_once("csrfmiddlewaretoken\" value=\"").expect("a form with a token");
    after.split('"').next().unwrap().to_string()
}

fn percent_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
