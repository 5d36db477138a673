//! SPICE from the outside: each suite in a very short form, with real programs, against this program's own
//! server and against other servers that are installed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]
#![allow(clippy::print_stdout, reason = "what was measured is printed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use crate::support::skipped;
use serde_json::Value;

/// One mix, with this number of clients.
const CLIENTS: &str = "2";

/// Runs are alone on the machine among these tests: otherwise they would take each other's processors.
fn run(command: &mut Command) -> Output {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let output = command.output().unwrap();
    // Shown if the test fails.
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    println!("{command:?}: {}\n{}{}", output.status, text(&output.stdout), text(&output.stderr));
    output
}

/// Runs a suite with short mixes, and returns its output and its result. If a busy machine counts no requests
/// in a mix without a failure, longer mixes are run.
fn bench(place: &Path, suite: &str, systems: &str) -> (Output, Value) {
    let mut length_ms = 800;
    loop {
        let output = run(&mut command(place, suite, systems, length_ms));
        let result = fs::read_to_string(place.join("result/result.json")).expect("a result");
        let result: Value = serde_json::from_str(&result).unwrap();
        length_ms *= 5;
        if length_ms > LONGEST_MS || !output.status.success() || !counted_nothing(&result) {
            return (output, result);
        }
        fs::remove_dir_all(place.join("result")).unwrap();
    }
}

/// The longest mix that is tried.
const LONGEST_MS: u64 = 30_000;

/// Whether there is a mix without a single answer, good or bad.
pub(crate) fn counted_nothing(result: &Value) -> bool {
    let mixes =
        result["systems"].as_array().unwrap().iter().flat_map(|system| system["mixes"].as_array().unwrap());
    let none = |errors: &Value| errors.as_object().unwrap().values().all(|count| count.as_u64() == Some(0));
    mixes.into_iter().any(|mix| mix["requests"].as_u64() == Some(0) && none(&mix["errors"]))
}

fn command(place: &Path, suite: &str, systems: &str, length_ms: u64) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_touchstone"));
    command
        .args(["bench", suite, "--quick", "--sut", systems, "--clients", CLIENTS])
        .args(["--length", &format!("{length_ms}ms"), "--ramp-up", "100ms", "--ramp-down", "50ms"])
        .args(["--warm-up", "200ms"])
        .arg("--output")
        .arg(place.join("result"))
        .env("TOUCHSTONE_CACHE", place.join("cache"))
        .env_remove("TOUCHSTONE_PROGRAMS");
    command
}

/// Whether servlets can be measured on this program's server: the jars are built here, once.
pub(crate) fn has_java() -> bool {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/java.sh");
    let target = Path::new(env!("CARGO_BIN_EXE_touchstone")).ancestors().nth(2).unwrap();
    let built = Command::new(script).arg("--brief").env("CARGO_TARGET_DIR", target).output().unwrap();
    match built.status.code() {
        Some(0) => true,
        Some(3) => {
            skipped("SPICE programs in Java (install maven and openjdk-17-jdk-headless)");
            false
        }
        _ => panic!("scripts/java.sh: {}", String::from_utf8_lossy(&built.stderr)),
    }
}

/// Whether this program's server can run Python: the interpreter of the system, and its library.
fn has_python() -> bool {
    const SCRIPT: &str = "import sys, sysconfig, pathlib; \
        sys.exit(not (pathlib.Path(sysconfig.get_config_var('LIBDIR'))\
        / f\"libpython{sysconfig.get_config_var('LDVERSION')}.so.1.0\").exists())";
    let asked = Command::new("/usr/bin/python3").args(["-c", SCRIPT]).status();
    let has_it = asked.is_ok_and(|status| status.success());
    if !has_it {
        skipped("SPICE programs in Python (install python3 libpython3.11)");
    }
    has_it
}

fn has_compiler() -> bool {
    let there = Command::new("cc").arg("--version").output().is_ok();
    if !there {
        skipped("SPICE programs in C (install gcc)");
    }
    there
}

/// The interfaces of a system with their mixes, as the result has them: name and number of mixes.
fn measured(result: &Value, system: usize) -> Vec<(String, usize)> {
    let mut found: Vec<(String, usize)> = Vec::new();
    for mix in result["systems"][system]["mixes"].as_array().unwrap() {
        let name = mix["interface"].as_str().unwrap();
        assert!(mix["requests"].as_u64().unwrap() > 0, "{name}");
        assert_eq!(mix["errors"]["short_body"].as_u64(), Some(0), "{name}");
        assert_eq!(mix["errors"]["bad_status"].as_u64(), Some(0), "{name}");
        assert_eq!(mix["mean_body_bytes"].as_f64(), Some(6250.0), "{name}");
        match found.iter_mut().find(|(other, _)| other == name) {
            Some((_, mixes)) => *mixes += 1,
            None => found.push((name.to_string(), 1)),
        }
    }
    found.sort();
    found
}

