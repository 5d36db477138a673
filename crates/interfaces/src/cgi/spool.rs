//! Stores a request's body of unknown length until it has arrived: a CGI program needs the length
//! (CONTENT_LENGTH) before it begins (RFC 3875 section 4.1.2).
//!
//! The body goes into a file without a name, which disappears when it is closed, even if the server is
//! killed. The program reads the file itself.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

use touchstone_handler::pipe::Receiver;

/// Why a body was not stored.
#[derive(Debug)]
pub enum SpoolError {
    /// It is longer than the limit (413).
    TooLarge,
    /// The client's body broke off.
    Body(io::Error),
    /// It could not be written (500).
    File(io::Error),
}

/// Writes a body to a nameless file in `directory`; returns the file, positioned at its beginning, and its
/// length.
///
/// # Errors
/// See [`SpoolError`].
pub async fn spool(
    body: &mut Receiver,
    most_bytes: u64,
    directory: &Path,
) -> Result<(File, u64), SpoolError> {
    let mut file = nameless(directory).map_err(SpoolError::File)?;
    let mut length = 0u64;
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(SpoolError::Body)?;
        length = length.saturating_add(piece.len() as u64);
        if length > most_bytes {
            return Err(SpoolError::TooLarge);
        }
        // The data is written to the page cache: a piece is small, and the kernel delays a process that
        // writes to a slow disk.
        file.write_all(&piece).map_err(SpoolError::File)?;
    }
    file.seek(SeekFrom::Start(0)).map_err(SpoolError::File)?;
    Ok((file, length))
}

/// A file without a name.
fn nameless(directory: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::openat(CWD, directory, flags, mode) {
        Ok(file) => Ok(File::from(file)),
        // Some file systems do not support this; then the file has a name for a moment.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => named_for_a_moment(directory),
        Err(error) => Err(error.into()),
    }
}

fn named_for_a_moment(directory: &Path) -> io::Result<File> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!(".touchstone-body-{}-{number}", std::process::id()));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match rustix::fs::openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(File::from(file));
            }
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::io::Read;
    use touchstone_handler::pipe::pipe;

    #[tokio::test]
    async fn a_body_is_kept_whole_and_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let (mut sender, mut receiver) = pipe(100);
        sender.push(Bytes::from_static(b"hello "));
        sender.push(Bytes::from_static(b"world"));
        sender.finish();
        let (mut file, length) = spool(&mut receiver, 11, directory.path()).await.unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), length), ("hello world", 11));
        let mut other = named_for_a_moment(directory.path()).unwrap();
        other.write_all(b"x").unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn what_is_too_long_or_breaks_off_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let mut long = Receiver::of(Bytes::from_static(b"hello"));
        assert!(matches!(spool(&mut long, 4, directory.path()).await, Err(SpoolError::TooLarge)));
        let (mut sender, mut receiver) = pipe(100);
        sender.push(Bytes::from_static(b"hel"));
        sender.fail(io::ErrorKind::UnexpectedEof.into());
        assert!(matches!(spool(&mut receiver, 100, directory.path()).await, Err(SpoolError::Body(_))));
        let mut none = Receiver::of(Bytes::new());
        assert!(matches!(spool(&mut none, 1, Path::new("/nonexistent")).await, Err(SpoolError::File(_))));
    }
}
