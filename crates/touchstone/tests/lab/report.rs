//! `touchstone report`: the files that it writes, and what it refuses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::skipped;
use serde_json::{Value, json};

/// A result of one system and one mix, in a directory of its own.
fn result(name: &str, change: impl Fn(&mut Value)) -> (tempfile::TempDir, PathBuf) {
    let parent = tempfile::tempdir().expect("a directory");
    let directory = parent.path().join(name);
    fs::create_dir(&directory).expect("made");
    let latency = json!({
        "count": 600, "mean_us": 1000.0, "stddev_us": 10.0, "min_us": 900.0, "p50_us": 1000.0,
        "p90_us": 1010.0, "p95_us": 1020.0, "p99_us": 1030.0, "p999_us": 1040.0, "max_us": 1050.0,
        "curve": [[0.0, 900.0], [50.0, 1000.0], [99.9, 1040.0]],
    });
    let mix = json!({
        "name": "1_client", "clients": 1, "load_cpus": [], "ramp_up_s": 0.0, "length_s": 1.0,
        "ramp_down_s": 0.0, "delay_s": 0.0, "think_time_s": 0.0, "window_s": 0.6, "requests": 600, "errors": {
            "connect": 0, "reset": 0, "timeout": 0, "short_body": 0, "bad_status": 0, "malformed": 0
        },
        "requests_per_second": 1000.0, "bytes_per_second": 1_200_000.0, "megabits_per_second": 9.6,
        "mean_body_bytes": 1000.0, "connections": 1, "latency": latency, "connect": null,
        "littles_law_clients": 1.0, "client_rows": [], "server": null, "machine": null,
        "load": { "user_s": 0.1, "system_s": 0.1, "cpu_us_per_request": 333.0, "busiest_thread": 0.2 },
        "timeline": [], "generator_saturated": null, "complete": true, "total_requests": 600,
    });
    let mut result = json!({
        "schema_version": 1,
        "tool": { "name": "touchstone", "version": "0.1.0", "binary_sha256": null },
        "started_at": "2026-11-20T10:00:00Z", "finished_at": "2026-11-20T10:00:01Z",
        "command_line": ["touchstone", "bench", "small"],
        "status": { "state": "complete" },
        "suite": {
            "name": "small", "title": "Small", "source": "a test", "quick": true, "classes": [],
            "mean_body_bytes": 1000.0, "files": 1, "tree_bytes": 1000, "keep_alive": true,
            "http_version": "HTTP/1.1", "seed": 1
        },
        "machine": {
            "host": "lab", "os": "Linux", "kernel": "6", "cpu_model": "", "cpus": 1, "memory_bytes": 1,
            "virtualised": null, "sysctls": [], "open_files_limit": 1, "same_host": true
        },
        "systems": [{
            "name": "nginx", "title": "nginx 1.22.1", "is_limit": false, "command": [], "cpus": [],
            "configuration": [], "mixes": [mix], "last_words": null
        }],
        "warnings": [],
    });
    change(&mut result);
    fs::write(directory.join("result.json"), result.to_string()).expect("written");
    (parent, directory)
}

fn report(arguments: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_touchstone")).arg("report").args(arguments).output().expect("it runs")
}

fn refusal(arguments: &[&Path]) -> String {
    let output = report(arguments);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(output.stdout.is_empty());
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

#[test]
fn one_result_is_written_into_its_directory() {
    let (_parent, directory) = result("monday", |_| ());
    for named in [directory.clone(), directory.join("result.json")] {
        let output = report(&[&named]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let path = directory.join("report.html");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), path.display().to_string());
        assert!(fs::read_to_string(&path).expect("there").contains("nginx 1.22.1"));
        fs::remove_file(path).expect("removed");
    }
}

#[test]
fn one_result_goes_where_output_says() {
    let (_parent, directory) = result("monday", |_| ());
    let elsewhere = directory.join("elsewhere.html");
    assert_eq!(report(&[&directory, Path::new("--output"), &elsewhere]).status.code(), Some(0));
    assert!(elsewhere.exists() && !directory.join("report.html").exists());
}

