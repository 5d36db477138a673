//! Whether the machine has stopped without warning since the directory was written.
//!
//! A process that is killed loses nothing that it has given to the kernel. A machine that stops does, in no
//! order: the copies that are torn then are found by their checksums, but a purge that had not reached the
//! disk is not missed, and what it was for would be given again. So a file says on which start of the machine
//! the directory was last used, or that it was left in order; where neither holds nothing in it is believed.

use std::io;

use super::files::{Directory, read_whole};

const NAME: &str = "boot";
const NEXT_NAME: &str = "boot.new";

const IN_ORDER: &str = "left in order\n";

/// Whether what is in the directory can be believed.
pub fn is_good(directory: &dyn Directory) -> bool {
    let Some(mark) = read_whole(directory, NAME).ok().and_then(|mark| String::from_utf8(mark).ok()) else {
        return false;
    };
    mark == IN_ORDER || directory.start_of_machine().is_some_and(|start| mark == start)
}

/// Says that the directory is in use. Where that cannot be said there is no file, and nothing is believed the
/// next time; an error if that could not be reached either.
pub fn begin(directory: &dyn Directory) -> io::Result<()> {
    let start = directory.start_of_machine().ok_or(io::ErrorKind::NotFound.into());
    start.and_then(|start| write(directory, &start)).or_else(|_| distrust(directory))
}

/// Says that nothing in the directory can be believed: what was purged could not be written down.
pub fn distrust(directory: &dyn Directory) -> io::Result<()> {
    match directory.remove(NAME) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Without this, the file is there again after a power cut.
    directory.sync()
}

/// Says that everything in the directory has reached the disk, and that it is left.
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
        assert!(is_good(&directory), "killed on this start");
        std::fs::write(place.path().join(NAME), "another start\n").unwrap();
        assert!(!is_good(&directory));
        end(&directory).unwrap();
        assert!(is_good(&directory));
    }
}
