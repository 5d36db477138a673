//! Tests with real directories, links, fifos and races. Every rule of policy `Inside` is tested twice: with
//! the kernel's `RESOLVE_BENEATH`, and with the method for kernels without `openat2`.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::prelude::*;
use tempfile::{TempDir, tempdir};

use super::*;

const INSIDE: SymlinkPolicy = SymlinkPolicy::Inside;
const ANYWHERE: SymlinkPolicy = SymlinkPolicy::Anywhere;

/// A root "www" with `page.html` and `sub/deep.html`, and a neighbour "outside" with `secret`.
struct Tree {
    top: TempDir,
}

impl Tree {
    fn new() -> Tree {
        let top = tempdir().unwrap();
        fs::create_dir_all(top.path().join("www/sub")).unwrap();
        fs::create_dir(top.path().join("outside")).unwrap();
        fs::write(top.path().join("www/page.html"), "page").unwrap();
        fs::write(top.path().join("www/sub/deep.html"), "deep").unwrap();
        fs::write(top.path().join("outside/secret"), "secret").unwrap();
        Tree { top }
    }

    /// An absolute path without links, even if that of the temporary directory has some.
    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.top.path()).unwrap().join(name)
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.path(name)).unwrap();
    }

    fn root(&self, policy: SymlinkPolicy) -> Root {
        Root::new(self.path("www"), policy).unwrap()
    }

    /// The root with the kernel's check, and with the check of real paths.
    fn both(&self, policy: SymlinkPolicy) -> [Root; 2] {
        let root = self.root(policy);
        assert!(root.openat2_works, "these tests need Linux 5.6 and no filter on openat2");
        [root, Root { openat2_works: false, ..self.root(policy) }]
    }
}

/// The result for a client: the content, "directory", or the name of the refusal.
fn visit(root: &Root, path: &str) -> String {
    let opened = root.open(path.as_bytes());
    let facts = root.facts(path.as_bytes());
    match opened {
        Ok(OpenedFile { descriptor, facts: opened, .. }) => {
            assert!(facts.unwrap().same_version(&opened), "facts and open disagree about {path}");
            if opened.kind == FileKind::Directory {
                return "directory".to_owned();
            }
            let mut content = String::new();
            File::from(descriptor).read_to_string(&mut content).unwrap();
            content
        }
        Err(refused) => {
            assert_eq!(name(&refused), name(&facts.unwrap_err()), "facts and open disagree about {path}");
            name(&refused).to_owned()
        }
    }
}

fn name(refused: &OpenError) -> &'static str {
    match refused {
        OpenError::NotFound => "not found",
        OpenError::Forbidden => "forbidden",
        OpenError::NotAFile => "not a file",
        OpenError::TooManyOpenFiles => "too many open files",
        OpenError::Other(_) => "other",
    }
}

fn check(roots: &[Root], table: &[(&str, &str)]) {
    for root in roots {
        for (path, expected) in table {
            let way = if root.openat2_works { "openat2" } else { "real path" };
            assert_eq!(visit(root, path), *expected, "{path} by {way}, policy {:?}", root.policy);
        }
    }
}

#[test]
fn plain_files_and_directories() {
    let tree = Tree::new();
    let long_name = format!("/{}", "n".repeat(256));
    let long_path = "/sub".repeat(2000);
    let table = [
        ("/page.html", "page"),
        ("/sub/deep.html", "deep"),
        ("/", "directory"),
        ("/sub", "directory"),
        ("/sub/", "directory"),
        ("/sub/.", "directory"),
        ("//page.html", "page"),
        ("/none", "not found"),
        ("/sub/none", "not found"),
        ("/none/none", "not found"),
        ("/page.html/", "not found"),
        ("/page.html/x", "not found"),
        ("/page.html\0.jpg", "not found"),
        (&long_name, "not found"),
        (&long_path, "not found"),
        ("/..", "forbidden"),
        ("/../outside/secret", "forbidden"),
        ("/sub/../page.html", "forbidden"),
        ("/sub/..", "forbidden"),
        ("/...", "not found"),
        ("/..page", "not found"),
    ];
    check(&tree.both(INSIDE), &table);
    check(&tree.both(ANYWHERE), &table);
}

