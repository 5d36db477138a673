//! Programs that keep whole trees on a WebDAV server: rclone, which copies, compares and moves them, and
//! davfs2, which mounts one.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::server;
use crate::support::{Server, Tree, bytes_of, skipped, wait_until};

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Runs rclone in a directory; `box:` in the arguments is the collection `/box` of the server. `None`, with a
/// visible word, where it is not installed.
fn rclone(tree: &Tree, server: &Server, arguments: &[&str]) -> Option<(bool, String)> {
    let remote = format!(":webdav,url='http://{}',vendor=other:box", server.address());
    let of_remote = |argument: &&str| match argument.strip_prefix("box:") {
        Some("") => remote.clone(),
        Some(name) => format!("{remote}/{name}"),
        None => argument.to_string(),
    };
    let output = Command::new("rclone")
        .args(arguments.iter().map(of_remote))
        .args(["--config", "/dev/null", "--retries", "1", "--low-level-retries", "1"])
        .current_dir(tree.around())
        .env("HOME", tree.around())
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        skipped("trees that are copied to a WebDAV server (install rclone)");
        return None;
    };
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn rclone_copies_compares_moves_and_removes_trees() {
    let tree = Tree::empty();
    let server = server(&tree, "");
    let local = tree.beside("local");
    fs::create_dir_all(local.join("a/b")).expect("a directory");
    fs::create_dir_all(local.join("empty")).expect("a directory");
    fs::write(local.join("one.txt"), "one\n").expect("a file");
    fs::write(local.join("nothing"), "").expect("a file");
    fs::write(local.join("a/zwei ü #%41.txt"), "two\n").expect("a file");
    fs::write(local.join("a/b/large.bin"), bytes_of(3_000_000)).expect("a file");
    let run = |arguments: &[&str]| {
        let (is_done, said) = rclone(&tree, &server, arguments)?;
        assert!(is_done, "{arguments:?}: {said}");
        Some(said)
    };
    if run(&["copy", "local", "box:", "--create-empty-src-dirs"]).is_none() {
        return;
    }
    run(&["check", "local", "box:", "--download"]);
    let listed = run(&["lsf", "-R", "box:"]).unwrap_or_default();
    for name in ["a/", "a/b/", "a/b/large.bin", "a/zwei ü #%41.txt", "empty/", "nothing", "one.txt"] {
        assert!(listed.lines().any(|line| line == name), "{name}: {listed}");
    }
    // Sync finds changed, moved and removed files; a comparison before it fails.
    fs::write(local.join("one.txt"), "another one\n").expect("a file");
    fs::remove_file(local.join("nothing")).expect("it is removed");
    fs::rename(local.join("a/b/large.bin"), local.join("a/moved.bin")).expect("it is moved");
    let (is_same, _) = rclone(&tree, &server, &["check", "local", "box:", "--download"]).unwrap_or_default();
    assert!(!is_same, "the trees differ");
    run(&["sync", "local", "box:"]);
    run(&["check", "local", "box:", "--download"]);
    assert!(!tree.file("box/nothing").exists() && !tree.file("box/a/b/large.bin").exists());
    // On the server: a file and a directory get other names, a file is copied and removed, a tree is removed.
    run(&["moveto", "box:one.txt", "box:two words.txt"]);
    run(&["moveto", "box:a", "box:renamed"]);
    run(&["copyto", "box:two words.txt", "box:copy.txt"]);
    assert_eq!(fs::read_to_string(tree.file("box/copy.txt")).expect("a copy"), "another one\n");
    assert_eq!(fs::read(tree.file("box/renamed/moved.bin")).expect("it was moved").len(), 3_000_000);
    run(&["delete", "box:copy.txt"]);
    run(&["purge", "box:renamed"]);
    let left = run(&["lsf", "-R", "box:"]).unwrap_or_default();
    let mut left: Vec<&str> = left.lines().collect();
    left.sort_unstable();
    assert_eq!(left, ["empty/", "two words.txt"]);
    assert_eq!(server.error_text().matches("WebDAV request failed").count(), 0, "{}", server.error_text());
}

/// The reason why davfs2 cannot run here; `None`: it can.
fn lacks_davfs() -> Option<&'static str> {
    if !Path::new("/usr/sbin/mount.davfs").exists() {
        return Some("a mounted WebDAV server (install davfs2)");
    }
    if !rustix::process::geteuid().is_root() {
        return Some("a mounted WebDAV server (run the tests as root)");
    }
    let device = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    device.is_err().then_some("a mounted WebDAV server (needs /dev/fuse)")
}

/// Files below a mount of davfs2 are written, read, renamed and removed; it locks what it writes. Directories
/// are not listed: with newer kernels davfs2 1.6 cannot, whatever the server is.
#[test]
fn davfs_mounts_the_server() {
    if let Some(what) = lacks_davfs() {
        return skipped(what);
    }
    let tree = Tree::empty();
    fs::create_dir(tree.file("box")).expect("a directory");
    fs::write(tree.file("box/old.txt"), "old\n").expect("a file");
    fs::create_dir(tree.file("box/empty")).expect("a directory");
    let server = server(&tree, "");
    let (mounted, cache) = (tree.beside("mounted"), tree.beside("cache"));
    for directory in [&mounted, &cache] {
        fs::create_dir(directory).expect("a directory");
    }
    // It runs as its own user.
    for directory in [tree.around(), cache.as_path()] {
        let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(directory, everyone).expect("permissions");
    }
    fs::write(tree.beside("large.bin"), bytes_of(1_000_000)).expect("a file");
    let options = format!("cache_dir {}\nask_auth 0\nuse_locks 1\ndelay_upload 0\n", cache.display());
    fs::write(tree.beside("davfs2.conf"), options).expect("a file");
    let script = "mount.davfs \"$1\" mounted -o conf=\"$PWD/davfs2.conf\" || exit 3\n\
                  (set -e; cat mounted/box/old.txt; mkdir mounted/box/made\n\
                  echo new >mounted/box/made/a.txt\n\
                  cp large.bin mounted/box/made/; cmp large.bin mounted/box/made/large.bin\n\
                  mv mounted/box/made/a.txt mounted/box/made/b.txt; echo more >>mounted/box/made/b.txt\n\
                  cat mounted/box/made/b.txt; rm mounted/box/old.txt; rmdir mounted/box/empty); done=$?\n\
                  umount mounted; exit $done\n";
    // The mount is seen in a namespace of its own, and ends with it.
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(format!("http://{}/", server.address()))
        .current_dir(tree.around())
        .stdin(Stdio::null())
        .output()
        .expect("unshare is there");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(3) && told.contains("mounting failed") {
        return skipped("a mounted WebDAV server (this machine does not let FUSE be mounted)");
    }
    assert!(output.status.success(), "{told}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("old\n") && said.contains("new\nmore\n"), "{said}");
    wait_until("the upload of the last change", PATIENCE, || {
        fs::read_to_string(tree.file("box/made/b.txt")).is_ok_and(|text| text == "new\nmore\n")
    });
    assert!(fs::read(tree.file("box/made/large.bin")).expect("it is there") == bytes_of(1_000_000));
    assert!(!tree.file("box/old.txt").exists() && !tree.file("box/empty").exists());
    assert!(!tree.file("box/made/a.txt").exists());
}
