//! Sessions in a separate file, for `touchstone load --sessions`. The requests are written as those of a
//! suite.

use super::own_request::OwnRequest;
use super::script::script;
use super::{Lengths, Order};
use crate::definition::{DefinitionError, Document, Table};
use std::path::Path;
use std::time::Duration;
use touchstone_load::{MAXIMUM_REQUESTS, PlannedRequest, ScriptPlan};

/// Sessions with their weights, and the values that they begin with.
#[derive(Debug, Clone)]
pub struct SessionFile {
    /// The names of the sessions.
    pub names: Vec<String>,
    /// The requests of all sessions in the form of the load engine, each a separate class.
    pub requests: Vec<PlannedRequest>,
    /// Data files and cookies.
    pub script: ScriptPlan,
}

impl SessionFile {
    /// Reads the text of a file; data files are beside it, in `directory`.
    pub fn read(file: &str, text: &str, directory: &Path) -> Result<SessionFile, DefinitionError> {
        let document = Document::new(file, text);
        let parsed = document.parse()?;
        let root = document.root(&parsed);
        let script = script(&root, Some(directory))?;
        let mut read = SessionFile { names: Vec::new(), requests: Vec::new(), script };
        for table in &root.tables("session")? {
            read.add(table)?;
        }
        root.finish()?;
        if read.requests.is_empty() {
            return Err(root.error("the file has no [[session]]"));
        }
        Ok(read)
    }

    fn add(&mut self, table: &Table<'_>) -> Result<(), DefinitionError> {
        let name = table.required_string("name")?.value;
        let weight = table.number("weight", 1e-9..=1e12)?.map_or(1.0, |weight| weight.value);
        let tables = table.tables("requests")?;
        table.finish()?;
        let first = self.requests.len();
        for (number, request) in tables.iter().enumerate() {
            let own = OwnRequest::read(request, Order::Session)?;
            if number == 0 && own.think_time_s > 0.0 {
                return Err(request.error(
                    "the first request of a session follows nothing: what stands between sessions is \
                     --think-time",
                ));
            }
            self.requests.push(PlannedRequest {
                class: self.requests.len(),
                weight: if number == 0 { weight } else { 0.0 },
                think_before: Duration::from_secs_f64(own.think_time_s),
                is_session: number == 0,
                ..own.planned("", Lengths::Stated)
            });
        }
        if self.requests.len() > MAXIMUM_REQUESTS {
            return Err(table.error(format!("more than {MAXIMUM_REQUESTS} requests")));
        }
        if self.requests.len() == first {
            return Err(table.error(format!("the session {name:?} has no `requests`")));
        }
        self.requests[first].then = (first + 1..self.requests.len()).collect();
        self.names.push(name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<SessionFile, String> {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("users.csv"), "user,pass\na,b\n").expect("a file");
        SessionFile::read("s.toml", text, directory.path()).map_err(|error| error.to_string())
    }

    const GOOD: &str = r#"
        cookies = true
        [[data]]
        file = "users.csv"
        order = "random"
        [[session]]
        name = "buyer"
        weight = 3
        requests = [
          { path = "/login?${user}", extract = { token = "json $.t", next = "header Location" } },
          { path = "${next}", headers = ["X-Token: ${token}"], assert = ["contains ok"], redirects = 2,
            think_time_s = 1.5 },
        ]
        [[session]]
        name = "visitor"
        requests = [{ path = "/" }]
    "#;

    #[test]
    fn sessions_are_read_as_the_engine_takes_them() {
        let file = read(GOOD).expect("a good file");
        assert_eq!(file.names, ["buyer", "visitor"]);
        assert!(file.script.cookies && file.script.data[0].columns == ["user", "pass"]);
        let [login, order, visit] = &file.requests[..] else { panic!("three requests") };
        assert_eq!((login.weight, order.weight, visit.weight), (3.0, 0.0, 1.0));
        assert_eq!((&login.then[..], login.is_session, &visit.then[..]), (&[1][..], true, &[][..]));
        let step = order.step.as_ref().expect("a step");
        assert_eq!((step.redirects, &step.assert[..]), (2, &["contains ok".to_string()][..]));
        assert_eq!(login.step.as_ref().expect("a step").extract.len(), 2);
        assert_eq!(order.think_before, Duration::from_millis(1500));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (from, to, said) in [
            ("users.csv", "none.csv", "none.csv"),
            ("users.csv", "../users.csv", "beside"),
            ("\"random\"", "\"any\"", "`order` is"),
            ("json $.t", "json t", "not a JSON path"),
            ("contains ok", "contains ", "is missing"),
            ("redirects = 2", "redirects = 99", "to 20"),
            ("name = \"visitor\"", "", "needs `name`"),
            ("[{ path = \"/\" }]", "[]", "has no `requests`"),
            ("${user}", "${user", "the } of a variable is missing"),
        ] {
            let message = read(&GOOD.replace(from, to)).expect_err(to);
            assert!(message.contains(said), "{to}: {message}");
        }
        assert!(read("cookies = true").expect_err("nothing").contains("no [[session]]"));
    }

    proptest! {
        #[test]
        fn any_text_is_sessions_or_an_error(text: String) {
            let _ = read(&text);
        }
    }
}