#[test]
fn links_of_every_kind() {
    let tree = Tree::new();
    fs::write(tree.path("outside/www"), "a name with the same prefix").unwrap();
    fs::create_dir(tree.path("www2")).unwrap();
    fs::write(tree.path("www2/secret"), "secret").unwrap();
    tree.link("page.html", "www/relative");
    tree.link("../page.html", "www/sub/up");
    tree.link(tree.path("www/page.html"), "www/absolute");
    tree.link("../www/page.html", "www/out-and-back");
    tree.link("sub", "www/directory");
    tree.link(tree.path("www/sub"), "www/absolute-directory");
    tree.link(".", "www/self");
    tree.link(tree.path("www"), "www/root");
    tree.link("relative", "www/chain-2");
    tree.link("chain-2", "www/chain-3");
    tree.link("absolute", "www/chain-to-absolute");
    tree.link("nothing", "www/dangling");
    tree.link("../outside/secret", "www/outside");
    tree.link(tree.path("outside/secret"), "www/outside-absolute");
    tree.link("../outside", "www/outside-directory");
    tree.link("outside-directory/secret", "www/chain-outside");
    tree.link(tree.path("www/page.html"), "outside/back");
    tree.link("../outside/back", "www/by-outside-link-to-inside");
    tree.link("../www2/secret", "www/neighbour");
    tree.link("..", "www/parent");
    tree.link("loop-b", "www/loop-a");
    tree.link("loop-a", "www/loop-b");
    tree.link("/proc/self/root", "www/proc-root");
    tree.link("/proc/self/status", "www/proc-status");
    tree.link("/dev/null", "www/null");

    let same = [
        ("/relative", "page"),
        ("/sub/up", "page"),
        ("/absolute", "page"),
        ("/out-and-back", "page"),
        ("/directory", "directory"),
        ("/directory/deep.html", "deep"),
        ("/absolute-directory/deep.html", "deep"),
        ("/self/self/page.html", "page"),
        ("/root", "directory"),
        ("/root/sub/deep.html", "deep"),
        ("/chain-3", "page"),
        ("/chain-to-absolute", "page"),
        ("/by-outside-link-to-inside", "page"),
        ("/dangling", "not found"),
        ("/loop-a", "forbidden"),
        ("/relative/", "not found"),
    ];
    check(&tree.both(INSIDE), &same);
    check(&tree.both(ANYWHERE), &same);

    let outside =
        ["/outside", "/outside-absolute", "/chain-outside", "/outside-directory/secret", "/neighbour"];
    for path in outside {
        check(&tree.both(INSIDE), &[(path, "forbidden")]);
        check(&tree.both(ANYWHERE), &[(path, "secret")]);
    }
    let inside_only = [
        ("/outside-directory", "forbidden"),
        ("/parent", "forbidden"),
        ("/parent/www/page.html", "page"),
        ("/proc-root", "forbidden"),
        ("/proc-root/etc/passwd", "forbidden"),
        ("/proc-status", "forbidden"),
        ("/null", "forbidden"),
    ];
    check(&tree.both(INSIDE), &inside_only);
    check(&tree.both(ANYWHERE), &[("/null", "not a file"), ("/parent", "directory")]);
}

#[test]
fn followed_links_are_noted() {
    let tree = Tree::new();
    tree.link("page.html", "www/relative");
    tree.link("sub", "www/directory");
    tree.link(tree.path("www/page.html"), "www/absolute");
    let table = [
        ("/page.html", false),
        ("/sub/deep.html", false),
        ("/sub/", false),
        ("/sub", false),
        ("/", false),
        ("/relative", true),
        ("/directory/deep.html", true),
        ("/directory/", true),
        ("/absolute", true),
    ];
    for root in tree.both(INSIDE).iter().chain(&tree.both(ANYWHERE)) {
        for (path, followed_links) in table {
            let opened = root.open(path.as_bytes()).unwrap();
            assert_eq!(opened.followed_links, followed_links, "{path}");
            assert_eq!(opened.watchable(), !followed_links, "{path}");
        }
    }
    fs::hard_link(tree.path("www/page.html"), tree.path("outside/other-name")).unwrap();
    let opened = tree.root(INSIDE).open(b"/page.html").unwrap();
    assert!(!opened.followed_links && !opened.watchable(), "another name could be written through");
}

