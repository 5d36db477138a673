//! The files that the tests serve, created for each server.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use tempfile::TempDir;

/// The body of `/alphabet.txt`.
pub(crate) const ALPHABET: &str = "abcdefghijklmnopqrstuvwxyz";
/// The body of `/second.txt`, which proves that a connection was kept.
pub(crate) const SECOND: &str = "the second answer\n";
/// When the files of [`Tree::standard`] were last modified.
pub(crate) const FIXED_TIME: u64 = 1_767_323_045;
/// The same in an HTTP field.
pub(crate) const FIXED_TIME_TEXT: &str = "Fri, 02 Jan 2026 03:04:05 GMT";

/// A directory with a document root in it, and room beside the root.
pub(crate) struct Tree {
    directory: TempDir,
}

impl Tree {
    /// An empty root.
    pub(crate) fn empty() -> Tree {
        let directory = TempDir::with_prefix("touchstone-test-").expect("a temporary directory");
        // Other users may look in: some tests start the server as one of them.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
        let tree = Tree { directory };
        fs::create_dir(tree.root()).expect("the root is made");
        tree
    }

    /// The files that the protocol tests request.
    pub(crate) fn standard() -> Tree {
        let tree = Tree::empty();
        fill_standard(&tree.root());
        fs::write(tree.beside("outside.txt"), "secret\n").expect("a file beside the root");
        tree
    }

    /// The document root.
    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    /// A path below the root.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// A path beside the root, for configurations, logs and what must not be served.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The directory around the root.
    pub(crate) fn around(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file below the root, and the directories on the way to it.
    pub(crate) fn write(&self, name: &str, body: impl AsRef<[u8]>) -> PathBuf {
        write_below(&self.root(), name, body.as_ref());
        self.file(name)
    }

    /// A configuration of one site on this root and a port that the kernel chooses; `sections` are before it.
    pub(crate) fn configuration(&self, sections: &str) -> String {
        let root = self.root();
        format!("{sections}\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\n", root)
    }
}

/// `count` bytes without a pattern, the same for the same count.
pub(crate) fn bytes_of(count: usize) -> Vec<u8> {
    let mut state = count as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut bytes = Vec::with_capacity(count + 8);
    while bytes.len() < count {
        // xorshift64: quick, and no two files or windows of a file are equal.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(count);
    bytes
}

/// The body of `/numbers.txt`: 10,000 bytes in which every five-byte record contains its position.
pub(crate) fn numbers() -> String {
    (0..2000).map(|record| format!("{record:04}\n")).collect()
}

fn fill_standard(root: &Path) {
    let files: &[(&str, &str)] = &[
        ("index.html", "<!doctype html>\n<title>Index</title>\n<p>Welcome.\n"),
        ("page.html", "<!doctype html>\n<title>Page</title>\n"),
        ("alphabet.txt", ALPHABET),
        ("second.txt", SECOND),
        ("empty.txt", ""),
        ("numbers.txt", &numbers()),
        ("dir/index.html", "<!doctype html>\n<title>Inner index</title>\n"),
        ("dir/inner.txt", "inner\n"),
        ("bare/file.txt", "bare\n"),
        ("a dir/index.html", "a dir\n"),
        ("what?/index.html", "what\n"),
        ("dïr/index.html", "dir with a diaeresis\n"),
        (".hidden", "hidden\n"),
        (".git/config", "hidden\n"),
        ("dir/.hidden", "hidden\n"),
        (".well-known/acme.txt", "well known\n"),
        ("a b.txt", "a space b\n"),
        ("ünïcode.txt", "unicode\n"),
        ("100%.txt", "per cent\n"),
        ("per%20cent.txt", "literal per cent 20\n"),
        ("a+b.txt", "a plus b\n"),
        ("hash#.txt", "hash\n"),
        ("question?.txt", "question\n"),
        ("semi;colon.txt", "semicolon\n"),
        ("quote\".txt", "quote\n"),
        ("back\\slash.txt", "backslash\n"),
        ("style.css", "p {}\n"),
        ("script.js", "1;\n"),
        ("data.json", "{}\n"),
        ("image.png", "png"),
        ("photo.JPG", "jpg"),
        ("drawing.svg", "<svg/>"),
        ("module.wasm", "wasm"),
        ("unknown.zzz", "zzz"),
        ("noextension", "none"),
        ("archive.tar.gz", "gz"),
    ];
    for (name, body) in files {
        write_below(root, name, body.as_bytes());
        let file = File::options().write(true).open(root.join(name)).expect("the file is there");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(FIXED_TIME)).expect("its time is set");
    }
    symlink("alphabet.txt", root.join("link.txt")).expect("a link");
    symlink("../outside.txt", root.join("escape.txt")).expect("a link");
}

fn write_below(root: &Path, name: &str, body: &[u8]) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("a file has a parent")).expect("its directory is made");
    fs::write(&path, body).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
