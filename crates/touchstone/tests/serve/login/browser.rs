//! A browser: cookies, and the fields that describe its actions.

use std::collections::BTreeMap;

use super::provider::Provider;
use crate::support::{Response, Server};

/// A browser with its cookies.
pub(crate) struct Browser<'s> {
    server: &'s Server,
    pub(crate) host: String,
    pub(crate) cookies: BTreeMap<String, String>,
}

pub(crate) const PAGE: &str = "Accept: text/html,*/*;q=0.8\r\nSec-Fetch-Mode: navigate\r\n";
pub(crate) const CALLBACK: &str = "/.touchstone/login/callback";
pub(crate) const SIGN_IN: &str = "/.touchstone/login/sign-in";
pub(crate) const SIGN_OUT: &str = "/.touchstone/login/sign-out";

impl<'s> Browser<'s> {
    pub(crate) fn new(server: &'s Server) -> Browser<'s> {
        let host = format!("127.0.0.1:{}", server.address().port());
        Browser { server, host, cookies: BTreeMap::new() }
    }

    /// Sends a request with the cookies, and takes those of the answer.
    pub(crate) fn ask(&mut self, method: &str, target: &str, fields: &str) -> Response {
        let pairs: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookies =
            if pairs.is_empty() { String::new() } else { format!("Cookie: {}\r\n", pairs.join("; ")) };
        let host = &self.host;
        let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{cookies}{fields}\r\n");
        let response = self.server.connect().ask(head);
        for line in response.values("set-cookie") {
            let (pair, attributes) = line.split_once("; ").unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            assert!(
                attributes.contains("HttpOnly; SameSite=Lax") && attributes.starts_with("Path=/"),
                "{line}"
            );
            assert!(line.len() <= 4096, "browsers drop longer cookies");
            if attributes.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_string(), value.to_string());
            }
        }
        response
    }

    /// Loads a page.
    pub(crate) fn load(&mut self, target: &str) -> Response {
        self.ask("GET", target, PAGE)
    }

    /// The address of the provider to which a page is redirected.
    pub(crate) fn sent_away(&mut self, target: &str) -> String {
        let response = self.load(target);
        assert_eq!(response.status, 302, "{target}: {response:?}");
        assert!(response.field("cache-control").unwrap().contains("no-store"));
        response.field("location").unwrap().to_string()
    }

    /// Brings a query back from the provider.
    pub(crate) fn come_back(&mut self, query: &str) -> Response {
        self.load(&format!("{CALLBACK}?{query}"))
    }

    /// Signs in for a page, and loads it.
    pub(crate) fn sign_in(&mut self, provider: &Provider, target: &str) -> Response {
        let location = self.sent_away(target);
        let back = self.come_back(&provider.sign_in(&location));
        assert_eq!((back.status, back.field("location")), (303, Some(target)), "{back:?}");
        self.load(target)
    }

    /// The names of the cookies of sessions.
    pub(crate) fn sessions(&self) -> Vec<String> {
        self.cookies.keys().filter(|name| name.contains("touchstone-session-")).cloned().collect()
    }
}
