//! An sshd that a test starts on a loopback port. It accepts one key, for the user that runs the test.

use super::{free_port, skipped, wait_until};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Runs until it is dropped.
pub(crate) struct Sshd {
    child: Child,
    place: PathBuf,
    pub(crate) port: u16,
    /// The key that it accepts.
    pub(crate) key: PathBuf,
}

impl Sshd {
    /// Starts it with its files in `place`. `None`, with a visible message, where it is not installed.
    pub(crate) fn start(place: &Path) -> Option<Sshd> {
        let Some(sshd) =
            ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].into_iter().find(|path| Path::new(path).exists())
        else {
            skipped("machines that are reached over ssh (install openssh-server and openssh-client)");
            return None;
        };
        let (key, host_key) = (place.join("key"), place.join("host_key"));
        for path in [&key, &host_key] {
            let mut keygen = Command::new("ssh-keygen");
            let made = keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status();
            assert!(made.expect("ssh-keygen").success());
        }
        // The directory for privilege separation; the package makes it when its service starts.
        let _ = fs::create_dir("/run/sshd");
        let port = free_port();
        let configuration = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}.pub\nStrictModes no\n\
             UsePAM no\n\
             PidFile none\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n",
            host_key.display(),
            key.display()
        );
        let file = place.join("sshd_config");
        fs::write(&file, configuration).expect("a configuration");
        let log = fs::File::create(place.join("sshd.log")).expect("a log");
        let mut command = Command::new(sshd);
        let started = command.args(["-D", "-e", "-f"]).arg(&file).stdin(Stdio::null()).stderr(log).spawn();
        let sshd = Sshd { child: started.expect("sshd"), place: place.to_path_buf(), port, key };
        wait_until("sshd accepts", Duration::from_secs(60), || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(sshd)
    }

    /// A known_hosts file for ssh with its host key, for 127.0.0.1.
    pub(crate) fn known_hosts(&self) -> PathBuf {
        let key = fs::read_to_string(self.place.join("host_key.pub")).expect("its host key");
        let path = self.place.join("known_hosts");
        fs::write(&path, format!("[127.0.0.1]:{} {key}", self.port)).expect("a file");
        path
    }

    /// Ends it.
    pub(crate) fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Its log so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.place.join("sshd.log")).unwrap_or_default()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.stop();
    }
}
