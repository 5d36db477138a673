//! `scripts/bench.py`, the program of `make bench`: what it makes of the results of `touchstone bench`.

use crate::support::{skipped, write_program};
use std::path::Path;
use std::process::Command;

/// Stands for `touchstone`: it lists systems, refuses to start one, and writes a result for the others.
const PROGRAM: &str = r#"#!/usr/bin/env python3
import json, os, sys
arguments = sys.argv[1:]
first = os.environ["PATH"].split(os.pathsep)[0]
assert os.path.exists(os.path.join(first, "haproxy")), os.environ["PATH"]
titles = {"touchstone-proxy": "touchstone 1 before Apache", "haproxy": "HAProxy 1 before Apache",
          "nginx-proxy": "nginx 1 before Apache", "caddy-proxy": "Caddy 1 before Apache"}
if arguments[0] == "systems":
    systems = [{"name": name, "title": title, "installed": True} for name, title in titles.items()]
    print(json.dumps({"systems": systems}))
    sys.exit()
named = [one.split("=")[0] for one in arguments[arguments.index("--sut") + 1].split(",")]
if "caddy-proxy" in named:
    print("touchstone bench: Caddy 1 before Apache ended at once. It printed nothing.", file=sys.stderr)
    sys.exit(2)
def mix(clients, cpu_us):
    return {"name": f"{clients}_clients", "run": 1, "clients": clients, "requests": 9, "interface": "",
            "server": {"cpu_us_per_request": cpu_us}, "latency": {"p99_us": 100 * clients}}
def system(name, cpu_us, origin_us):
    use = [{"mix": "64_clients", "run": 1, "cpu_us_per_request": origin_us}]
    return {"name": name, "mixes": [mix(1, 999), mix(64, cpu_us)], "skipped": [], "origin": {"mixes": use}}
systems = [system("touchstone-proxy", 30, 20), system("haproxy", 45, 25)]
reason = {"interface": "", "reason": "nginx 1 does not serve files"}
systems.append({"name": "nginx-proxy", "mixes": [], "skipped": [reason], "origin": None})
idle = {**mix(64, 0), "requests": 0}
systems.append({"name": "squid", "mixes": [idle], "skipped": [], "origin": None})
output = arguments[arguments.index("--output") + 1]
os.makedirs(output)
with open(os.path.join(output, "result.json"), "w") as result:
    json.dump({"systems": systems}, result)
"#;

#[test]
fn proxies_are_compared_without_their_origin_and_the_others_left_out() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skipped("scripts/bench.py (install python3)");
    }
    let place = tempfile::tempdir().expect("a directory");
    for name in ["touchstone", "haproxy"] {
        write_program(&place.path().join(name), PROGRAM);
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/bench.py");
    let bench = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.arg(&script).args(arguments).current_dir(place.path()).output().expect("python3 starts")
    };
    let output = bench(&["./touchstone", "--works", "proxy", "--sut", "haproxy=./haproxy"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["proxy", "touchstone-proxy", "10.00", "20.00", "100"], "{text}");
    assert_eq!(rows[1], ["proxy", "haproxy", "20.00", "0.50", "25.00", "100"], "{text}");
    assert_eq!(rows[2].join(" "), "proxy nginx-proxy left out: nginx 1 does not serve files");
    let reason = "proxy caddy-proxy left out: Caddy 1 before Apache ended at once. It printed nothing.";
    assert_eq!(rows[3].join(" "), "proxy squid left out: it answered no request at the most clients");
    assert_eq!((rows[4].join(" ").as_str(), rows.len()), (reason, 5), "{text}");

    let output = bench(&["./touchstone", "--sut", "nginx=/nowhere/nginx"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("--sut: /nowhere/nginx is not the path of an executable file"), "{text}");
}