#[test]
fn several_results_stand_side_by_side() {
    let (_monday, monday) = result("monday", |_| ());
    let (_tuesday, tuesday) = result("tuesday", |_| ());
    let both = monday.join("both.html");
    let output = report(&[&monday, &tuesday, Path::new("--output"), &both]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(&both).expect("there");
    assert!(page.contains("nginx 1.22.1 (monday)") && page.contains("nginx 1.22.1 (tuesday)"));
    assert!(refusal(&[&monday, &tuesday]).contains("--output FILE"));
}

#[test]
fn suites_that_differ_are_refused() {
    let (_monday, monday) = result("monday", |_| ());
    let (_tuesday, tuesday) = result("tuesday", |result| result["suite"]["keep_alive"] = json!(false));
    let both = monday.join("both.html");
    let message = refusal(&[&monday, &tuesday, Path::new("--output"), &both]);
    assert!(
        message.contains("monday and tuesday") && message.contains("connections (kept against new)"),
        "{message}"
    );
    assert!(!both.exists());
}

#[test]
fn what_cannot_be_read_is_refused() {
    let (_parent, directory) = result("monday", |_| ());
    assert!(refusal(&[&directory.join("none")]).contains("there is no result at"));
    let (_parent, newer) = result("newer", |result| result["schema_version"] = json!(99));
    assert!(refusal(&[&newer]).contains("schema version 99"));
    fs::write(directory.join("result.json"), "{\"schema_version\": 1, \"tool\": 7").expect("written");
    let message = refusal(&[&directory]);
    assert!(
        message.contains("result.json is damaged or not a result") && message.contains("line 1"),
        "{message}"
    );
    assert!(!directory.join("report.html").exists());
}

#[test]
fn other_forms_are_written_beside_the_result() {
    let (_parent, directory) = result("monday", |_| ());
    let forms = [
        ("xlsx", "report.xlsx", "PK"),
        ("csv", "summary.csv", "system,interface,mix,run,clients,"),
        ("junit", "junit.xml", "<?xml version=\"1.0\""),
        ("webstone", "webstone.txt", "Small\nmeasured by touchstone"),
    ];
    for (format, file, begins) in forms {
        let output = report(&[&directory, Path::new("--format"), Path::new(format)]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let path = directory.join(file);
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), path.display().to_string());
        assert!(fs::read(&path).expect("there").starts_with(begins.as_bytes()), "{format}");
    }
    assert_eq!(report(&[&directory, Path::new("--reference")]).status.code(), Some(0));
    assert!(fs::read_to_string(directory.join("reference.html")).expect("there").contains("BorderManager"));
    assert!(!directory.join("report.html").exists());
    let (_other, tuesday) = result("tuesday", |_| ());
    let both = directory.join("both");
    let message = refusal(&[
        &directory,
        &tuesday,
        Path::new("--format"),
        Path::new("csv"),
        Path::new("--output"),
        &both,
    ]);
    assert!(message.contains("of one result"), "{message}");
}

/// LibreOffice is large; if it is not installed, Python checks the archive's parts.
#[test]
fn a_spreadsheet_program_opens_the_workbook_with_its_charts() {
    let (_parent, directory) = result("monday", |_| ());
    assert_eq!(report(&[&directory, Path::new("--format"), Path::new("xlsx")]).status.code(), Some(0));
    let workbook = directory.join("report.xlsx");
    let script = "import sys, zipfile, xml.dom.minidom as dom\n\
                  archive = zipfile.ZipFile(sys.argv[1])\n\
                  assert archive.testzip() is None\n\
                  names = archive.namelist()\n\
                  [dom.parseString(archive.read(name)) for name in names if name.endswith(('.xml', \
                  '.rels'))]\n\
                  sheets = dom.parseString(archive.read('xl/workbook.xml')).getElementsByTagName('sheet')\n\
                  print([sheet.getAttribute('name') for sheet in sheets])\n\
                  print(sum(name.startswith('xl/charts/chart') for name in names))\n";
    match Command::new("python3").args(["-c", script]).arg(&workbook).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let expected = "['Summary Report', 'Client Data Report', 'Test']\n4\n";
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
        }
        Err(_) => skipped("the parts of the workbook (install python3)"),
    }
    let converted = Command::new("soffice")
        .args(["--headless", "--convert-to", "pdf", "--outdir"])
        .arg(&directory)
        .arg(&workbook)
        .output();
    match converted {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert!(fs::metadata(directory.join("report.pdf")).expect("converted").len() > 1000);
        }
        Err(_) => skipped("the workbook in LibreOffice (install libreoffice-calc)"),
    }
}

#[test]
fn results_are_compared_and_the_same_one_differs_by_nothing() {
    let more_mixes = |result: &mut Value| {
        let mixes = result["systems"][0]["mixes"].as_array_mut().expect("mixes");
        for clients in [2, 4, 8, 16, 32] {
            let mut mix = mixes[0].clone();
            mix["name"] = format!("{clients}_clients").into();
            mix["clients"] = clients.into();
            mixes.push(mix);
        }
    };
    let (_monday, monday) = result("monday", more_mixes);
    let (_tuesday, tuesday) = result("tuesday", |result| {
        more_mixes(result);
        for mix in result["systems"][0]["mixes"].as_array_mut().expect("mixes") {
            mix["requests_per_second"] = json!(1200.0);
        }
    });
    let compare = |arguments: &[&Path]| {
        let output = Command::new(env!("CARGO_BIN_EXE_touchstone"))
            .arg("compare")
            .args(arguments)
            .output()
            .expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (code, text) = compare(&[&monday, &monday]);
    assert!(code == Some(0) && text.starts_with("no difference shown between nginx 1.22.1"), "{text}");
    let (code, text) = compare(&[&tuesday, &monday]);
    assert!(
        code == Some(0) && text.contains("has more requests/s than") && text.contains("1.200 times"),
        "{text}"
    );
    let (code, text) = compare(&[&monday]);
    assert!(code == Some(2) && text.contains("no measurements to compare"), "{text}");
    let (code, text) = compare(&[&monday, &tuesday, Path::new("--noise"), &monday]);
    assert!(code == Some(2) && text.contains("given twice"), "{text}");
}