#[test]
fn every_suite_of_one_interface_measures_it_against_static_files() {
    if !has_compiler() {
        return;
    }
    for interface in ["shtml", "cgi", "fastcgi", "nsapi-send", "nsapi-a", "nsapi-b", "nsapi-c"] {
        let place = tempfile::tempdir().unwrap();
        let (output, result) = bench(place.path(), &format!("spice-{interface}"), "touchstone");
        assert!(output.status.success(), "{interface}: {}", String::from_utf8_lossy(&output.stderr));
        let mut expected = [(interface.to_string(), 1), ("static".to_string(), 1)];
        expected.sort();
        assert_eq!(measured(&result, 0), expected);
        let rows = result["spice"].as_array().unwrap();
        let row = rows.iter().find(|row| row["interface"] == interface).unwrap();
        for form in ["at_own_peak", "at_equal_load"] {
            for efficiency in ["request_efficiency", "throughput_efficiency", "latency_efficiency"] {
                assert!(row[form][efficiency].as_f64().unwrap() > 0.0, "{interface} {form} {efficiency}");
            }
        }
        assert_eq!(row["at_equal_load"]["clients"], row["at_equal_load"]["static_clients"]);
    }
}

#[test]
fn all_interfaces_of_the_server_are_measured_in_one_run() {
    if !has_compiler() || !has_java() || !has_python() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (output, result) = bench(place.path(), "spice", "touchstone,limit");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all = [
        "asgi",
        "cgi",
        "fastcgi",
        "jsp",
        "nsapi-a",
        "nsapi-b",
        "nsapi-c",
        "nsapi-send",
        "servlet-stream",
        "servlet-writer",
        "shtml",
        "static",
        "wasm",
        "wasm-reused",
        "wsgi",
    ];
    let of_wasm = ["wasm", "wasm-reused"];
    let has_wasm = cfg!(feature = "wasm");
    let expected = all.iter().filter(|name| has_wasm || !of_wasm.contains(*name));
    assert_eq!(measured(&result, 0), expected.map(|name| (name.to_string(), 1)).collect::<Vec<_>>());
    assert_eq!(measured(&result, 1), [("static".to_string(), 1)]);
    let skipped = result["systems"][0]["skipped"].as_array().into_iter().flatten();
    let names: Vec<&str> = skipped.map(|one| one["interface"].as_str().unwrap()).collect();
    let expected = of_wasm.into_iter().filter(|_| !has_wasm);
    assert_eq!(names, expected.collect::<Vec<_>>());
    assert_eq!(result["spice"].as_array().unwrap().len(), if has_wasm { 16 } else { 14 });
    // Root's rights are dropped, and with them those of every program.
    let configuration = result["systems"][0]["configuration"][0]["text"].as_str().unwrap();
    assert_eq!(configuration.contains("\nuser = \"nobody\"\n"), rustix::process::geteuid().is_root());

    let printed = String::from_utf8_lossy(&output.stdout);
    for text in
        ["NSAPI version C", "own peak", "equal load", "by CPU", "iWS 4.0 on 4 processors had 493", "report: "]
    {
        assert!(printed.contains(text), "{text} is not in\n{printed}");
    }
    let report = fs::read_to_string(place.path().join("result/report.html")).unwrap();
    let verdict = &report[..report.find("id=\"disclosure\"").unwrap()];
    for text in ["SHTML", "FastCGI", "NSAPI version B", "<strong>17.9\u{a0}%</strong> iWS 4.0, 4P"] {
        assert!(verdict.contains(text), "{text} is not in the verdict");
    }
    let log = fs::read_to_string(place.path().join("result/latency.hlog")).unwrap();
    assert!(log.contains("touchstone/nsapi-c/2_clients"), "{log}");
}

