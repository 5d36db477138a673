//! Tests with real directories.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use touchstone_config::parse;
use touchstone_import_base::expression::matches;

use super::*;

/// A site on a root, with these keys.
fn site(root: &Path, keys: &str) -> SiteConfig {
    let text = format!("[[site]]\nlisten = ['127.0.0.1:80']\nroot = {root:?}\n{keys}\n");
    parse(&text, Path::new("/etc/a.toml")).unwrap().sites.remove(0)
}

/// Whether the refusals of a site are for a path.
fn refuses(site: &SiteConfig, path: &str) -> bool {
    site.routes.iter().filter(|route| route.respond.is_some()).any(|route| match route.pattern.as_str() {
        "" => path.starts_with(&route.path),
        pattern => matches(pattern, path),
    })
}

fn write(root: &Path, name: &str, text: impl AsRef<[u8]>) {
    let file = root.join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

#[test]
fn directories_by_all_of_their_names() {
    let top = tempfile::tempdir().unwrap();
    let root = top.path().join("www");
    write(&root, "shut/.htaccess", "Require all denied");
    write(&root, "wide/x", "");
    fs::write(root.join("wide/.htaccess"), [0xff, 0xfe, b'#', 0]).unwrap();
    write(&root, "large/.htaccess", " ".repeat(300_000));
    write(&root, "text", "Require all denied");
    write(top.path(), "outside/.htaccess", "Require all denied");
    write(top.path(), "elsewhere/deny", "Deny from all");
    fs::create_dir(root.join("by-link")).unwrap();
    symlink(top.path().join("elsewhere/deny"), root.join("by-link/.htaccess")).unwrap();
    fs::create_dir(root.join("dangling")).unwrap();
    symlink("nothing", root.join("dangling/.htaccess")).unwrap();
    symlink("shut", root.join("link")).unwrap();
    symlink("..", root.join("shut/loop")).unwrap();
    symlink("../outside", root.join("out")).unwrap();
    let mut one = site(&root, "");
    let messages = refuse(&mut one).messages;
    for path in ["/shut/x", "/link/x", "/by-link/x", "/wide/x", "/large/x"] {
        assert!(refuses(&one, path), "{path}: {messages:?}");
    }
    for path in ["/x", "/dangling/x", "/out/x"] {
        assert!(!refuses(&one, path), "{path}: {messages:?}");
    }
    let mut one = site(&root, "symlinks = 'anywhere'");
    refuse(&mut one);
    assert!(refuses(&one, "/out/x"));
}

#[test]
fn a_directory_whose_names_cannot_be_read() {
    let top = tempfile::tempdir().unwrap();
    write(top.path(), "shut/.htaccess", "Require all denied");
    fs::set_permissions(top.path().join("shut"), fs::Permissions::from_mode(0o711)).unwrap();
    let mut one = site(top.path(), "");
    refuse(&mut one);
    assert!(refuses(&one, "/shut/x"));
}

#[test]
fn an_alias_in_a_forbidden_directory_of_the_site() {
    let top = tempfile::tempdir().unwrap();
    write(top.path(), "private/.htaccess", "Require all denied");
    write(top.path(), "private/files/x", "");
    let alias = top.path().join("private/files");
    let mut one = site(top.path(), &format!("[[site.route]]\npath = '/open/'\nalias = {alias:?}"));
    refuse(&mut one);
    // The route for the path itself determines its access.
    assert!(refuses(&one, "/private/files/x") && !refuses(&one, "/open/x"));
    write(top.path(), "private/.htaccess", "<Files *.sql>\nRequire all denied\n</Files>");
    let mut one = site(top.path(), &format!("[[site.route]]\npath = '/open/'\nalias = {alias:?}"));
    refuse(&mut one);
    assert!(refuses(&one, "/open/x.sql") && !refuses(&one, "/open/x"));
}

#[test]
fn scripts_are_refused_where_there_are_programs() {
    let top = tempfile::tempdir().unwrap();
    write(top.path(), "uploads/.htaccess", "php_flag engine off");
    for (keys, expected) in [("", false), ("[[site.route]]\nphp = '127.0.0.1:9'", true)] {
        let mut one = site(top.path(), keys);
        refuse(&mut one);
        assert_eq!(refuses(&one, "/uploads/x.php"), expected, "{keys}");
        assert!(!refuses(&one, "/uploads/x.txt"));
    }
}

#[test]
fn lists_that_a_file_forbids() {
    let top = tempfile::tempdir().unwrap();
    write(top.path(), "a/.htaccess", "Options -Indexes");
    write(top.path(), "a/b/.htaccess", "Options +Indexes");
    let mut one = site(top.path(), "listing = 'html'");
    refuse(&mut one);
    for (path, expected) in
        [("/", true), ("/a/", false), ("/a/c/", false), ("/a/b/", true), ("/a/b/c/", true)]
    {
        assert_eq!(may_list(&one, path.as_bytes()), expected, "{path}");
    }
    assert!(!may_list(&site(top.path(), ""), b"/"));
}

#[test]
fn a_second_search_finds_what_has_changed() {
    let top = tempfile::tempdir().unwrap();
    write(top.path(), "a/.htaccess", "Require all denied");
    let text = format!("[[site]]\nlisten = ['127.0.0.1:80']\nroot = {:?}\n", top.path());
    let before = parse(&text, Path::new("/etc/a.toml")).unwrap();
    let mut config = before.clone();
    let searched = refuse(&mut config.sites[0]);
    assert_eq!(searched.directories.len(), 2);
    assert_eq!(search_again(&config).0, None);
    write(top.path(), "b/.htaccess", "Require all granted");
    let (changed, directories) = search_again(&config);
    assert_eq!((changed, directories.len()), (None, 3), "it forbids nothing");
    write(top.path(), "b/.htaccess", "Require all denied");
    assert_eq!(search_again(&config).0, Some(before));
}
