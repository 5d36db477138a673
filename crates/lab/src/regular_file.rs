//! Reading files of a result directory that another person made: only regular files of a bounded size.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Opens a regular file. A symbolic link, a pipe or a device is an error, and does not block the reader.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(descriptor) => File::from(descriptor),
        Err(rustix::io::Errno::LOOP) => return Err(irregular("it is a symbolic link")),
        Err(error) => return Err(error.into()),
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(irregular("it is not a regular file")) }
}

/// Reads a regular file of at most this size.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open(path)?.take(bytes_max + 1).read_to_end(&mut content)?;
    if content.len() as u64 > bytes_max {
        return Err(irregular(&format!("it has more than {bytes_max} bytes")));
    }
    Ok(content)
}

/// Reads a regular file as text.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read(path, bytes_max)?).map_err(|_| irregular("it is not text"))
}

fn irregular(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        std::fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("pipe"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        assert_eq!(read_text(&path("file"), 4).unwrap(), "text");
        let error = |path: &Path| read(path, 3).unwrap_err().to_string();
        assert_eq!(error(&path("file")), "it has more than 3 bytes");
        assert_eq!(error(&path("link")), "it is a symbolic link");
        assert_eq!(error(&path("pipe")), "it is not a regular file");
        assert_eq!(error(Path::new("/dev/zero")), "it is not a regular file");
    }
}
