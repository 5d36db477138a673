//! Applications that were written for `javax.servlet`: what they are converted to outlasts a restart.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::{
    BOTH, copy, get_patiently, pack, replace, route, start, start_without_waiting, text, trial,
    wait_for_applications,
};
use crate::support::{Server, Tree};

const PAGE: &str =
    "<%@ page import=\"javax.servlet.http.Cookie\" %><%= new Cookie(\"a\", \"WORD\").getValue() %>";

const CONVERTED: &str = "is converted from javax.servlet";
const KEPT: &str = "was converted at an earlier start";

fn says(server: &Server, words: &str) -> usize {
    server.error_text().matches(words).count()
}

/// Packs an application with an old page.
fn pack_old(tree: &Tree, word: &str, war: &str) {
    let application = tree.beside("application");
    fs::create_dir_all(&application).unwrap();
    fs::write(application.join("old.jsp"), PAGE.replace("WORD", word)).unwrap();
    pack(&application, &tree.beside(war));
}

fn page(server: &Server) -> String {
    text(&get_patiently(server.address(), "/old/old.jsp"))
}

/// The files in the directories for what was converted, wherever these are below this one.
fn kept(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.map(|path| match path.is_dir() {
        true => kept(&path),
        false => Vec::from_iter(directory.ends_with("converted").then_some(path)),
    });
    found.flatten().collect()
}

#[test]
fn a_war_is_converted_once() {
    if trial().is_none() {
        return;
    }
    for isolation in BOTH {
        let tree = Tree::empty();
        pack_old(&tree, "one", "old.war");
        let war = tree.beside("old.war");
        let route = route("/old/", &format!("app = {war:?}, isolation = {isolation:?}"));
        let work = tree.beside("work");
        let java = format!("work_directory = {work:?}\n");
        let mut first = start(&tree, &java, &route, 1);
        assert_eq!((page(&first), says(&first, CONVERTED), says(&first, KEPT)), ("one".to_string(), 1, 0));
        first.stop();
        let mut second = start(&tree, &java, &route, 1);
        assert_eq!((page(&second), says(&second, CONVERTED), says(&second, KEPT)), ("one".to_string(), 0, 1));

        // Another one in its place is converted, and the one before it is not kept any more.
        pack_old(&tree, "two", "new.war");
        fs::rename(tree.beside("new.war"), &war).unwrap();
        wait_for_applications(&second, 2);
        assert_eq!((page(&second), says(&second, CONVERTED)), ("two".to_string(), 1));
        replace(&war);
        wait_for_applications(&second, 3);
        assert_eq!((page(&second), says(&second, CONVERTED), says(&second, KEPT)), ("two".to_string(), 1, 2));
        second.stop();
        assert_eq!(kept(&work).len(), 1, "{isolation}: {:?}", kept(&work));

        // What others might have put there is not run.
        fs::set_permissions(&work, fs::Permissions::from_mode(0o777)).unwrap();
        let third = start_without_waiting(&tree, &java, &route);
        third.wait_for_error_line("why", |line| {
            line.contains("/work: other users can write to it, but the server runs files below it")
        });
        assert_eq!(get_patiently(third.address(), "/old/old.jsp").status, 503);
        assert_eq!((says(&third, CONVERTED), says(&third, KEPT)), (0, 0), "{isolation}");
    }
}

/// The files of this name below a directory.
fn named(directory: &Path, name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.map(|path| match path.is_dir() {
        true => named(&path, name),
        false => Vec::from_iter(path.ends_with(name).then_some(path)),
    });
    found.flatten().collect()
}

#[test]
fn files_keep_their_times_and_pages_are_compiled_once() {
    let Some(trial) = trial() else { return };
    let old = "<%@ page import='java.util.*, javax.servlet.http.Cookie' %>\
               <%= new Cookie(\"a\", \"WORD\").getValue() %>";
    for (isolation, page, body) in [
        ("in-process", "date.jsp", "page=/date.jsp sum=3"),
        ("isolated", "date.jsp", "page=/date.jsp sum=3"),
        ("in-process", "old.jsp", "WORD"),
    ] {
        let tree = Tree::empty();
        let application = tree.beside("application");
        if page == "old.jsp" {
            fs::create_dir_all(&application).unwrap();
            fs::write(application.join("old.jsp"), old).unwrap();
        } else {
            copy(trial, &application);
        }
        fs::write(application.join("still.html"), "still\n").unwrap();
        let time = UNIX_EPOCH + Duration::from_secs(1_600_000_000);
        for file in ["still.html", page] {
            fs::File::options().write(true).open(application.join(file)).unwrap().set_modified(time).unwrap();
        }
        let war = tree.beside("a.war");
        pack(&application, &war);
        let work = tree.beside("work");
        let route = route("/a/", &format!("app = {war:?}, isolation = {isolation:?}"));
        let mut compiled = Vec::new();
        for _ in 0..3 {
            let mut server = start(&tree, &format!("work_directory = {work:?}\n"), &route, 1);
            let still = server.get("/a/still.html");
            assert_eq!(
                still.field("last-modified"),
                Some("Sun, 13 Sep 2020 12:26:40 GMT"),
                "{isolation} {page}"
            );
            let answer = get_patiently(server.address(), &format!("/a/{page}"));
            assert_eq!(text(&answer).trim(), body, "{isolation} {page}");
            let class = page.replace(".jsp", "_jsp.class");
            let found = named(&work, &class);
            assert_eq!(found.len(), 1, "{found:?}");
            compiled.push(fs::metadata(&found[0]).unwrap().ino());
            server.stop();
        }
        assert!(compiled.iter().all(|inode| *inode == compiled[0]), "{isolation} {page}: {compiled:?}");
        // Another WAR whose page has the same time, as archives have that are built reproducibly.
        let text_of = fs::read_to_string(application.join(page)).unwrap();
        fs::write(application.join(page), text_of + "changed").unwrap();
        fs::File::options().write(true).open(application.join(page)).unwrap().set_modified(time).unwrap();
        pack(&application, &war);
        let server = start(&tree, &format!("work_directory = {work:?}\n"), &route, 1);
        assert!(
            text(&get_patiently(server.address(), &format!("/a/{page}"))).ends_with("changed"),
            "{isolation} {page}"
        );
    }
}
