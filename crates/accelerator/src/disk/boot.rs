//! Detects whether the machine has stopped without a shutdown since the directory was last written.
//!
//! A process that is killed loses nothing that it has passed to the kernel. A machine that stops loses writes
//! in no particular order: checksums find incomplete copies, but a lost purge would not be noticed, and the
//! purged response would be served again. So a file records the boot of the machine in which the directory
//! was last used, or that it was left in order. If neither is true, the contents of the directory are
//! discarded.

use std::io;

use super::files::{Directory, read_whole};

const NAME: &str = "boot";
const NEXT_NAME: &str = "boot.new";

const IN_ORDER: &str = "left in order\n";

/// Whether the contents of the directory are reliable.
pub fn is_good(directory: &dyn Directory) -> bool {
    let Some(mark) = read_whole(directory, NAME).ok().and_then(|mark| String::from_utf8(mark).ok()) else {
        return false;
    };
    mark == IN_ORDER || directory.start_of_machine().is_some_and(|start| mark == start)
}

/// Records that the directory is in use. If that fails, the file is removed and the next process discards the
/// contents; an error is returned if the removal fails too.
pub fn begin(directory: &dyn Directory) -> io::Result<()> {
    let start = directory.start_of_machine().ok_or(io::ErrorKind::NotFound.into());
    start.and_then(|start| write(directory, &start)).or_else(|_| distrust(directory))
}

/// Records that the contents of the directory are unreliable, because a purge could not be written.
pub fn distrust(directory: &dyn Directory) -> io::Result<()> {
    match directory.remove(NAME) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Without the sync, the file would be back after a power failure.
    directory.sync()
}

/// Records that everything in the directory has reached the disk, and that the process leaves it.
pub fn end(directory: &dyn Directory) -> io::Result<()> {
    write(directory, IN_ORDER)
}

fn write(directory: &dyn Directory, mark: &str) -> io::Result<()> {
    let file = directory.create(NEXT_NAME)?;
    file.append(mark.as_bytes())?;
    file.sync()?;
    directory.rename(NEXT_NAME, NAME)?;
    directory.sync()
}

#[cfg(test)]
mod tests {
    use super::super::files::RealDirectory;
    use super::*;

    #[test]
    fn only_this_start_or_an_orderly_end_is_believed() {
        let place = tempfile::tempdir().unwrap();
        let directory = RealDirectory::new(place.path());
        assert!(!is_good(&directory));
        begin(&directory).unwrap();
        assert!(is_good(&directory), "killed during this boot");
        std::fs::write(place.path().join(NAME), "another start\n").unwrap();
        assert!(!is_good(&directory));
        end(&directory).unwrap();
        assert!(is_good(&directory));
    }
}
