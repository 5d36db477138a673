//! Credentials files: a member's identity (an NKey, whose public half the broker has) and the authority by
//! which it recognises the broker. The file alone proves the identity, so only its owner may be able to read
//! it.

use crate::message::check_name;
use rustix::fs::{Mode, OFlags};
use serde::Deserialize;
use std::fs::File;
use std::io::{BufRead, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The most bytes of a credentials file.
const MAXIMUM_BYTES: u64 = 64 * 1024;

/// The line that ends credentials on standard input.
pub(crate) const END_LINE: &str = "# end of credentials";

/// A member's credentials.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// The fleet.
    pub fleet: String,
    /// The member's name: an agent's, or `controller`.
    pub member: String,
    /// The secret half of its key.
    pub seed: String,
    /// The controller's second key, with which it receives the broker's refusals of members.
    #[serde(default)]
    pub watch_seed: Option<String>,
    /// The certificate of the fleet's own authority, PEM: it must have signed the broker's certificate.
    pub authority: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The secrets are left out.
        write!(f, "Credentials({} of {})", self.member, self.fleet)
    }
}

impl Credentials {
    /// Reads a file that only its owner can read, or that root has made for this process's group alone.
    pub fn read(path: &Path) -> Result<Credentials, String> {
        let name = path.display();
        let file = File::open(path).map_err(|error| format!("the credentials {name}: {error}"))?;
        let metadata = file.metadata().map_err(|error| format!("the credentials {name}: {error}"))?;
        let own_group = rustix::process::getegid().as_raw();
        if !is_private(metadata.mode(), metadata.uid(), metadata.gid(), own_group) {
            return Err(format!(
                "other users can read the credentials {name}: run chmod 600 {name}, and create new ones \
                 if they may have been read"
            ));
        }
        let mut text = String::new();
        let read = file.take(MAXIMUM_BYTES).read_to_string(&mut text);
        read.map_err(|error| format!("the credentials {name}: {error}"))?;
        Credentials::parse(&text).map_err(|error| format!("the credentials {name}: {error}"))
    }

    /// Reads the credentials that a launcher passes, up to the line that ends them; the rest of the input is
    /// left unread.
    pub fn receive(mut input: impl BufRead) -> Result<Credentials, String> {
        let mut text = String::new();
        loop {
            let mut line = String::new();
            let left = MAXIMUM_BYTES.saturating_sub(text.len() as u64);
            let read = (&mut input).take(left).read_line(&mut line);
            if read.map_err(|error| format!("the credentials: {error}"))? == 0 {
                return Err("the credentials on standard input are incomplete".to_string());
            }
            if line.trim_end() == END_LINE {
                return Credentials::parse(&text).map_err(|error| format!("the credentials: {error}"));
            }
            text.push_str(&line);
        }
    }

    fn parse(text: &str) -> Result<Credentials, String> {
        let credentials: Credentials = toml::from_str(text).map_err(|error| error.message().to_string())?;
        check_name(&credentials.fleet)?;
        check_name(&credentials.member)?;
        Ok(credentials)
    }

    /// Writes the credentials to a new file, mode 600.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let mut text = String::new();
        let mut add = |key: &str, value: &str| {
            text.push_str(&format!("{key} = {}\n", toml_text(value)));
        };
        add("fleet", &self.fleet);
        add("member", &self.member);
        add("seed", &self.seed);
        self.watch_seed.iter().for_each(|seed| add("watch_seed", seed));
        add("authority", &self.authority);
        write_secret(path, &text)
    }
}

/// Whether no other process can read a file: only its owner, or, if root owns it, only the group of this
/// process (as in a volume of Kubernetes for a pod without root's rights).
fn is_private(mode: u32, owner: u32, group: u32, own_group: u32) -> bool {
    match mode & 0o077 {
        0 => true,
        0o040 => owner == 0 && group == own_group && group != 0,
        _ => false,
    }
}

/// A text as a TOML string; every escape of JSON means the same in TOML.
pub(crate) fn toml_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Writes a new file that only its owner can read.
pub(crate) fn write_secret(path: &Path, text: &str) -> Result<(), String> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600));
    let written = opened
        .map_err(std::io::Error::from)
        .and_then(|descriptor| File::from(descriptor).write_all(text.as_bytes()));
    written.map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt;

    proptest! {
        #[test]
        fn any_text_is_credentials_or_an_error(text: String) {
            let _ = Credentials::receive(format!("{text}\n{END_LINE}\n").as_bytes());
        }
    }

    #[test]
    fn credentials_are_received_up_to_their_end() {
        let text =
            format!("fleet = \"f\"\nmember = \"m\"\nseed = \"S\"\nauthority = \"A\"\n{END_LINE}\nmore");
        let mut input = text.as_bytes();
        assert_eq!(Credentials::receive(&mut input).expect("credentials").member, "m");
        assert_eq!(input, b"more");
        assert!(Credentials::receive(&b"fleet = 1"[..]).is_err());
    }

    #[test]
    fn a_file_is_private_to_its_owner_or_to_the_group_that_root_gave_it() {
        for (mode, owner, group, expected) in [
            (0o100_600, 1000, 1000, true),
            (0o100_400, 0, 0, true),
            (0o100_440, 0, 65532, true),
            (0o100_440, 0, 100, false),
            (0o100_440, 1000, 65532, false),
            (0o100_460, 0, 65532, false),
            (0o100_444, 0, 65532, false),
        ] {
            assert_eq!(is_private(mode, owner, group, 65532), expected, "{mode:o} {owner} {group}");
        }
        assert!(!is_private(0o100_440, 0, 0, 0), "the group of root is that of many");
    }

    #[test]
    fn credentials_come_back_unless_others_could_read_them() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("a.credentials");
        let credentials = Credentials {
            fleet: "lab".into(),
            member: "load-1".into(),
            seed: "SUX".into(),
            watch_seed: None,
            authority: "-----BEGIN".into(),
        };
        credentials.write(&path).expect("it is written");
        assert_eq!(Credentials::read(&path), Ok(credentials.clone()));
        assert!(credentials.write(&path).is_err(), "a file is never overwritten");
        assert!(!format!("{credentials:?}").contains("SUX"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("a mode");
        assert!(Credentials::read(&path).expect_err("it is refused").contains("chmod 600"));
    }
}
