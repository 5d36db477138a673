//! litmus, cadaver and curl as clients.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{ask, server};
use crate::support::{Tree, curl, skipped};

#[test]
fn litmus_passes_all_its_suites() {
    if !Path::new("/usr/libexec/litmus").is_dir() {
        skipped("the test suite for WebDAV servers (install litmus)");
        return;
    }
    let tree = Tree::empty();
    let server = server(&tree, "");
    let output = Command::new("litmus")
        .arg(format!("http://{}/", server.address()))
        .env("TESTS", "basic copymove props locks http")
        .current_dir(tree.around())
        .stdin(Stdio::null())
        .output()
        .expect("litmus runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let summaries: Vec<&str> = said.lines().filter(|line| line.contains("summary for")).collect();
    assert_eq!(summaries.len(), 5, "{said}");
    assert!(summaries.iter().all(|line| line.contains(" 0 failed")), "{said}");
    assert!(output.status.success(), "{said}");
    let skips = said.lines().filter(|line| line.contains("SKIPPED")).count();
    assert_eq!(skips, 0, "{said}");
}

#[test]
fn cadaver_uploads_lists_locks_and_moves() {
    let tree = Tree::empty();
    let server = server(&tree, "");
    fs::write(tree.beside("upload.txt"), "from cadaver\n").expect("a file to upload");
    let script = "mkcol box\ncd box\nput upload.txt\nls\npropset upload.txt colour green\n\
                  propget upload.txt colour\nlock upload.txt\nput upload.txt\ndiscover upload.txt\n\
                  unlock upload.txt\ncopy upload.txt second.txt\nmove second.txt third.txt\n\
                  get third.txt back.txt\ndelete upload.txt\nquit\n";
    let process = Command::new("cadaver")
        .arg(format!("http://{}/", server.address()))
        .current_dir(tree.around())
        .env("HOME", tree.around())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut process) = process else {
        skipped("a client for WebDAV (install cadaver)");
        return;
    };
    process.stdin.take().expect("its input").write_all(script.as_bytes()).expect("it reads the script");
    let output = process.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!said.contains("failed"), "{said}");
    for what in ["Creating `box': succeeded", "upload.txt", "green", "Locking `upload.txt': succeeded"] {
        assert!(said.contains(what), "{what}\n{said}");
    }
    assert_eq!(fs::read_to_string(tree.beside("back.txt")).expect("it was fetched"), "from cadaver\n");
    assert_eq!(fs::read_to_string(tree.file("box/third.txt")).expect("it was moved"), "from cadaver\n");
    assert!(!tree.file("box/upload.txt").exists() && !tree.file("box/second.txt").exists(), "{said}");
}

#[test]
fn curl_uploads_with_http_2() {
    let tree = Tree::empty();
    let server = server(&tree, "");
    let content = crate::support::bytes_of(3_000_000);
    let file = tree.beside("content.bin");
    fs::write(&file, &content).expect("a file to upload");
    let url = format!("http://{}/a.bin", server.address());
    let file = file.to_str().expect("a name");
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let show = ["--output", "/dev/null", "--write-out", "%{http_code} %{http_version}"];
        let arguments = [&show[..], &[version, "--upload-file", file, &url]].concat();
        let Some(output) = curl(arguments) else { return };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let expected = if version == "--http1.1" { "201 1.1" } else { "204 2" };
        assert_eq!(said, expected, "{}", String::from_utf8_lossy(&output.stderr));
        assert!(fs::read(tree.file("a.bin")).expect("it is there") == content, "{version}");
    }
    assert_eq!(ask(server.address(), "GET", "/a.bin", "", b"").body.len(), content.len());
}
