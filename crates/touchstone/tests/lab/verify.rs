//! `touchstone certify` and `touchstone verify`, on a result that is measured here.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use crate::support::{run, skipped};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A result of two mixes, each of less than two seconds.
fn measured(place: &Path) -> PathBuf {
    let result = place.join("result");
    let output = run([
        "bench",
        "webbench-1.1-static",
        "--quick",
        "--sut",
        "touchstone",
        "--clients",
        "1,2",
        "--length",
        "1500ms",
        "--ramp-up",
        "200ms",
        "--ramp-down",
        "200ms",
        "--fail-if",
        "p99>60s",
        "--output",
        result.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    result
}

fn verify(result: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_touchstone")).arg("verify").arg(result).args(more).output().unwrap()
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// A generator of places to damage: the same in every run.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

#[test]
fn a_measured_result_is_signed_verified_and_refused_when_any_file_is_changed() {
    let place = tempfile::tempdir().unwrap();
    let result = measured(place.path());
    // On a busy machine the sums of so short a run may not agree: then the result is invalid, but still
    // authentic.
    let unsigned = verify(&result, &["--json", "--require", "invalid"]);
    assert_eq!(unsigned.status.code(), Some(0), "{}", String::from_utf8_lossy(&unsigned.stdout));
    let found: serde_json::Value = serde_json::from_slice(&unsigned.stdout).unwrap();
    assert_eq!(found["refused"], false);
    assert_ne!(found["class"], "certified", "load and server shared one machine");
    // With a key, the caller requires a signer of the result.
    let other = place.path().join("other.key");
    assert_eq!(run(["certify", "--generate-key", other.to_str().unwrap()]).status.code(), Some(0));
    let unsigned = verify(&result, &["--key", &format!("{}.pub", other.display()), "--require", "invalid"]);
    assert_eq!(unsigned.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unsigned.stdout).contains("REFUSED: it is not signed"));
    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let nobodys = verify(&result, &["--require", "invalid"]);
    assert!(said(&nobodys).contains("but it is not signed") && !said(&nobodys).contains("is authentic"));
    assert_eq!(verify(&result, &["--require", "certified"]).status.code(), Some(1));

    let key = place.path().join("lab.key");
    let public = place.path().join("lab.key.pub");
    let (key_text, public_text) = (key.to_str().unwrap(), public.to_str().unwrap());
    assert_eq!(run(["certify", "--generate-key", key_text]).status.code(), Some(0));
    let signed = run(["certify", result.to_str().unwrap(), "--key", key_text]);
    assert_eq!(signed.status.code(), Some(0), "{}", String::from_utf8_lossy(&signed.stderr));
    assert_eq!(verify(&result, &["--key", public_text, "--require", "invalid"]).status.code(), Some(0));
    assert_eq!(verify(&result, &["--key", public_text, "--require", "certified"]).status.code(), Some(3));
    let unknown = verify(&result, &["--require", "certified"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(said(&unknown).contains("REFUSED: the key that signed it is known only from the result"));
    assert_eq!(verify(&result, &["--require", "certified", "--any-signer"]).status.code(), Some(3));
    // A report with a different text is not signed.
    let report = result.join("report.html");
    let text = fs::read(&report).unwrap();
    fs::write(&report, "<h1>1,000,000 requests a second</h1>").unwrap();
    let refused = run(["certify", result.to_str().unwrap(), "--key", key_text]);
    assert_eq!(refused.status.code(), Some(1), "{}", String::from_utf8_lossy(&refused.stderr));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("report.html: it is not what result.json says")
    );
    fs::write(&report, text).unwrap();

    let (mut all, mut state) = (Vec::new(), 1);
    files(&result, &mut all);
    assert!(all.iter().any(|path| path.ends_with("raw.jsonl")), "{all:?}");
    for path in all.iter().filter(|path| fs::metadata(path).unwrap().len() > 0) {
        let whole = fs::read(path).unwrap();
        for _ in 0..2 {
            let mut damaged = whole.clone();
            let at = next(&mut state) % whole.len();
            damaged[at] ^= (next(&mut state) % 255 + 1) as u8;
            fs::write(path, &damaged).unwrap();
            let found = verify(&result, &["--key", public_text, "--require", "invalid"]).status.code();
            // A result.json that cannot be read is refused with another exit code.
            assert!(matches!(found, Some(1 | 2)), "{} at {at}: {found:?}", path.display());
        }
        fs::write(path, &whole).unwrap();
    }
    assert_eq!(verify(&result, &["--key", public_text, "--require", "invalid"]).status.code(), Some(0));
}

/// A signed result, and the key's public file.
fn signed(place: &Path) -> (PathBuf, String) {
    let result = measured(place);
    let key = place.join("lab.key");
    let (key_text, public) = (key.to_str().unwrap(), format!("{}.pub", key.display()));
    assert_eq!(run(["certify", "--generate-key", key_text]).status.code(), Some(0));
    let signed = run(["certify", result.to_str().unwrap(), "--key", key_text]);
    assert_eq!(signed.status.code(), Some(0), "{}", String::from_utf8_lossy(&signed.stderr));
    (result, public)
}

/// `verify`, killed when it has not ended after minutes: the exit code is `None` then.
fn verify_in_time(result: &Path, key: &Path) -> Output {
    let program = env!("CARGO_BIN_EXE_touchstone");
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "240", program, "verify", "--require", "invalid", "--key"]);
    command.arg(key).arg(result).output().unwrap()
}

fn fifo(path: &Path) {
    let _ = fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn link(to: impl AsRef<Path>, path: &Path) {
    let _ = fs::remove_file(path);
    std::os::unix::fs::symlink(to, path).unwrap();
}

fn directory_in_place_of(path: &Path) {
    fs::remove_file(path).unwrap();
    fs::create_dir(path).unwrap();
}

fn edit(path: &Path, change: impl FnOnce(String) -> String) {
    let before = fs::read_to_string(path).unwrap();
    let after = change(before.clone());
    assert_ne!(before, after, "{}", path.display());
    fs::write(path, after).unwrap();
}

/// A change to a copy of a signed result.
type Tampering = (&'static str, fn(&Path));

const FILES: [&str; 9] = [
    "result.json",
    "raw.jsonl",
    "report.html",
    "timeline.csv",
    "clients.csv",
    "latency.hlog",
    "manifest.json",
    "statement.json",
    "statement.json.minisig",
];

const TAMPERINGS: &[Tampering] = &[
    ("a FIFO that was added", |result| fifo(&result.join("more"))),
    ("a FIFO in place of the key of the directory", |result| fifo(&result.join("signer.pub"))),
    ("a FIFO below systems", |result| fifo(&result.join("systems/more"))),
    ("a link that leads nowhere", |result| link("nowhere", &result.join("more"))),
    ("a link in a circle", |result| link("more", &result.join("more"))),
    ("a link to an endless device", |result| link("/dev/zero", &result.join("raw.jsonl"))),
    ("a link to a file without an end of its own", |result| link("/proc/self/mem", &result.join("more"))),
    ("a link to a directory", |result| {
        fs::rename(result.join("systems"), result.with_extension("systems")).unwrap();
        link(result.with_extension("systems"), &result.join("systems"));
    }),
    ("a socket", |result| {
        drop(std::os::unix::net::UnixListener::bind(result.join("more")).unwrap());
    }),
    ("an empty directory", |result| fs::create_dir(result.join("more")).unwrap()),
    ("directories within each other", |result| {
        fs::create_dir_all(result.join("a/".repeat(100))).unwrap();
    }),
    ("a file of five gibibytes, without a block", |result| {
        fs::File::create(result.join("more")).unwrap().set_len(5 << 30).unwrap();
    }),
    ("raw data of five gibibytes", |result| {
        fs::OpenOptions::new().write(true).open(result.join("raw.jsonl")).unwrap().set_len(5 << 30).unwrap();
    }),
    ("a statement of 17 MiB", |result| {
        let path = result.join("statement.json");
        fs::OpenOptions::new().write(true).open(path).unwrap().set_len(17 << 20).unwrap();
    }),
    ("ten thousand files", |result| {
        for number in 0..10_001 {
            fs::write(result.join(format!("more-{number}")), "").unwrap();
        }
    }),
    ("a name that is not text", |result| {
        use std::os::unix::ffi::OsStrExt as _;
        fs::write(result.join(std::ffi::OsStr::from_bytes(b"more\xff")), "").unwrap();
    }),
    ("a name that changes the terminal", |result| {
        fs::write(result.join("\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}"), "").unwrap();
    }),
    ("a title that changes the terminal", |result| {
        edit(&result.join("result.json"), |text| {
            text.replacen("\"title\": \"", "\"title\": \"\\u001b[2J\\u001b]0;owned\\u0007\\r", 1)
        });
    }),
    ("a file that was taken away", |result| fs::remove_file(result.join("clients.csv")).unwrap()),
    ("no manifest", |result| fs::remove_file(result.join("manifest.json")).unwrap()),
    ("no statement", |result| fs::remove_file(result.join("statement.json")).unwrap()),
    ("no signature", |result| fs::remove_file(result.join("statement.json.minisig")).unwrap()),
    ("nothing of the seal", |result| {
        for name in ["manifest.json", "statement.json", "statement.json.minisig", "signer.pub"] {
            fs::remove_file(result.join(name)).unwrap();
        }
    }),
    ("a higher class", |result| {
        edit(&result.join("statement.json"), |text| {
            text.replace("\"WARNED\"", "\"PASSED\"").replace("\"FAILED\"", "\"PASSED\"")
        });
    }),
    ("a manifest that leads out of the directory", |result| {
        edit(&result.join("manifest.json"), |text| text.replacen("clients.csv", "../clients.csv", 1));
    }),
    ("a manifest without its first file", |result| {
        edit(&result.join("manifest.json"), |text| text.replacen("clients.csv", "timeline.csv", 1));
    }),
    ("a result of another form", |result| fs::write(result.join("result.json"), "null").unwrap()),
    ("a result without an end", |result| {
        edit(&result.join("result.json"), |text| text[..text.len() / 2].to_owned());
    }),
    ("a result nested without end", |result| {
        fs::write(result.join("result.json"), "[".repeat(1 << 20)).unwrap();
    }),
    ("empty raw data", |result| fs::write(result.join("raw.jsonl"), "").unwrap()),
    ("raw data with a mix twice", |result| {
        edit(&result.join("raw.jsonl"), |text| format!("{text}{}\n", text.lines().next().unwrap()));
    }),
    ("raw data in another order", |result| {
        edit(&result.join("raw.jsonl"), |text| {
            let mut lines: Vec<&str> = text.lines().collect();
            lines.reverse();
            lines.join("\n") + "\n"
        });
    }),
    ("a script in the report", |result| {
        edit(&result.join("report.html"), |text| text.replacen("</body>", "<script>1</script></body>", 1));
    }),
    ("white space in the report", |result| {
        edit(&result.join("report.html"), |text| text + "\n");
    }),
    ("other line ends in a table", |result| {
        edit(&result.join("clients.csv"), |text| text.replace('\n', "\r\n"));
    }),
];

/// Further changes: of the words and figures that a reader quotes, and of the text beside them.
const FURTHER_TAMPERINGS: &[Tampering] = &[
    ("a higher rate", |result| {
        edit(&result.join("result.json"), |text| {
            text.replacen("\"requests_per_second\": ", "\"requests_per_second\": 9", 1)
        });
    }),
    ("another server\u{2019}s name", |result| {
        edit(&result.join("result.json"), |text| {
            text.replacen("\"title\": \"touchstone", "\"title\": \"nginx", 1)
        });
    }),
    ("another processor", |result| {
        edit(&result.join("result.json"), |text| {
            text.replacen("\"cpu_model\": \"", "\"cpu_model\": \"Faster ", 1)
        });
    }),
    ("separate machines", |result| {
        edit(&result.join("result.json"), |text| {
            text.replacen("\"same_host\": true", "\"same_host\": false", 1)
        });
    }),
    ("the whole form", |result| {
        edit(&result.join("result.json"), |text| text.replacen("\"quick\": true", "\"quick\": false", 1));
    }),
    ("another date", |result| {
        edit(&result.join("result.json"), |text| {
            text.replacen("\"started_at\": \"2", "\"started_at\": \"3", 1)
        });
    }),
    ("another command line", |result| {
        edit(&result.join("result.json"), |text| {
            text.replacen("webbench-1.1-static", "webbench-1.1-mixed", 1)
        });
    }),
    ("a sponsor who paid nothing", |result| {
        edit(&result.join("result.json"), |text| {
            text.replacen("\"sponsor\": null", "\"sponsor\": \"Example Inc.\"", 1)
        });
    }),
    ("a note that was added", |result| {
        edit(&result.join("result.json"), |text| {
            text.replacen("\"notes\": []", "\"notes\": [\"all is well\"]", 1)
        });
    }),
    ("no warnings", |result| {
        edit(&result.join("result.json"), |text| text.replacen("\"warnings\":", "\"old_warnings\":", 1));
    }),
    ("a newer form", |result| {
        edit(&result.join("result.json"), |text| {
            text.replacen("\"schema_version\": 1", "\"schema_version\": 99", 1)
        });
    }),
    ("a result with white space", |result| {
        edit(&result.join("result.json"), |text| format!("{text} "));
    }),
    ("a result with other line ends", |result| {
        edit(&result.join("result.json"), |text| text.replace('\n', "\r\n"));
    }),
    ("a result with a byte order mark", |result| {
        edit(&result.join("result.json"), |text| format!("\u{feff}{text}"));
    }),
    ("raw data without its last mix", |result| {
        edit(&result.join("raw.jsonl"), |text| {
            text.lines().take(text.lines().count() - 1).map(|line| format!("{line}\n")).collect()
        });
    }),
    ("raw data with an empty line", |result| {
        edit(&result.join("raw.jsonl"), |text| format!("{text}\n"));
    }),
    ("raw data with another count", |result| {
        edit(&result.join("raw.jsonl"), |text| text.replacen("\"requests\":", "\"requests\":1", 1));
    }),
    ("raw data that is no JSON", |result| {
        edit(&result.join("raw.jsonl"), |text| text.replacen('{', "(", 1));
    }),
    ("a configuration that says something else", |result| {
        edit(&result.join("systems/touchstone/touchstone.toml"), |text| format!("{text}\n# faster\n"));
    }),
    ("no configuration", |result| {
        fs::remove_file(result.join("systems/touchstone/touchstone.toml")).unwrap();
    }),
    ("a configuration that was added", |result| {
        fs::write(result.join("systems/touchstone/more.toml"), "x").unwrap();
    }),
    ("the system\u{2019}s directory under another name", |result| {
        fs::rename(result.join("systems/touchstone"), result.join("systems/nginx")).unwrap();
    }),
    ("a hidden file", |result| fs::write(result.join(".more"), "x").unwrap()),
    ("a file with no bytes", |result| fs::write(result.join("more"), "").unwrap()),
    ("a name in capital letters", |result| {
        fs::rename(result.join("clients.csv"), result.join("CLIENTS.CSV")).unwrap();
    }),
    ("two tables in each other\u{2019}s place", |result| {
        let (one, two) = (result.join("clients.csv"), result.join("timeline.csv"));
        fs::rename(&one, result.join("third")).unwrap();
        fs::rename(&two, &one).unwrap();
        fs::rename(result.join("third"), &two).unwrap();
    }),
    ("a table without its last row", |result| {
        edit(&result.join("timeline.csv"), |text| {
            text.lines().take(text.lines().count() - 1).map(|line| format!("{line}\n")).collect()
        });
    }),
    ("a client twice", |result| {
        edit(&result.join("clients.csv"), |text| format!("{text}{}\n", text.lines().last().unwrap()));
    }),
    ("a histogram that was taken away", |result| {
        edit(&result.join("latency.hlog"), |text| {
            let kept = text.lines().filter(|line| line.starts_with(['#', '"', '[']));
            kept.map(|line| format!("{line}\n")).collect()
        });
    }),
    ("a remark in the histograms", |result| {
        edit(&result.join("latency.hlog"), |text| format!("# measured on a better machine\n{text}"));
    }),
    ("the report of another result", |result| {
        fs::write(result.join("report.html"), "<!DOCTYPE html><title>1,000,000 requests/s</title>").unwrap();
    }),
    ("an old statement with a new name", |result| {
        edit(&result.join("statement.json"), |text| text.replacen("manifest.json", "result.json", 1));
    }),
    ("a statement about another hash", |result| {
        edit(&result.join("statement.json"), |text| {
            let at = text.find("\"sha256\"").unwrap() + 12;
            let digit = if text[at..].starts_with('0') { "1" } else { "0" };
            format!("{}{digit}{}", &text[..at], &text[at + 1..])
        });
    }),
    ("a statement that ends early", |result| {
        edit(&result.join("statement.json"), |text| text[..text.len() - 3].to_owned());
    }),
    ("a manifest of a newer form", |result| {
        edit(&result.join("manifest.json"), |text| text.replacen("\"version\": 1", "\"version\": 2", 1));
    }),
    ("a manifest with another hash", |result| {
        edit(&result.join("manifest.json"), |text| text.replacen("\"sha256\": \"", "\"sha256\": \"0", 1));
    }),
    ("a manifest with one file more", |result| {
        edit(&result.join("manifest.json"), |text| {
            let row = "{ \"path\": \"more\", \"bytes\": 0, \"sha256\": \"00\" },";
            text.replacen("\"files\": [", &format!("\"files\": [{row}"), 1)
        });
    }),
    ("the signature of nothing", |result| {
        fs::write(result.join("statement.json.minisig"), "untrusted comment: x\n").unwrap();
    }),
    ("a signature without its last line", |result| {
        edit(&result.join("statement.json.minisig"), |text| {
            text.lines().take(3).map(|line| format!("{line}\n")).collect()
        });
    }),
    ("another trusted comment", |result| {
        edit(&result.join("statement.json.minisig"), |text| {
            text.replacen("trusted comment: ", "trusted comment: better ", 2).replacen("better ", "", 1)
        });
    }),
];

/// A change to the JSON of a result, or of a line of its raw data.
type JsonChange = fn(&mut serde_json::Value);

fn edit_json(path: &Path, line: usize, change: JsonChange) {
    edit(path, |text| {
        let mut lines: Vec<String> = match path.extension() {
            Some(extension) if extension == "jsonl" => text.lines().map(str::to_owned).collect(),
            _ => vec![text],
        };
        let mut value: serde_json::Value = serde_json::from_str(&lines[line]).unwrap();
        change(&mut value);
        lines[line] = value.to_string();
        lines.join("\n") + "\n"
    });
}

fn result_json(result: &Path, change: JsonChange) {
    edit_json(&result.join("result.json"), 0, change);
}

fn first_mix(value: &mut serde_json::Value) -> &mut serde_json::Value {
    &mut value["systems"][0]["mixes"][0]
}

fn raw_json(result: &Path, change: JsonChange) {
    edit_json(&result.join("raw.jsonl"), 0, change);
}

/// A number, a little larger.
fn raise(value: &mut serde_json::Value) {
    let more = value.as_f64().unwrap() * 1.01 + 1.0;
    *value = if value.is_u64() { (more as u64).into() } else { more.into() };
}

/// A histogram that states 4 GiB of counts (see `raw_histogram.rs`).
const BOMB: &str = "HISTFAAAABt42pNpmSz8HwgYIIAZSjM2QBn2HyA0AMuPBvY=";

/// Changes to an unsigned result, each in one place: the rest of the directory contradicts it.
const TAMPERINGS_OF_UNSIGNED: &[Tampering] = &[
    ("a rate of the second mix", |result| {
        result_json(result, |value| raise(&mut value["systems"][0]["mixes"][1]["requests_per_second"]));
    }),
    ("a median that is shown beside it", |result| {
        result_json(result, |value| {
            raise(&mut value["systems"][0]["loads"][0]["requests_per_second"]["median"]);
        });
    }),
    ("another load as the peak", |result| {
        result_json(result, |value| raise(&mut value["systems"][0]["peaks"][0]["peak"]["clients"]));
    }),
    ("a useful peak with another reason", |result| {
        result_json(result, |value| {
            value["systems"][0]["peaks"][0]["difference"] = "it was a good day".into();
        });
    }),
    ("no complaint about a load", |result| {
        result_json(result, |value| {
            let complaints = &mut value["systems"][0]["loads"][0]["complaints"];
            let kept = if complaints.as_array().unwrap().is_empty() { 1 } else { 0 };
            *complaints = vec!["it was slow"; kept].into();
        });
    }),
    ("more runs than there were", |result| {
        result_json(result, |value| value["method"]["runs"] = 3.into());
    }),
    ("a mix of another run", |result| {
        result_json(result, |value| first_mix(value)["run"] = 2.into());
    }),
    ("a mix of more clients", |result| {
        result_json(result, |value| raise(&mut first_mix(value)["clients"]));
    }),
    ("a mix that was cut short", |result| {
        result_json(result, |value| first_mix(value)["complete"] = false.into());
    }),
    ("another sign of the load engine", |result| {
        result_json(result, |value| first_mix(value)["generator_saturated"] = "it was tired".into());
    }),
    ("a load engine that waited longer", |result| {
        result_json(result, |value| raise(&mut first_mix(value)["load"]["longest_waiting_thread"]));
    }),
    ("fewer errors than the raw data has", |result| {
        raw_json(result, |value| value["errors"]["timeout"] = 5.into());
    }),
    ("a threshold that was missed", |result| {
        result_json(result, |value| first_mix(value)["thresholds"][0]["kept"] = false.into());
    }),
    ("another figure of a threshold", |result| {
        result_json(result, |value| raise(&mut first_mix(value)["thresholds"][0]["measured"]));
    }),
    ("other words of a threshold", |result| {
        result_json(result, |value| first_mix(value)["thresholds"][0]["words"] = "very good".into());
    }),
    ("a looser threshold", |result| {
        result_json(result, |value| raise(&mut first_mix(value)["thresholds"][0]["limit"]));
    }),
    ("a second that was later", |result| {
        raw_json(result, |value| {
            let seconds = value["intervals"].as_array_mut().unwrap();
            seconds[0]["start_s"] = 7.5.into();
        });
    }),
    ("a second with more requests", |result| {
        raw_json(result, |value| raise(&mut value["intervals"][0]["requests"]));
    }),
    ("a second twice", |result| {
        raw_json(result, |value| {
            let seconds = value["intervals"].as_array_mut().unwrap();
            seconds.push(seconds[0].clone());
        });
    }),
    ("a client of the raw data taken away", |result| {
        raw_json(result, |value| {
            value["clients"].as_array_mut().unwrap().pop();
        });
    }),
    ("two mixes of the result in each other\u{2019}s place", |result| {
        result_json(result, |value| value["systems"][0]["mixes"].as_array_mut().unwrap().swap(0, 1));
    }),
    ("the raw data of one mix for another", |result| {
        edit(&result.join("raw.jsonl"), |text| {
            let lines: Vec<&str> = text.lines().collect();
            format!("{0}\n{0}\n", lines[1])
        });
    }),
    ("a histogram that asks for four gibibytes", |result| {
        raw_json(result, |value| value["latency"] = BOMB.into());
    }),
    ("a histogram of another mix", |result| {
        edit(&result.join("raw.jsonl"), |text| {
            let mut lines: Vec<serde_json::Value> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            lines[0]["latency"] = lines[1]["latency"].clone();
            lines.iter().map(|line| format!("{line}\n")).collect()
        });
    }),
    ("a histogram that is cut off", |result| {
        raw_json(result, |value| {
            let text = value["latency"].as_str().unwrap();
            value["latency"] = text[..text.len() / 8 * 4].into();
        });
    }),
    ("a name twice in the result", |result| {
        edit(&result.join("result.json"), |text| {
            text.replacen(
                "\"requests_per_second\":",
                "\"requests_per_second\": 1.0, \"requests_per_second\":",
                1,
            )
        });
    }),
    ("a name twice in the raw data", |result| {
        edit(&result.join("raw.jsonl"), |text| {
            text.replacen("\"requests\":", "\"requests\":1,\"requests\":", 1)
        });
    }),
    ("a rate of 1e400", |result| {
        edit(&result.join("result.json"), |text| {
            text.replacen("\"requests_per_second\": ", "\"requests_per_second\": 1e400, \"x\": ", 1)
        });
    }),
    ("a rate that is no number", |result| {
        edit(&result.join("result.json"), |text| {
            text.replacen("\"requests_per_second\": ", "\"requests_per_second\": NaN, \"x\": ", 1)
        });
    }),
    ("a count beyond 64 bits", |result| {
        edit(&result.join("raw.jsonl"), |text| {
            text.replacen("\"requests\":", "\"requests\":340282366920938463463374607431768211456,\"x\":", 1)
        });
    }),
    ("a count below nothing", |result| {
        edit(&result.join("raw.jsonl"), |text| text.replacen("\"requests\":", "\"requests\":-1,\"x\":", 1));
    }),
    ("raw data nested without end", |result| {
        edit(&result.join("raw.jsonl"), |text| {
            text.replacen("\"requests\":", &format!("\"x\":{},\"requests\":", "[".repeat(1 << 20)), 1)
        });
    }),
    ("a second result after the first", |result| {
        edit(&result.join("result.json"), |text| format!("{text}{text}"));
    }),
    ("a result in another encoding", |result| {
        let text = fs::read_to_string(result.join("result.json")).unwrap();
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        fs::write(result.join("result.json"), wide).unwrap();
    }),
    ("a row of the clients with a formula", |result| {
        edit(&result.join("clients.csv"), |text| format!("{text}=HYPERLINK(\"x\")\n"));
    }),
    ("another time in the time line", |result| {
        edit(&result.join("timeline.csv"), |text| {
            let last = text.lines().last().unwrap().to_owned();
            text.replace(&last, &last.replacen('.', ".5", 1).replacen(",0", ",1", 1))
        });
    }),
    ("another figure in the report", |result| {
        edit(&result.join("report.html"), |text| text.replacen("requests/s", "million requests/s", 1));
    }),
    ("the configuration of another system", |result| {
        edit(&result.join("systems/touchstone/touchstone.toml"), |_| "listen = \"0.0.0.0:1\"\n".to_owned());
    }),
];

/// An unsigned result is checked for consistency: one changed place contradicts the others.
#[test]
fn tampered_unsigned_results_are_refused_and_none_is_read_without_end() {
    assert!(TAMPERINGS_OF_UNSIGNED.len() >= 30, "{}", TAMPERINGS_OF_UNSIGNED.len());
    let place = tempfile::tempdir().unwrap();
    let result = measured(place.path());
    let copy = place.path().join("copy");
    let verified = || {
        let program = env!("CARGO_BIN_EXE_touchstone");
        let mut command = Command::new("timeout");
        // A few bytes must not cause an allocation of gigabytes: one and a half is enough for the rest.
        command.args(["--signal=KILL", "240", "sh", "-c", "ulimit -v 1500000; exec \"$@\"", "sh", program]);
        command.args(["verify", "--require", "invalid"]).arg(&copy).output().unwrap()
    };
    let copied = || {
        let _ = fs::remove_dir_all(&copy);
        assert!(Command::new("cp").arg("-a").arg(&result).arg(&copy).status().unwrap().success());
    };
    copied();
    let untouched = verified();
    assert_eq!(untouched.status.code(), Some(0), "{}", String::from_utf8_lossy(&untouched.stdout));
    let mut accepted = Vec::new();
    for (what, tamper) in TAMPERINGS_OF_UNSIGNED {
        copied();
        tamper(&copy);
        let found = verified();
        if !matches!(found.status.code(), Some(1 | 2)) {
            accepted.push(format!("{what}: {}: {}", found.status, String::from_utf8_lossy(&found.stdout)));
        }
    }
    assert!(accepted.is_empty(), "{}", accepted.join("\n"));
}

/// The tamperings that the tables and the loops below make.
#[test]
fn there_are_the_tamperings_that_were_found_and_thirty_new_ones() {
    let known = TAMPERINGS.len() + 4 * FILES.len();
    assert!(known >= 66, "{known}");
    assert!(FURTHER_TAMPERINGS.len() >= 30, "{}", FURTHER_TAMPERINGS.len());
    let all = TAMPERINGS.iter().chain(FURTHER_TAMPERINGS).chain(TAMPERINGS_OF_UNSIGNED);
    let mut names: Vec<&str> = all.map(|(name, _)| *name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a tampering stands twice: {names:?}");
}

#[test]
fn tampered_results_are_refused_and_none_is_read_without_end() {
    let place = tempfile::tempdir().unwrap();
    let (result, public) = signed(place.path());
    let copy = place.path().join("copy");
    let refused = |what: &str, tamper: &dyn Fn(&Path)| {
        let copied = Command::new("cp").arg("-a").arg(&result).arg(&copy).status().unwrap();
        assert!(copied.success());
        tamper(&copy);
        let found = verify_in_time(&copy, Path::new(&public));
        let said = [&found.stdout[..], &found.stderr].concat();
        assert!(
            matches!(found.status.code(), Some(1 | 2)),
            "{what}: {}: {}",
            found.status,
            said.escape_ascii()
        );
        assert!(!said.contains(&0x1b) && !said.contains(&7), "{what}: {}", said.escape_ascii());
        let _ = fs::remove_dir_all(copy.with_extension("systems"));
        fs::remove_dir_all(&copy).unwrap();
    };
    for (what, tamper) in TAMPERINGS.iter().chain(FURTHER_TAMPERINGS) {
        refused(what, tamper);
    }
    for name in FILES {
        refused(&format!("a FIFO in place of {name}"), &|result| fifo(&result.join(name)));
        refused(&format!("a directory in place of {name}"), &|result| {
            directory_in_place_of(&result.join(name));
        });
        refused(&format!("a link in place of {name}"), &|result| {
            let elsewhere = place.path().join("elsewhere");
            fs::copy(result.join(name), &elsewhere).unwrap();
            link(&elsewhere, &result.join(name));
        });
        refused(&format!("an empty {name}"), &|result| fs::write(result.join(name), "").unwrap());
    }
    // A result that `verify` would not accept is not signed again.
    let copied = Command::new("cp").arg("-a").arg(&result).arg(&copy).status().unwrap();
    assert!(copied.success());
    let secret = place.path().join("lab.key");
    let certify = || run(["certify", copy.to_str().unwrap(), "--key", secret.to_str().unwrap()]);
    let configuration = copy.join("systems/touchstone/touchstone.toml");
    let text = fs::read(&configuration).unwrap();
    edit(&configuration, |text| format!("{text}\n# faster\n"));
    assert_eq!(certify().status.code(), Some(1), "a configuration that result.json does not have");
    fs::write(&configuration, text).unwrap();
    edit(&copy.join("result.json"), |text| {
        text.replacen("\"requests_per_second\": ", "\"requests_per_second\": 9", 1)
    });
    assert_eq!(certify().status.code(), Some(1), "a rate that the raw data does not have");
    fifo(&copy.join("more"));
    assert!(matches!(certify().status.code(), Some(1 | 2)), "a FIFO");
    fs::remove_dir_all(&copy).unwrap();
    // A file that cannot be a key.
    let pipe = place.path().join("pipe");
    fifo(&pipe);
    for key in [&pipe, Path::new("/dev/zero"), place.path()] {
        assert_eq!(verify_in_time(&result, key).status.code(), Some(2), "{}", key.display());
    }
    assert_eq!(verify_in_time(&result, Path::new(&public)).status.code(), Some(0));
}

#[test]
fn minisign_reads_our_signatures_and_we_read_its_keys() {
    if Command::new("minisign").arg("-v").output().is_err() {
        return skipped("signatures against minisign (install minisign)");
    }
    let place = tempfile::tempdir().unwrap();
    let result = measured(place.path());
    let (key, public) = (place.path().join("its.key"), place.path().join("its.pub"));
    let made =
        Command::new("minisign").args(["-G", "-W", "-s"]).arg(&key).arg("-p").arg(&public).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let signed = run(["certify", result.to_str().unwrap(), "--key", key.to_str().unwrap()]);
    assert_eq!(signed.status.code(), Some(0), "{}", String::from_utf8_lossy(&signed.stderr));
    assert_eq!(
        verify(&result, &["--key", public.to_str().unwrap(), "--require", "invalid"]).status.code(),
        Some(0)
    );
    let statement = result.join("statement.json");
    let checked =
        Command::new("minisign").arg("-Vp").arg(&public).arg("-m").arg(&statement).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn what_cannot_be_verified_is_named() {
    let place = tempfile::tempdir().unwrap();
    let missing = verify(&place.path().join("none"), &[]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("there is no result at"));
    let no_key = verify(place.path(), &["--key", "/nonexistent"]);
    assert_eq!(no_key.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&no_key.stderr).contains("cannot read /nonexistent"));
    assert_eq!(run(["certify", "x"]).status.code(), Some(2));
}
