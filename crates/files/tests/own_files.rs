//! Files of the server itself below a root.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use touchstone_files::listing::{self, ListingOptions};
use touchstone_files::own_files::OwnFiles;
use touchstone_files::root::{OpenError, Root, SymlinkPolicy};

/// A directory with `www`, `key.pem` in it, and a root on it.
fn tree(policy: SymlinkPolicy) -> (tempfile::TempDir, Arc<OwnFiles>, Root) {
    let top = tempfile::tempdir().unwrap();
    let www = top.path().join("www");
    fs::create_dir_all(www.join("state/deep")).unwrap();
    for name in ["key.pem", "page.html", "state/deep/account", "state.txt"] {
        fs::write(www.join(name), name).unwrap();
    }
    let own = Arc::new(OwnFiles::default());
    own.add(&[www.join("key.pem"), www.join("later.pem")], &[www.join("state")]);
    let root = Root::new(&www, policy).unwrap().without(own.clone());
    (top, own, root)
}

fn is_found(root: &Root, path: &str) -> bool {
    let (opened, facts) = (root.open(path.as_bytes()), root.facts(path.as_bytes()));
    assert_eq!(opened.is_ok(), facts.is_ok(), "{path}");
    if let Err(refused) = &opened {
        assert!(matches!(refused, OpenError::NotFound), "{path}: {refused:?}");
    }
    opened.is_ok()
}

#[test]
fn own_files_are_not_found_by_any_name() {
    for policy in [SymlinkPolicy::Inside, SymlinkPolicy::Anywhere] {
        let (top, _, root) = tree(policy);
        let www = top.path().join("www");
        symlink("key.pem", www.join("link")).unwrap();
        symlink(www.join("state"), www.join("linked")).unwrap();
        fs::hard_link(www.join("key.pem"), www.join("hard")).unwrap();
        for path in ["/page.html", "/", "/state.txt"] {
            assert!(is_found(&root, path), "{path}");
        }
        for path in ["/key.pem", "/link", "/hard", "/state/deep/account", "/state", "/state/", "/linked/deep"]
        {
            assert!(!is_found(&root, path), "{path}");
        }
        let options = ListingOptions { hidden_files: true, most_entries: 100 };
        let listed = listing::read(&root, b"/", &options).unwrap().entries;
        let names: Vec<&[u8]> = listed.iter().map(|entry| &entry.name[..]).collect();
        assert_eq!(names, [&b"page.html"[..], b"state.txt"]);
    }
}

#[test]
fn files_that_appear_or_are_replaced_are_own_at_once() {
    let (top, _, root) = tree(SymlinkPolicy::Inside);
    let www = top.path().join("www");
    assert!(!is_found(&root, "/key.pem"));
    fs::write(www.join("later.pem"), "later").unwrap();
    assert!(!is_found(&root, "/later.pem"), "its place was empty when the identities were read");
    for turn in 0..50 {
        fs::write(www.join("new"), format!("{turn}")).unwrap();
        fs::rename(www.join("new"), www.join("key.pem")).unwrap();
        assert!(!is_found(&root, "/key.pem"), "{turn}");
    }
    // A file that was own and has another name now is not.
    fs::rename(www.join("key.pem"), www.join("old.txt")).unwrap();
    assert!(is_found(&root, "/old.txt"));
}

#[test]
fn the_last_configuration_counts_and_the_one_in_use() {
    let (top, own, root) = tree(SymlinkPolicy::Inside);
    let page = top.path().join("www/page.html");
    own.forget_earlier();
    own.add(std::slice::from_ref(&page), &[]);
    assert!(!is_found(&root, "/page.html") && !is_found(&root, "/key.pem"), "both, while it is opened");
    own.add(&[page], &[]);
    own.forget_earlier();
    assert!(!is_found(&root, "/page.html") && is_found(&root, "/key.pem") && is_found(&root, "/state/"));
}

#[test]
fn a_root_in_an_own_directory_is_served() {
    let (top, own, _) = tree(SymlinkPolicy::Inside);
    own.add(&[], &[top.path().to_path_buf()]);
    own.forget_earlier();
    let root = Root::new(top.path().join("www"), SymlinkPolicy::Inside).unwrap().without(own.clone());
    assert!(is_found(&root, "/page.html") && is_found(&root, "/"));
    let around = Root::new(top.path(), SymlinkPolicy::Inside).unwrap().without(own);
    assert!(!is_found(&around, "/www/page.html"));
}
