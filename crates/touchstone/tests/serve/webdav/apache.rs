//! The same requests to Apache's mod_dav: the same statuses.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{LOCK, ask, server};
use crate::support::{Tree, free_port, skipped, wait_until};

struct Apache {
    process: Child,
    address: SocketAddr,
}

impl Apache {
    fn start(tree: &Tree) -> Option<Apache> {
        let modules = Path::new("/usr/lib/apache2/modules");
        if !modules.join("mod_dav_fs.so").exists() {
            skipped("WebDAV as Apache does it (install apache2)");
            return None;
        }
        let (run, root) = (tree.beside("run"), tree.beside("apache"));
        for directory in [&run, &root] {
            fs::create_dir(directory).expect("a directory");
            fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).expect("permissions");
        }
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let loads: String = ["mpm_event", "authz_core", "dir", "dav", "dav_fs"]
            .iter()
            .map(|name| format!("LoadModule {name}_module {}/mod_{name}.so\n", modules.display()))
            .collect();
        let (run, root) = (run.display(), root.display());
        let text = format!(
            "ServerRoot {run}\nListen {address}\nPidFile {run}/pid\nErrorLog {run}/error.log\n{loads}\
             DAVLockDB {run}/lock\nServerName dav.example\nUser www-data\nGroup www-data\n\
             DocumentRoot {root}\n<Directory {root}>\nRequire all granted\nDav On\n</Directory>\n"
        );
        let file = tree.beside("apache.conf");
        fs::write(&file, text).expect("a configuration");
        let mut command = Command::new("apache2");
        command.arg("-f").arg(&file).args(["-k", "start", "-DFOREGROUND"]);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let apache = Apache { process: process.expect("apache2 starts"), address };
        wait_until("Apache listens", Duration::from_secs(60), || TcpStream::connect(address).is_ok());
        Some(apache)
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.process.wait();
    }
}

/// Method, path, fields, body, and the status of both.
const STEPS: &[(&str, &str, &str, &str, u16)] = &[
    ("PUT", "/a.txt", "", "a", 201),
    ("PUT", "/a.txt", "", "b", 204),
    ("PUT", "/x/a.txt", "", "b", 409),
    ("MKCOL", "/d", "", "", 201),
    ("MKCOL", "/d/", "", "", 405),
    ("MKCOL", "/a.txt", "", "", 405),
    ("MKCOL", "/p/q/", "", "", 409),
    ("PROPFIND", "/", "Depth: infinity\r\n", "", 403),
    ("PROPFIND", "/", "Depth: 1\r\n", "", 207),
    ("PROPFIND", "/nope", "Depth: 0\r\n", "", 404),
    ("PROPFIND", "/", "Depth: 2\r\n", "", 400),
    ("PROPFIND", "/", "Depth: 0\r\n", "<x", 400),
    ("COPY", "/a.txt", "Destination: http://dav.example/b.txt\r\n", "", 201),
    ("COPY", "/a.txt", "Destination: http://dav.example/b.txt\r\n", "", 204),
    ("COPY", "/a.txt", "Destination: http://dav.example/b.txt\r\nOverwrite: F\r\n", "", 412),
    ("COPY", "/a.txt", "Destination: http://dav.example/a.txt\r\n", "", 403),
    ("COPY", "/a.txt", "", "", 400),
    ("COPY", "/d/", "Destination: http://dav.example/e/\r\nDepth: 1\r\n", "", 400),
    ("MOVE", "/d/", "Destination: http://dav.example/f/\r\nDepth: 0\r\n", "", 400),
    ("MOVE", "/d/", "Destination: http://dav.example/f/\r\n", "", 201),
    ("MOVE", "/nope", "Destination: http://dav.example/f/\r\n", "", 404),
    ("DELETE", "/nope", "", "", 404),
    ("DELETE", "/nope/x", "", "", 404),
    ("DELETE", "/f/", "Depth: 0\r\n", "", 400),
    ("LOCK", "/b.txt", "", LOCK, 200),
    ("LOCK", "/b.txt", "", LOCK, 423),
    ("PUT", "/b.txt", "", "x", 423),
    ("DELETE", "/b.txt", "", "", 423),
    ("LOCK", "/q/new.txt", "", LOCK, 409),
    ("LOCK", "/a.txt", "", "", 400),
    ("LOCK", "/a.txt", "If: (<urn:x>)\r\n", "", 412),
    ("UNLOCK", "/a.txt", "", "", 400),
    ("PUT", "/a.txt", "If-Match: \"x\"\r\n", "", 412),
    ("PUT", "/a.txt", "If-None-Match: *\r\n", "", 412),
    ("PUT", "/z.txt", "If-Match: *\r\n", "", 412),
    ("PATCH", "/a.txt", "", "", 405),
    ("FOO", "/a.txt", "", "", 501),
    ("OPTIONS", "/a.txt", "", "", 200),
    ("DELETE", "/f/", "", "", 204),
    ("DELETE", "/a.txt", "", "", 204),
];

#[test]
fn statuses_are_those_of_apache() {
    let tree = Tree::empty();
    let Some(apache) = Apache::start(&tree) else { return };
    let server = server(&tree, "");
    for (method, target, fields, body, expected) in STEPS {
        let of = |address| ask(address, method, target, fields, body.as_bytes()).status;
        let both = (of(server.address()), of(apache.address));
        assert_eq!(both, (*expected, *expected), "{method} {target} {fields:?}");
    }
}