#[test]
fn fifos_sockets_and_devices_are_refused_without_being_opened() {
    let tree = Tree::new();
    rustix::fs::mknodat(CWD, tree.path("www/fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let _listener = UnixListener::bind(tree.path("www/socket")).unwrap();
    let table = [("/fifo", "not a file"), ("/socket", "not a file")];
    check(&tree.both(INSIDE), &table);
    check(&tree.both(ANYWHERE), &table);
    let devices = Root::new("/dev", INSIDE).unwrap();
    assert_eq!(visit(&devices, "/null"), "not a file");

    // A non-blocking writer gets ENXIO while no process has the fifo open for reading. One thread visits all
    // the time. A visit that really opened the fifo would let the writer open it.
    let stop = AtomicBool::new(false);
    let root = tree.root(INSIDE);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert!(matches!(root.open(b"/fifo"), Err(OpenError::NotAFile)));
            }
        });
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        for _ in 0..20_000 {
            let written = rustix::fs::open(tree.path("www/fifo"), flags, Mode::empty());
            if written.is_ok() {
                stop.store(true, Ordering::Relaxed);
            }
            assert_eq!(written.unwrap_err(), Errno::NXIO);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_may_not_be_read_is_forbidden() {
    let tree = Tree::new();
    fs::write(tree.path("www/unreadable"), "unreadable").unwrap();
    fs::set_permissions(tree.path("www/unreadable"), fs::Permissions::from_mode(0o200)).unwrap();
    for (directory, mode) in [("www/closed", 0o600), ("www/unlisted", 0o311)] {
        fs::create_dir(tree.path(directory)).unwrap();
        fs::write(tree.path(directory).join("page"), "page").unwrap();
        fs::set_permissions(tree.path(directory), fs::Permissions::from_mode(mode)).unwrap();
    }
    let roots = tree.both(INSIDE);
    // Capabilities belong to a thread, so a test that root runs can drop them in a thread of its own.
    thread::scope(|scope| {
        let visitor = scope.spawn(|| {
            drop_capabilities();
            for root in &roots {
                assert!(matches!(root.open(b"/unreadable"), Err(OpenError::Forbidden)));
                let known = root.facts(b"/unreadable").map(|facts| facts.size).unwrap();
                assert_eq!(known, 10, "facts ask for no permission to read");
            }
            check(
                &roots,
                &[
                    ("/closed/page", "forbidden"),
                    ("/closed", "directory"),
                    ("/unlisted/", "directory"),
                    ("/unlisted/page", "page"),
                ],
            );
        });
        visitor.join().unwrap();
    });
    for directory in ["www/closed", "www/unlisted"] {
        fs::set_permissions(tree.path(directory), fs::Permissions::from_mode(0o700)).unwrap();
    }
}

fn drop_capabilities() {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none }).unwrap();
}

