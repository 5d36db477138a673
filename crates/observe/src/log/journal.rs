//! The journal of systemd, by its native protocol: a datagram of fields to its socket or, if that is too
//! large for a datagram, a sealed file in memory.
//!
//! ```text
//! MESSAGE=GET / 200
//! PRIORITY=6
//! ```

use std::fs::File;
use std::io::{self, IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::message_socket::{FIELD, LineLoss, connect, is_full, send_each};
use super::settings::LogIdentity;

/// The journal.
pub(super) struct Journal {
    path: PathBuf,
    socket: UnixDatagram,
    /// Fields of every entry.
    fixed: Vec<u8>,
}

impl Journal {
    /// Opens the socket of the journal.
    pub(super) fn open(path: &Path, identity: &LogIdentity, log: &'static str) -> io::Result<Journal> {
        let mut fixed = Vec::new();
        append_field(&mut fixed, b"SYSLOG_IDENTIFIER", identity.tag.as_bytes());
        append_field(&mut fixed, b"SYSLOG_FACILITY", identity.facility.to_string().as_bytes());
        append_field(&mut fixed, b"TOUCHSTONE_LOG", log.as_bytes());
        Ok(Journal { socket: connect(path)?, path: path.to_path_buf(), fixed })
    }

    /// Sends each line as an entry.
    pub(super) fn send<'l>(
        &mut self,
        severity: u8,
        lines: impl Iterator<Item = &'l [u8]>,
    ) -> Result<(), LineLoss> {
        send_each(lines, |line| self.send_entry(&entry(&self.fixed, severity, line)))
    }

    fn send_entry(&mut self, entry: &[u8]) -> io::Result<()> {
        match self.socket.send(entry) {
            Ok(_) => Ok(()),
            Err(error) if rustix::io::Errno::from_io_error(&error) == Some(rustix::io::Errno::MSGSIZE) => {
                self.send_in_file(entry)
            }
            Err(error) if is_full(&error) => Err(error),
            // The journal was started again.
            Err(_) => {
                self.socket = connect(&self.path)?;
                self.socket.send(entry).map(|_| ())
            }
        }
    }

    fn send_in_file(&self, entry: &[u8]) -> io::Result<()> {
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
        let mut file = File::from(memfd_create("journal entry", flags)?);
        file.write_all(entry)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL)?;
        let files = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&files));
        sendmsg(&self.socket, &[IoSlice::new(b"")], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

/// The entry of a line, with the fields after it.
fn entry(fixed: &[u8], severity: u8, line: &[u8]) -> Vec<u8> {
    let mut parts = line.split(|byte| *byte == FIELD);
    let mut entry = Vec::with_capacity(line.len() + fixed.len() + 32);
    append_field(&mut entry, b"MESSAGE", parts.next().unwrap_or_default());
    append_field(&mut entry, b"PRIORITY", severity.to_string().as_bytes());
    entry.extend_from_slice(fixed);
    for field in parts {
        entry.extend_from_slice(field);
        entry.push(b'\n');
    }
    entry
}

/// A value with a line end is preceded by its length.
fn append_field(entry: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    entry.extend_from_slice(name);
    if value.contains(&b'\n') {
        entry.push(b'\n');
        entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        entry.push(b'=');
    }
    entry.extend_from_slice(value);
    entry.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn entries() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let receiver = UnixDatagram::bind(&path).unwrap();
        let mut journal = Journal::open(&path, &LogIdentity::default(), "access").unwrap();
        journal.send(6, [&b"GET / 200\x1fHTTP_STATUS=200\x1fHTTP_METHOD=GET"[..]].into_iter()).unwrap();
        let mut buffer = [0; 1_000];
        let length = receiver.recv(&mut buffer).unwrap();
        let expected = "MESSAGE=GET / 200\nPRIORITY=6\nSYSLOG_IDENTIFIER=touchstone\nSYSLOG_FACILITY=3\n\
                        TOUCHSTONE_LOG=access\nHTTP_STATUS=200\nHTTP_METHOD=GET\n";
        assert_eq!(std::str::from_utf8(&buffer[..length]).unwrap(), expected);
        // The journal is started again.
        drop(receiver);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(journal.send(6, [&b"lost"[..]].into_iter()).unwrap_err().0, 1);
        let receiver = UnixDatagram::bind(&path).unwrap();
        journal.send(3, [&b"again"[..]].into_iter()).unwrap();
        let length = receiver.recv(&mut buffer).unwrap();
        assert!(buffer[..length].starts_with(b"MESSAGE=again\nPRIORITY=3\n"));
    }

    #[test]
    fn a_large_entry_is_sent_in_a_file() {
        use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let receiver = UnixDatagram::bind(&path).unwrap();
        let mut journal = Journal::open(&path, &LogIdentity::default(), "error").unwrap();
        let line = vec![b'x'; 4 << 20];
        journal.send(3, [&line[..]].into_iter()).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 16];
        let mut parts = [io::IoSliceMut::new(&mut bytes)];
        recvmsg(&receiver, &mut parts, &mut control, RecvFlags::empty()).unwrap();
        let file = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        let mut file = File::from(file.unwrap());
        io::Seek::rewind(&mut file).unwrap();
        let mut entry = Vec::new();
        file.read_to_end(&mut entry).unwrap();
        assert!(entry.starts_with(b"MESSAGE=xxx") && entry.len() > line.len());
    }

    #[test]
    fn a_value_of_several_lines() {
        let mut entry = Vec::new();
        append_field(&mut entry, b"A", b"b\nc");
        assert_eq!(entry, b"A\n\x03\0\0\0\0\0\0\0b\nc\n");
    }
}
