//! The file of a [`Store`](super::Store): lines are added to it under a lock of the file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::record::Record;
use super::tables::Tables;

/// The journal is written again when it has this many lines more than twice those that are needed.
const SPARE_LINES: usize = 1024;

/// The first line identifies the format of the file.
const HEAD: &[u8] = b"{\"touchstone-webdav\":1}\n";

/// The open file, and the state of its lines.
pub struct Journal {
    name: PathBuf,
    file: File,
    /// How much of the file was read.
    read_bytes: u64,
    lines: usize,
    /// What holds now.
    pub tables: Tables,
}

fn open(name: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(name)
}

fn damaged(line: usize, message: &str) -> io::Error {
    let message = format!("line {line} is damaged ({message}); move the file away to begin without it");
    io::Error::new(io::ErrorKind::InvalidData, message)
}

impl Journal {
    /// Opens the file. A missing file or directory is created.
    pub fn open(directory: &Path, name: &Path) -> io::Result<Journal> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let file = open(name)?;
        let tables = Tables::default();
        Ok(Journal { name: name.to_path_buf(), file, read_bytes: 0, lines: 0, tables })
    }

    /// The name of the file.
    pub fn file_name(&self) -> &Path {
        &self.name
    }

    /// Waits for the file's lock, and reads what other processes have added.
    pub fn begin(&mut self, now: u64) -> io::Result<()> {
        loop {
            flock(&self.file, FlockOperation::LockExclusive)?;
            let own = self.file.metadata()?;
            match fs::metadata(&self.name) {
                Ok(named) if (named.dev(), named.ino()) == (own.dev(), own.ino()) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            // Another process has written the file again.
            self.file = open(&self.name)?;
            (self.read_bytes, self.lines, self.tables) = (0, 0, Tables::default());
        }
        self.read_new()?;
        self.tables.expire(now);
        Ok(())
    }

    fn read_new(&mut self) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        if length < self.read_bytes {
            (self.read_bytes, self.lines, self.tables) = (0, 0, Tables::default());
        }
        if length > self.read_bytes {
            let mut added = Vec::new();
            self.file.seek(SeekFrom::Start(self.read_bytes))?;
            (&self.file).take(length - self.read_bytes).read_to_end(&mut added)?;
            let whole = added.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            for line in added[..whole].split_inclusive(|&byte| byte == b'\n') {
                self.lines += 1;
                if self.lines == 1 && line == HEAD {
                    continue;
                }
                let record = Record::parse(line).map_err(|message| damaged(self.lines, &message))?;
                self.tables.apply(record);
            }
            self.read_bytes += whole as u64;
            if whole < added.len() {
                // A process has ended in the middle of a line.
                self.file.set_len(self.read_bytes)?;
            }
        }
        if self.read_bytes == 0 {
            self.write(HEAD)?;
        }
        Ok(())
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(line) {
            // The part of a line that a full disk has taken.
            let _ = self.file.set_len(self.read_bytes);
            return Err(error);
        }
        self.read_bytes += line.len() as u64;
        self.lines += 1;
        Ok(())
    }

    /// Adds a change, which then holds.
    pub fn append(&mut self, record: Record) -> io::Result<()> {
        self.write(&record.line())?;
        if matches!(record, Record::Properties { .. }) {
            self.file.sync_data()?;
        }
        self.tables.apply(record);
        Ok(())
    }

    /// Releases the file for other processes.
    pub fn end(&mut self, now: u64) -> io::Result<()> {
        if self.lines > 2 * self.tables.line_count() + SPARE_LINES {
            self.tables.expire(now);
            self.write_again()?;
        }
        Ok(flock(&self.file, FlockOperation::Unlock)?)
    }

    /// Writes a file with the needed lines alone, and replaces the old one with it.
    fn write_again(&mut self) -> io::Result<()> {
        let new = self.name.with_extension("new");
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&new)?;
        let mut text = HEAD.to_vec();
        let mut lines = 1;
        for record in self.tables.records() {
            text.extend_from_slice(&record.line());
            lines += 1;
        }
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&new, &self.name)?;
        // The lock of the old file ends with it; a process that waits for it finds the new one.
        (self.file, self.read_bytes, self.lines) = (file, text.len() as u64, lines);
        Ok(())
    }
}