#[test]
fn a_root_that_is_a_link_and_is_swapped() {
    let tree = Tree::new();
    for release in ["1", "2"] {
        fs::create_dir(tree.path(release)).unwrap();
        fs::write(tree.path(release).join("page"), release).unwrap();
        tree.link(tree.path(release).join("page"), &format!("{release}/absolute"));
    }
    tree.link(tree.path("current/page"), "1/by-current");
    tree.link(tree.path("current/page"), "2/by-current");
    tree.link("1", "current");
    let both = || {
        let root = Root::new(tree.path("current"), INSIDE).unwrap();
        [Root { openat2_works: false, ..Root::new(tree.path("current"), INSIDE).unwrap() }, root]
    };
    let roots = both();
    check(&roots, &[("/page", "1"), ("/absolute", "1"), ("/by-current", "1")]);
    for root in &roots {
        assert!(!root.refresh().unwrap(), "nothing has changed");
        assert_eq!(root.path(), tree.path("current"));
    }

    tree.link("2", "next");
    fs::rename(tree.path("next"), tree.path("current")).unwrap();
    check(&roots, &[("/page", "1"), ("/by-current", "forbidden")]);
    for root in &roots {
        assert!(root.refresh().unwrap(), "another directory");
        assert!(!root.refresh().unwrap(), "the same again");
    }
    check(&roots, &[("/page", "2"), ("/absolute", "2"), ("/by-current", "2")]);

    fs::remove_file(tree.path("current")).unwrap();
    for root in &roots {
        assert_eq!(root.refresh().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
    check(&roots, &[("/page", "2")]);
    fs::write(tree.path("current"), "a file").unwrap();
    for root in &roots {
        assert_eq!(root.refresh().unwrap_err().kind(), io::ErrorKind::NotADirectory);
    }
}

#[test]
fn a_root_that_is_deleted_and_made_again() {
    let tree = Tree::new();
    let root = tree.root(INSIDE);
    fs::remove_dir_all(tree.path("www")).unwrap();
    assert_eq!(visit(&root, "/page.html"), "not found");
    assert!(root.refresh().is_err());
    fs::create_dir(tree.path("www")).unwrap();
    fs::write(tree.path("www/page.html"), "again").unwrap();
    assert!(root.refresh().unwrap());
    assert_eq!(visit(&root, "/page.html"), "again");
}

#[test]
fn the_whole_file_system_as_root() {
    let tree = Tree::new();
    tree.link(tree.path("www/page.html"), "www/absolute");
    let whole = || Root::new("/", INSIDE).unwrap();
    let roots = [whole(), Root { openat2_works: false, ..whole() }];
    for name in ["page.html", "absolute"] {
        check(&roots, &[(tree.path("www").join(name).to_str().unwrap(), "page")]);
    }
}

#[test]
fn a_relative_root_does_not_move_with_the_current_directory() {
    let root = Root::new(".", INSIDE).unwrap();
    assert!(root.path().is_absolute());
}

#[test]
fn roots_that_cannot_be_opened() {
    let tree = Tree::new();
    let kind = |name: &str| Root::new(tree.path(name), INSIDE).unwrap_err().kind();
    assert_eq!(kind("none"), io::ErrorKind::NotFound);
    assert_eq!(kind("www/page.html"), io::ErrorKind::NotADirectory);
}

/// One thread replaces a directory by a link to the outside and back, while another thread visits it. The
/// visitor must never get a byte from outside.
#[test]
fn a_directory_swapped_for_a_link_while_it_is_opened() {
    let tree = Tree::new();
    fs::write(tree.path("outside/deep.html"), "secret").unwrap();
    let (sub, away) = (tree.path("www/sub"), tree.path("www/away"));
    for root in tree.both(INSIDE) {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut targets = [tree.path("outside"), PathBuf::from("../outside")].into_iter().cycle();
                while !stop.load(Ordering::Relaxed) {
                    fs::rename(&sub, &away).unwrap();
                    symlink(targets.next().unwrap(), &sub).unwrap();
                    fs::remove_file(&sub).unwrap();
                    fs::rename(&away, &sub).unwrap();
                }
            });
            let outcome = swap_visits(&root);
            stop.store(true, Ordering::Relaxed);
            outcome.unwrap();
        });
    }
}

/// Visits until both states were seen, and at least some thousand times.
fn swap_visits(root: &Root) -> Result<(), String> {
    let (mut served, mut forbidden) = (0, 0);
    for visits in 0.. {
        match root.open(b"/sub/deep.html") {
            Ok(opened) => {
                let mut content = String::new();
                File::from(opened.descriptor)
                    .read_to_string(&mut content)
                    .map_err(|error| error.to_string())?;
                if content != "deep" {
                    return Err(format!("served {content:?}"));
                }
                served += 1;
            }
            Err(OpenError::Forbidden) => forbidden += 1,
            Err(OpenError::NotFound) => {}
            Err(error) => return Err(error.to_string()),
        }
        if visits >= 5_000 && served > 0 && forbidden > 0 {
            return Ok(());
        }
        if visits >= 5_000_000 {
            return Err(format!("not raced: {served} served, {forbidden} forbidden"));
        }
    }
    Ok(())
}

#[test]
fn real_paths_are_compared_by_whole_names() {
    let table: &[(&str, &str, bool)] = &[
        ("/srv/www", "/srv/www", true),
        ("/srv/www/a", "/srv/www", true),
        ("/srv/www2/a", "/srv/www", false),
        ("/srv", "/srv/www", false),
        ("/", "/srv/www", false),
        ("/", "/", true),
        ("/a", "/", true),
        ("pipe:[7]", "/", false),
        ("(unreachable)/a", "/", false),
        ("", "/", false),
    ];
    for &(path, root, expected) in table {
        assert_eq!(lies_inside(path.as_bytes(), root.as_bytes()), expected, "{path} in {root}");
    }
}