/// Another server that is installed, with the interfaces that it must show.
fn another_server(name: &str, executable: &str, expected: &[&str]) -> Option<Value> {
    if !has_compiler() {
        return None;
    }
    let there =
        ["/usr/sbin", "/usr/bin"].iter().any(|directory| Path::new(directory).join(executable).exists());
    if !there {
        skipped(&format!("SPICE on {name} (install {executable})"));
        return None;
    }
    let place = tempfile::tempdir().unwrap();
    let (output, result) = bench(place.path(), "spice", name);
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let found: Vec<String> = measured(&result, 0).into_iter().map(|(interface, _)| interface).collect();
    assert_eq!(found, expected, "{name}");
    let reasons: Vec<&str> = result["systems"][0]["skipped"]
        .as_array()
        .unwrap()
        .iter()
        .map(|skipped| skipped["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons.len() + found.len(), 15, "{reasons:?}");
    let printed = String::from_utf8_lossy(&output.stdout);
    for reason in reasons {
        assert!(printed.contains(reason), "{reason} is not in\n{printed}");
    }
    every_figure_follows_from_the_raw_data(place.path());
    Some(result)
}

/// A result with interfaces is as well proven as any other, whatever the source of its processor time.
fn every_figure_follows_from_the_raw_data(place: &Path) {
    let result = place.join("result");
    let verified = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["verify", "--require", "invalid"])
        .arg(result)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&verified.stdout);
    assert!(verified.status.success() && !said.contains("REFUSED"), "{said}");
}

/// What a system used in its first mix of an interface.
fn server_use<'r>(result: &'r Value, interface: &str) -> &'r Value {
    let mixes = result["systems"][0]["mixes"].as_array().unwrap();
    &mixes.iter().find(|mix| mix["interface"] == interface).unwrap()["server"]
}

#[test]
fn nginx_is_measured_with_what_it_has() {
    let Some(result) = another_server("nginx", "nginx", &["fastcgi", "shtml", "static"]) else { return };
    // Master, worker, and the FastCGI program that it does not start itself.
    assert!(server_use(&result, "fastcgi")["processes"].as_u64().unwrap() >= 3);
    assert_eq!(server_use(&result, "fastcgi")["of_processors"], Value::Bool(false));
}

#[test]
fn apache_is_measured_with_what_it_has() {
    let expected = ["cgi", "fastcgi", "shtml", "static"];
    let Some(result) = another_server("apache", "apache2", &expected) else { return };
    // No process of the server is the parent of mod_cgid's programs when they end.
    assert_eq!(server_use(&result, "cgi")["of_processors"], Value::Bool(true));
    assert_eq!(server_use(&result, "static")["of_processors"], Value::Bool(false));
}

#[test]
fn lighttpd_is_measured_with_what_it_has() {
    another_server("lighttpd", "lighttpd", &["cgi", "fastcgi", "shtml", "static"]);
}

#[test]
fn h2o_is_measured_with_what_it_has() {
    another_server("h2o", "h2o", &["fastcgi", "static"]);
}

/// Those of these systems that are installed: a system that needs a Tomcat is left out, with the name of what
/// is missing.
fn with_tomcat<'n>(systems: &[&'n str]) -> Vec<&'n str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tomcat = std::env::split_paths(&path).any(|directory| directory.join("catalina.sh").exists());
    let apache = Path::new("/usr/sbin/apache2").exists();
    let there = |name: &&&str| match **name {
        "touchstone" => true,
        "apache-ajp" => tomcat && apache,
        _ => tomcat,
    };
    let found: Vec<&str> = systems.iter().filter(there).copied().collect();
    if found.len() < systems.len() {
        skipped(
            "SPICE with Tomcat (run scripts/setup-tomcat.sh, with its place on the PATH; install apache2)",
        );
    }
    found
}

#[test]
fn servlets_are_measured_on_the_server_on_tomcat_and_behind_apache() {
    if !has_java() {
        return;
    }
    let systems = with_tomcat(&["touchstone", "tomcat", "apache-ajp"]);
    let place = tempfile::tempdir().unwrap();
    let (output, result) = bench(place.path(), "spice-servlet", &systems.join(","));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all = ["servlet-stream", "servlet-writer", "static"].map(|name| (name.to_string(), 1));
    for (index, system) in systems.iter().enumerate() {
        assert_eq!(measured(&result, index), all, "{system}");
    }
    every_figure_follows_from_the_raw_data(place.path());
}

#[test]
fn the_same_tomcat_is_measured_over_ajp_behind_the_server_and_behind_apache() {
    if !has_java() {
        return;
    }
    let systems = with_tomcat(&["touchstone-ajp", "apache-ajp"]);
    if systems.is_empty() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (output, result) = bench(place.path(), "spice-ajp", &systems.join(","));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (index, system) in systems.iter().enumerate() {
        let all = ["ajp", "static"].map(|name| (name.to_string(), 1));
        assert_eq!(measured(&result, index), all, "{system}");
    }
}

