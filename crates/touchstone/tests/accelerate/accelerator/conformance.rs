//! The public tests for HTTP caches (http-cache-tests), which are independent of our understanding of RFC
//! 9111: as many pass as docs/accelerator.md states, and the others are the ones that it names.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{Client, Server, Tree, free_port, skipped, wait_until};

/// Required cases that demand the opposite of RFC 9111 section 5.1: "a cache encountering a message with a
/// list-based Age field value SHOULD use the first member of the field value, discarding subsequent ones. If
/// the field value (after discarding additional members) is invalid (e.g., it contains something other than a
/// non-negative integer), a cache SHOULD ignore the field." The suite's later version, which is not on npm,
/// demands what this section states.
const AGAINST_THE_RULES: [&str; 9] = [
    "age-parse-nonnumeric",
    "age-parse-negative",
    "age-parse-float",
    "age-parse-parameter",
    "age-parse-numeric-parameter",
    "age-parse-prefix-twoline",
    "age-parse-dup-0",
    "age-parse-dup-0-twoline",
    "age-parse-dup-old",
];

/// Where `scripts/setup-cache-tests.sh` puts them: below the target directory, in which the tests' binary is
/// as well.
fn home() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_touchstone"));
    built.ancestors().nth(2).unwrap().join("cache-tests/node_modules/http-cache-tests")
}

/// Their origin; it ends with the test.
struct TestOrigin {
    child: Child,
    address: SocketAddr,
}

impl TestOrigin {
    /// `None`, with a visible word, where they are not installed.
    fn start(tree: &Tree) -> Option<TestOrigin> {
        if !home().join("server/server.mjs").exists() {
            skipped("the public tests for HTTP caches (run scripts/setup-cache-tests.sh)");
            return None;
        }
        let port = free_port();
        let mut command = Command::new("node");
        command.arg("server/server.mjs").current_dir(home());
        command.env("npm_config_protocol", "http").env("npm_config_port", port.to_string());
        command.env("npm_config_pidfile", tree.beside("origin.pid"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(child) = child else {
            skipped("the public tests for HTTP caches (install nodejs)");
            return None;
        };
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let origin = TestOrigin { child, address };
        wait_until("their origin listens", Duration::from_secs(60), || Client::try_connect(address).is_ok());
        Some(origin)
    }
}

impl Drop for TestOrigin {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The outcome of one of them.
struct Outcome {
    kind: String,
    has_passed: bool,
    name: String,
    why: String,
}

/// Runs those of these names, or all of them where there are none.
fn outcomes(server: &Server, names: &[&str]) -> Vec<Outcome> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/accelerate/accelerator/conformance.mjs");
    let mut command = Command::new("node");
    command.arg("--no-warnings").arg(script).arg(home()).arg(format!("http://{}", server.address()));
    let mut child = command.args(names).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let outcomes = lines.map(|line| {
        let mut columns = line.split('\t').map(str::to_string);
        let mut next = || columns.next().unwrap_or_default();
        Outcome { kind: next(), has_passed: next() == "true", name: next(), why: next() }
    });
    let outcomes = outcomes.collect();
    assert!(child.wait().unwrap().success());
    outcomes
}

/// The contents of the table below "Conformance" in docs/accelerator.md: names, some with a `*`, between
/// backticks.
fn documented() -> BTreeSet<String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/accelerator.md");
    let text = std::fs::read_to_string(docs).unwrap();
    let table = text.split_once("## Conformance").unwrap().1;
    let rows =
        table.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let first_cells = rows.filter_map(|row| row.split('|').nth(1));
    first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned)).collect()
}

/// Whether a name in the table, perhaps with a `*` at its end, means a case.
fn means(known: &str, name: &str) -> bool {
    match known.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == known,
    }
}

/// The cases that require an answer with `Set-Cookie` to be stored, which needs `set_cookie = "store"`.
const OF_SET_COOKIE: [&str; 3] =
    ["headers-store-Set-Cookie", "304-etag-update-response-Set-Cookie", "other-set-cookie"];

/// How often a case that has failed is run again.
const TRIES: usize = 5;

fn check(server: &Server) {
    let mut failed = Vec::new();
    let (mut required, mut optimal) = (0, 0);
    for outcome in outcomes(server, &[]) {
        match (outcome.kind.as_str(), outcome.has_passed) {
            ("required", true) => required += 1,
            ("optimal", true) => optimal += 1,
            ("required" | "optimal", false) => failed.push(outcome),
            _ => {}
        }
    }
    for name in AGAINST_THE_RULES {
        assert!(failed.iter().any(|outcome| outcome.name == name), "{name} passes");
    }
    let documented = documented();
    // A case that passes now must be removed from the table.
    for known in &documented {
        assert!(failed.iter().any(|outcome| means(known, &outcome.name)), "{known} passes");
    }
    let is_known = |outcome: &Outcome| documented.iter().any(|known| means(known, &outcome.name));
    let mut surprising: Vec<Outcome> = failed.into_iter().filter(|outcome| !is_known(outcome)).collect();
    // Many of them count seconds, which a busy machine takes too many of: those few are run again.
    for _ in 0..TRIES {
        if surprising.is_empty() {
            break;
        }
        let names: Vec<&str> = surprising.iter().map(|outcome| outcome.name.as_str()).collect();
        let (passed, still): (Vec<_>, Vec<_>) =
            outcomes(server, &names).into_iter().partition(|outcome| outcome.has_passed);
        for outcome in passed {
            *(if outcome.kind == "required" { &mut required } else { &mut optimal }) += 1;
        }
        surprising = still;
    }
    let said: Vec<String> =
        surprising.iter().map(|outcome| format!("{}: {}", outcome.name, outcome.why)).collect();
    assert!(said.is_empty(), "{}", said.join("\n"));
    assert_eq!((required, optimal), (149, 87), "required cases and optimal ones that pass");
}

#[test]
fn public_tests_pass_but_for_those_that_the_documentation_names() {
    let tree = Tree::standard();
    let Some(origin) = TestOrigin::start(&tree) else { return };
    check(&Server::accelerating(origin.address, &["--cores", "1"]));
    let text = format!(
        "{}[[site.route]]\npath = \"/\"\nproxy = {{ to = \"http://{}\" }}\ncache = {{}}\n",
        tree.configuration(""),
        origin.address
    );
    check(&Server::configured(tree.around(), &text));
    let text = text.replace("cache = {}", "cache = { set_cookie = \"store\" }");
    for outcome in outcomes(&Server::configured(tree.around(), &text), &OF_SET_COOKIE) {
        assert!(outcome.has_passed, "{}: {}", outcome.name, outcome.why);
    }
}