#[test]
fn versions_and_tags_differ_after_every_change() {
    let tree = Tree::new();
    let root = tree.root(INSIDE);
    let page = tree.path("www/page.html");
    let facts = || root.facts(b"/page.html").unwrap();
    let first = facts();
    assert_eq!(first.kind, FileKind::Regular);
    assert_eq!(first.size, 4);
    assert!(first.same_version(&facts()));
    assert_eq!(first.etag(), facts().etag());

    let modified = fs::metadata(&page).unwrap().modified().unwrap();
    File::options().append(true).open(&page).unwrap().write_all(b"+").unwrap();
    File::options().write(true).open(&page).unwrap().set_modified(modified).unwrap();
    let longer = facts();
    assert!(!first.same_version(&longer));
    assert_ne!(first.etag(), longer.etag(), "the size is part of the tag");

    File::options()
        .write(true)
        .open(&page)
        .unwrap()
        .set_modified(modified + std::time::Duration::from_nanos(1000))
        .unwrap();
    let touched = facts();
    assert_ne!(longer.etag(), touched.etag(), "the time is part of the tag");

    fs::write(tree.path("www/next"), "page+").unwrap();
    File::options().write(true).open(tree.path("www/next")).unwrap().set_modified(modified).unwrap();
    fs::rename(tree.path("www/next"), &page).unwrap();
    let replaced = facts();
    assert_ne!(longer.etag(), replaced.etag(), "the inode is part of the tag");

    // After a change of mode the tag stays, because the bytes are the same, but a cache must check again. The
    // resolution of ctime is the kernel's tick, so the mode is changed until the clock has advanced.
    let closed = loop {
        fs::set_permissions(&page, fs::Permissions::from_mode(0o600)).unwrap();
        let now = facts();
        if (now.changed_seconds, now.changed_nanoseconds)
            != (replaced.changed_seconds, replaced.changed_nanoseconds)
        {
            break now;
        }
    };
    assert!(!replaced.same_version(&closed));
    assert!(!replaced.same_content(&closed));
    assert_eq!(replaced.etag(), closed.etag());
}

#[test]
fn a_replaced_file_keeps_its_content_for_an_open_descriptor() {
    let tree = Tree::new();
    let root = tree.root(INSIDE);
    let page = tree.path("www/page.html");
    // Within one tick of the kernel's clock a change is not seen, so each change is made until it is.
    let facts_after = |change: &dyn Fn()| loop {
        fs::write(&page, "page").unwrap();
        let opened = root.open(b"/page.html").unwrap();
        change();
        let now = FileFacts::of(&opened.descriptor).unwrap();
        if !opened.facts.same_version(&now) {
            break (opened.facts, now);
        }
    };
    let replace = || {
        fs::write(tree.path("www/next"), "next").unwrap();
        fs::rename(tree.path("www/next"), &page).unwrap();
    };
    let (before, now) = facts_after(&replace);
    assert!(before.same_content(&now), "it was replaced");
    let (before, now) = facts_after(&|| fs::remove_file(&page).unwrap());
    assert!(before.same_content(&now), "it was removed");
    let (before, now) = facts_after(&|| fs::write(&page, "PAGE").unwrap());
    assert!(!before.same_content(&now), "it was written");
    let written_and_replaced = || {
        // The time of modification tells it, as soon as the clock has advanced.
        let modified = || fs::metadata(&page).unwrap().modified().unwrap();
        let before = modified();
        while modified() == before {
            fs::write(&page, "PAGE").unwrap();
        }
        replace();
    };
    let (before, now) = facts_after(&written_and_replaced);
    assert!(!before.same_content(&now), "it was written, then replaced");
}

#[test]
fn tags_are_quoted_hex_and_never_too_long() {
    let mut facts = Tree::new().root(INSIDE).facts(b"/").unwrap();
    facts.modified_seconds = 0x6554_1a2b;
    facts.modified_nanoseconds = 0x10;
    facts.size = 6250;
    facts.inode = 0xabc;
    assert_eq!(facts.etag().as_bytes(), b"\"65541a2b00000010-186a-abc\"");
    assert_eq!(facts.etag().to_string(), "\"65541a2b00000010-186a-abc\"");
    facts.modified_seconds = -1;
    facts.modified_nanoseconds = u32::MAX;
    facts.size = u64::MAX;
    facts.inode = u64::MAX;
    let f = "f".repeat(16);
    assert_eq!(facts.etag().to_string(), format!("\"{f}ffffffff-{f}-{f}\""));
    assert_eq!(facts.etag().as_bytes().len(), StrongEntityTag::LONGEST);
}

