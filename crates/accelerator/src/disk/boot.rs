//! Whether the machine has stopped without warning since the directory was written.
//!
//! A process that is killed loses nothing that it has given to the kernel. A machine that stops does, in no
//! order: the copies that are torn then are found by their checksums, but a purge that had not reached the
//! disk is not missed, and what it was for would be given again. So a file says on which start of the machine
//! the directory was last used, or that it was left in order; where neither holds nothing in it is believed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const NAME: &str = "boot";

const IN_ORDER: &str = "left in order\n";

/// Whether what is in the directory can be believed.
pub fn is_good(directory: &Path) -> bool {
    let Ok(mark) = fs::read_to_string(directory.join(NAME)) else { return false };
    mark == IN_ORDER || this_start().is_some_and(|start| mark == start)
}

/// Says that the directory is in use. Where that cannot be said there is no file, and nothing is believed the
/// next time.
pub fn begin(directory: &Path) {
    let written =
        this_start().ok_or(io::ErrorKind::NotFound.into()).and_then(|start| write(directory, &start));
    if written.is_err() {
        let _ = fs::remove_file(directory.join(NAME));
    }
}

/// Says that everything in the directory has reached the disk, and that it is left.
pub fn end(directory: &Path) -> io::Result<()> {
    write(directory, IN_ORDER)
}

/// What tells this start of the machine from others.
fn this_start() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().filter(|start| !start.trim().is_empty())
}

fn write(directory: &Path, mark: &str) -> io::Result<()> {
    let next = directory.join("boot.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
    file.write_all(mark.as_bytes())?;
    file.sync_all()?;
    fs::rename(&next, directory.join(NAME))?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_start_or_an_orderly_end_is_believed() {
        let place = tempfile::tempdir().unwrap();
        assert!(!is_good(place.path()));
        begin(place.path());
        assert!(is_good(place.path()), "killed on this start");
        fs::write(place.path().join(NAME), "another start\n").unwrap();
        assert!(!is_good(place.path()));
        end(place.path()).unwrap();
        assert!(is_good(place.path()));
    }
}