/// Those of these servers for Python applications that are installed; what is missing is named.
fn servers_for_python<'n>(systems: &[&'n str]) -> Vec<&'n str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = |program: &str| {
        let directories = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/bin"].map(PathBuf::from));
        directories.into_iter().any(|directory| directory.join(program).exists())
    };
    let there = |name: &str| match name {
        "apache-wsgi" => on_path("apache2") && Path::new("/usr/lib/apache2/modules/mod_wsgi.so").exists(),
        "granian-asgi" => on_path("granian"),
        name => on_path(name),
    };
    let (found, missing): (Vec<&str>, Vec<&str>) = systems.iter().partition(|name| there(name));
    if !missing.is_empty() {
        let missing = missing.join(", ");
        skipped(&format!(
            "SPICE on {missing} (run scripts/setup-python-servers.sh, with its place on the PATH; install \
             uwsgi-core uwsgi-plugin-python3 libapache2-mod-wsgi-py3)"
        ));
    }
    found
}

#[test]
fn python_applications_are_measured_on_other_servers() {
    for (interface, systems) in [
        ("wsgi", &["granian", "gunicorn", "uwsgi", "apache-wsgi"][..]),
        ("asgi", &["granian-asgi", "uvicorn"]),
    ] {
        let systems = servers_for_python(systems);
        if systems.is_empty() {
            continue;
        }
        let place = tempfile::tempdir().unwrap();
        let (output, result) = bench(place.path(), &format!("spice-{interface}"), &systems.join(","));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut all = [interface, "static"].map(|name| (name.to_string(), 1));
        all.sort();
        for (index, system) in systems.iter().enumerate() {
            assert_eq!(measured(&result, index), all, "{system}");
        }
        every_figure_follows_from_the_raw_data(place.path());
    }
}

#[test]
fn a_system_without_the_interface_is_left_out_or_refused_with_the_reason() {
    let Some(nginx) = ["/usr/sbin/nginx", "/usr/bin/nginx"].iter().find(|path| Path::new(path).exists())
    else {
        return skipped("what nginx lacks (install nginx)");
    };
    assert!(Path::new(nginx).exists());
    let place = tempfile::tempdir().unwrap();
    let output = run(&mut command(place.path(), "spice-nsapi-c", "nginx", 800));
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("nothing can be measured: nginx ")
            && message.contains("does not run NSAPI plug-ins")
    );
    assert!(!place.path().join("result").exists());

    if !has_compiler() {
        return;
    }
    let (output, result) = bench(place.path(), "spice-nsapi-c", "nginx,touchstone");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(result["systems"][0]["mixes"], Value::Array(Vec::new()));
    assert_eq!(measured(&result, 1).len(), 2);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        message.contains("not measured: nginx") && message.contains("does not run NSAPI plug-ins"),
        "{message}"
    );
}

#[test]
fn without_a_compiler_interfaces_with_programs_are_skipped() {
    let place = tempfile::tempdir().unwrap();
    // A PATH on which there is no cc.
    let output = run(command(place.path(), "spice", "touchstone", 800).env("PATH", place.path()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(place.path().join("result/result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    // Those in Python and of components need no compiler.
    let names: Vec<String> = measured(&result, 0).into_iter().map(|(name, _)| name).collect();
    let of_c = ["cgi", "fastcgi", "nsapi"];
    assert!(!names.iter().any(|name| of_c.iter().any(|one| name.starts_with(one))), "{names:?}");
    assert!(names.contains(&"shtml".to_string()) && names.contains(&"static".to_string()), "{names:?}");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        message.contains("not measured: CGI: there is no cc to compile its program (install gcc"),
        "{message}"
    );

    let stated =
        run(command(place.path(), "spice-cgi", "touchstone", 800).env("TOUCHSTONE_PROGRAMS", place.path()));
    let message = String::from_utf8_lossy(&stated.stderr);
    assert_eq!(stated.status.code(), Some(2), "{message}");
    assert!(message.contains("CGI: it is not in ") && message.contains("(TOUCHSTONE_PROGRAMS)"), "{message}");
}

#[test]
fn a_server_that_runs_already_is_measured_with_what_it_answers() {
    if !has_compiler() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let written = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["suites", "spice", "--tree"])
        .arg(place.path().join("www"))
        .output()
        .unwrap();
    assert!(written.status.success());
    let server = crate::support::Server::quick(&place.path().join("www"));
    let (output, result) = bench(place.path(), "spice", &format!("http://{}", server.address()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(measured(&result, 0), [("shtml".to_string(), 1), ("static".to_string(), 1)]);
    let reason = result["systems"][0]["skipped"][0]["reason"].as_str().unwrap();
    assert!(reason.ends_with("answered 404 to a request for /cgi-bin/spice"), "{reason}");
}