#[test]
fn whole_files_are_read() {
    let tree = Tree::new();
    let root = tree.root(INSIDE);
    for size in [0, 1, 4095, 4096, 4097, 300_000] {
        let content: Vec<u8> = (0..size).map(|position| (position % 251) as u8).collect();
        fs::write(tree.path("www/file"), &content).unwrap();
        let opened = root.open(b"/file").unwrap();
        assert_eq!(opened.facts.size, content.len() as u64);
        let read = read_whole_blocking(&opened.descriptor, opened.facts.size).unwrap();
        assert_eq!(read, ReadWhole::Complete(content.clone()));
        // Pages that were just written are in the page cache, unless the machine has needed that memory.
        let read = read_whole(&opened.descriptor, opened.facts.size).unwrap();
        assert!(read == ReadWhole::Complete(content) || read == ReadWhole::WouldBlock, "{size}");
    }
}

#[test]
fn a_size_that_changed_is_noticed() {
    let tree = Tree::new();
    let opened = tree.root(INSIDE).open(b"/page.html").unwrap();
    for size in [0, 1, 3, 5, 100_000] {
        assert_eq!(read_whole(&opened.descriptor, size).unwrap(), ReadWhole::SizeChanged, "{size}");
        assert_eq!(read_whole_blocking(&opened.descriptor, size).unwrap(), ReadWhole::SizeChanged, "{size}");
    }
}

#[test]
fn what_is_not_in_the_page_cache_is_not_waited_for() {
    let tree = Tree::new();
    let content = vec![7; 1 << 20];
    fs::write(tree.path("www/cold"), &content).unwrap();
    let opened = tree.root(INSIDE).open(b"/cold").unwrap();
    rustix::fs::fsync(File::options().write(true).open(tree.path("www/cold")).unwrap()).unwrap();
    rustix::fs::fadvise(&opened.descriptor, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    // In a memory file system the pages stay in memory, so the answer is complete at once.
    match read_whole(&opened.descriptor, opened.facts.size).unwrap() {
        ReadWhole::WouldBlock => {}
        complete => assert_eq!(complete, ReadWhole::Complete(content.clone())),
    }
    let read = read_whole_blocking(&opened.descriptor, opened.facts.size).unwrap();
    assert_eq!(read, ReadWhole::Complete(content));
}

#[test]
fn a_size_beyond_all_memory_is_an_error() {
    let tree = Tree::new();
    let opened = tree.root(INSIDE).open(b"/page.html").unwrap();
    for size in [u64::MAX, i64::MAX as u64] {
        let error = read_whole(&opened.descriptor, size).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }
}

#[test]
fn errors_are_mapped() {
    let table = [
        (Errno::NOENT, "not found"),
        (Errno::NOTDIR, "not found"),
        (Errno::NAMETOOLONG, "not found"),
        (Errno::ACCESS, "forbidden"),
        (Errno::PERM, "forbidden"),
        (Errno::LOOP, "forbidden"),
        (Errno::XDEV, "forbidden"),
        (Errno::NXIO, "not a file"),
        (Errno::MFILE, "too many open files"),
        (Errno::NFILE, "too many open files"),
        (Errno::IO, "other"),
    ];
    for (errno, expected) in table {
        assert_eq!(name(&errno.into()), expected);
        assert_eq!(name(&io::Error::from(errno).into()), expected);
    }
}

proptest! {
    /// For any path: no panic, nothing from outside, and both ways agree.
    #[test]
    fn any_path_stays_inside(path in prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        proptest::collection::vec(prop_oneof![
            Just("/"), Just(".."), Just("."), Just("sub"), Just("page.html"), Just("outside"), Just("secret"),
            Just("up"), Just("www"), Just("\0"),
        ], 0..12).prop_map(|parts| parts.concat().into_bytes()),
    ]) {
        let tree = Tree::new();
        tree.link("../../outside", "www/sub/outside");
        tree.link("..", "www/up");
        let [by_kernel, by_real_path] = tree.both(INSIDE);
        let inside: Vec<u64> = ["www", "www/sub", "www/page.html", "www/sub/deep.html"]
            .iter()
            .map(|name| std::os::unix::fs::MetadataExt::ino(&fs::metadata(tree.path(name)).unwrap()))
            .collect();
        let found = by_kernel.open(&path).map(|opened| opened.facts.inode);
        if let Ok(inode) = found {
            prop_assert!(inside.contains(&inode));
        }
        let other = by_real_path.open(&path).map(|opened| opened.facts.inode);
        prop_assert_eq!(found.map_err(|refused| name(&refused)), other.map_err(|refused| name(&refused)));
    }
}
