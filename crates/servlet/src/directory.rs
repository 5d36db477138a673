//! Directories for what Java keeps.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::settings::RouteSettings;

/// A new directory that only this user can look into.
pub fn private_directory() -> io::Result<PathBuf> {
    let mut number = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64);
    loop {
        let name = format!("touchstone-java-{}-{number:x}", std::process::id());
        let path = temporary_directory().join(name);
        // It must be new: one that somebody else has made is not used.
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number = number.wrapping_add(1),
            result => return result.map(|()| path),
        }
    }
}

fn temporary_directory() -> PathBuf {
    // Addresses of sockets are at most 107 bytes long.
    let usual = std::env::temp_dir();
    if usual.as_os_str().len() <= 40 { usual } else { Path::new("/tmp").to_path_buf() }
}

/// A name for a route's directory that is the same after a restart.
pub fn stable_name(settings: &RouteSettings) -> String {
    let source = settings.app.as_ref().or(settings.directory.as_ref());
    let file = source.and_then(|path| path.file_stem()).unwrap_or_default().to_string_lossy().into_owned();
    let letters: String = file
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' })
        .take(40)
        .collect();
    // FNV-1a, to tell files of one name apart; nobody gains anything by two that are alike.
    let text = format!("{source:?} {}", settings.context);
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{letters}-{hash:016x}")
}
