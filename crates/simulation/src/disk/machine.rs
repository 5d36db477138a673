//! A machine with a disk that can have faults: it can be full or read-only, fail, write only a part, change a
//! bit, and lose unsynced data at a power failure. Processes can be killed between two operations and during
//! one.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use touchstone_accelerator::disk::{Directory, StoredFile};

use crate::random;

/// A machine.
#[derive(Clone, Default)]
pub struct Machine(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The files that processes see.
    names: BTreeMap<String, Arc<Mutex<FileContents>>>,
    /// The names that are synced to the disk, and the changes that are not.
    synced_names: BTreeMap<String, Arc<Mutex<FileContents>>>,
    unsynced_names: Vec<NameChange>,
    exists: bool,
    start: u64,
    /// The process that has locked the directory.
    locked_by: Option<u64>,
    last_process: u64,
    faults: Faults,
}

enum NameChange {
    Set(String, Arc<Mutex<FileContents>>),
    Remove(String),
}

/// The present faults of the disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// The size of the disk in bytes; 0: no limit.
    pub most_bytes: usize,
    /// The disk is read-only.
    pub is_read_only: bool,
    /// The percentage of writes that fail, some of them after a part.
    pub failing_writes: u64,
    /// The percentage of reads that fail.
    pub failing_reads: u64,
    /// The percentage of syncs that fail.
    pub failing_syncs: u64,
}

#[derive(Debug, Default)]
struct FileContents {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<Change>,
    is_removed: bool,
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(at, written) => {
                bytes.resize(bytes.len().max(at + written.len()), 0);
                bytes[*at..at + written.len()].copy_from_slice(written);
            }
            Change::Length(length) => bytes.resize(*length, 0),
        }
    }
}

impl FileContents {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.bytes);
        self.unsynced.push(change);
    }

    /// Applies a power failure: each unsynced change is kept, lost, or kept in part.
    fn lose_power(&mut self) {
        let mut bytes = std::mem::take(&mut self.synced);
        for change in self.unsynced.drain(..) {
            match (random::below(3), change) {
                (0, _) => {}
                (1, Change::Write(at, written)) => {
                    let length = random::size(written.len() + 1);
                    Change::Write(at, written[..length].to_vec()).apply(&mut bytes);
                }
                (_, change) => change.apply(&mut bytes),
            }
        }
        self.synced.clone_from(&bytes);
        self.bytes = bytes;
    }
}

impl Machine {
    pub fn new() -> Machine {
        let machine = Machine::default();
        machine.state().start = 1;
        machine
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Starts a process.
    pub fn process(&self) -> Process {
        let mut state = self.state();
        state.last_process += 1;
        let process_state = Arc::new(Mutex::new(ProcessState { operations_left: u64::MAX, is_dead: false }));
        Process { machine: self.clone(), number: state.last_process, state: process_state }
    }

    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Removes all faults.
    pub fn remove_faults(&self) {
        self.set_faults(Faults::default());
    }

    /// Applies a power failure, and a restart.
    pub fn lose_power(&self) {
        let mut state = self.state();
        let mut names = std::mem::take(&mut state.synced_names);
        // Changes of names reach the disk in their order; the last ones can be lost.
        let count = state.unsynced_names.len();
        let reached = random::size(count + 1);
        for change in state.unsynced_names.drain(..).take(reached) {
            match change {
                NameChange::Set(name, contents) => _ = names.insert(name, contents),
                NameChange::Remove(name) => _ = names.remove(&name),
            }
        }
        for contents in names.values() {
            let mut contents = contents.lock().unwrap();
            contents.lose_power();
            contents.is_removed = false;
        }
        random::note(|| format!("machine: power failure; {reached} of {count} changes of names are kept"));
        state.synced_names.clone_from(&names);
        state.names = names;
        state.locked_by = None;
        state.start += 1;
    }

    /// Removes the directory or a file, as another program does.
    pub fn remove_externally(&self, name: Option<&str>) {
        let mut state = self.state();
        let names: Vec<String> = state.names.keys().cloned().collect();
        for other in names.into_iter().filter(|other| name.is_none_or(|name| name == other)) {
            state.remove(&other);
        }
        if name.is_none() {
            state.exists = false;
            state.locked_by = None;
        }
    }

    /// Changes a bit of a file.
    pub fn flip_bit(&self) {
        let state = self.state();
        let place = random::size(state.names.len());
        let Some((name, contents)) = state.names.iter().nth(place) else { return };
        let mut contents = contents.lock().unwrap();
        let length = contents.bytes.len();
        if length > 0 {
            let at = random::size(length);
            let bit = 1 << random::below(8);
            random::note(|| format!("machine: a bit of {name} changes at {at} of {length}"));
            let byte = contents.bytes[at] ^ bit;
            contents.change(Change::Write(at, vec![byte]));
        }
    }

    /// The size of all files with responses.
    pub fn segment_bytes(&self) -> u64 {
        let state = self.state();
        let segments = state.names.iter().filter(|(name, _)| name.ends_with(".segment"));
        segments.map(|(_, contents)| contents.lock().unwrap().bytes.len() as u64).sum()
    }
}

impl State {
    fn used(&self) -> usize {
        self.names.values().map(|contents| contents.lock().unwrap().bytes.len()).sum()
    }

    fn remove(&mut self, name: &str) -> bool {
        let Some(contents) = self.names.remove(name) else { return false };
        contents.lock().unwrap().is_removed = true;
        self.unsynced_names.push(NameChange::Remove(name.to_string()));
        true
    }
}

/// A process that uses the directory.
#[derive(Clone)]
pub struct Process {
    machine: Machine,
    number: u64,
    state: Arc<Mutex<ProcessState>>,
}

struct ProcessState {
    /// The process is killed after this number of operations.
    operations_left: u64,
    is_dead: bool,
}

/// The result of an operation that changes the disk.
enum OperationResult {
    Done,
    /// A part is done; then this error occurs.
    Part(io::ErrorKind),
    Refused(io::ErrorKind),
}

fn dead() -> io::Error {
    io::Error::other("the process was killed")
}

impl Process {
    /// Kills the process during one of its next operations.
    pub fn kill_within(&self, operations: u64) {
        self.state.lock().unwrap().operations_left = random::below(operations);
    }

    pub fn is_dead(&self) -> bool {
        self.state.lock().unwrap().is_dead
    }

    /// Kills the process now: its lock is released, and values that are dropped later change nothing.
    pub fn kill(&self) {
        self.state.lock().unwrap().is_dead = true;
        self.unlock();
    }

    fn unlock(&self) {
        let mut state = self.machine.state();
        if state.locked_by == Some(self.number) {
            state.locked_by = None;
        }
    }

    fn check(&self) -> io::Result<()> {
        if self.is_dead() { Err(dead()) } else { Ok(()) }
    }

    fn begin_change(&self, faults: Faults) -> OperationResult {
        let mut state = self.state.lock().unwrap();
        if state.is_dead {
            return OperationResult::Refused(io::ErrorKind::Other);
        }
        if state.operations_left == 0 {
            state.is_dead = true;
            random::note(|| format!("machine: process {} is killed during an operation", self.number));
            return OperationResult::Part(io::ErrorKind::Other);
        }
        if state.operations_left != u64::MAX {
            state.operations_left -= 1;
        }
        if faults.is_read_only {
            return OperationResult::Refused(io::ErrorKind::ReadOnlyFilesystem);
        }
        if random::percent(faults.failing_writes) {
            return OperationResult::Part(random::pick(&[io::ErrorKind::Other, io::ErrorKind::StorageFull]));
        }
        OperationResult::Done
    }

    /// Whether a change of names is done; it is not done in part.
    fn may_change_names(&self, faults: Faults) -> io::Result<()> {
        match self.begin_change(faults) {
            OperationResult::Done => Ok(()),
            OperationResult::Part(kind) | OperationResult::Refused(kind) => Err(kind.into()),
        }
    }

    fn open_contents(&self, contents: &Arc<Mutex<FileContents>>) -> Box<dyn StoredFile> {
        Box::new(OpenFile { process: self.clone(), contents: contents.clone(), end: Mutex::new(0) })
    }
}

impl Directory for Process {
    fn path(&self) -> &Path {
        Path::new("/simulated")
    }

    fn make(&self) -> io::Result<()> {
        self.check()?;
        self.machine.state().exists = true;
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.check()?;
        let state = self.machine.state();
        if !state.exists {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn StoredFile>> {
        let mut state = self.machine.state();
        if !state.exists {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.may_change_names(state.faults)?;
        let contents = match state.names.get(name) {
            Some(contents) => contents.clone(),
            None => {
                let contents = Arc::<Mutex<FileContents>>::default();
                state.names.insert(name.to_string(), contents.clone());
                state.unsynced_names.push(NameChange::Set(name.to_string(), contents.clone()));
                contents
            }
        };
        contents.lock().unwrap().change(Change::Length(0));
        Ok(self.open_contents(&contents))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn StoredFile>> {
        self.check()?;
        let state = self.machine.state();
        let contents = state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.open_contents(contents))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.machine.state();
        self.may_change_names(state.faults)?;
        let contents = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        if let Some(replaced) = state.names.insert(to.to_string(), contents.clone()) {
            replaced.lock().unwrap().is_removed = true;
        }
        // Both changes are atomic, as in a file system.
        state.unsynced_names.push(NameChange::Set(to.to_string(), contents));
        state.unsynced_names.push(NameChange::Remove(from.to_string()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.machine.state();
        // Only names are changed, which is possible on a full disk.
        let faults = Faults { failing_writes: 0, ..state.faults };
        self.may_change_names(faults)?;
        if state.remove(name) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn sync(&self) -> io::Result<()> {
        self.check()?;
        let mut state = self.machine.state();
        if random::percent(state.faults.failing_syncs) {
            return Err(io::ErrorKind::Other.into());
        }
        state.unsynced_names.clear();
        state.synced_names = state.names.clone();
        Ok(())
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Send>>> {
        let mut state = self.machine.state();
        if !state.exists {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.check()?;
        if state.locked_by.is_some_and(|other| other != self.number) {
            return Ok(None);
        }
        state.locked_by = Some(self.number);
        Ok(Some(Box::new(DirectoryLock(self.clone()))))
    }

    fn start_of_machine(&self) -> Option<String> {
        // One changed bit does not convert one identifier into another, like the identifiers of kernels.
        Some(format!("{:016x}\n", self.machine.state().start.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }
}

struct DirectoryLock(Process);

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

/// An open file of a process.
struct OpenFile {
    process: Process,
    contents: Arc<Mutex<FileContents>>,
    /// The position of the next appended bytes.
    end: Mutex<usize>,
}

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OpenFile")
    }
}

impl OpenFile {
    /// Writes as many bytes as possible; returns their number, and the error.
    fn write(&self, bytes: &[u8], offset: usize) -> (usize, io::Result<()>) {
        let state = self.process.machine.state();
        let (mut count, mut outcome) = match self.process.begin_change(state.faults) {
            OperationResult::Done => (bytes.len(), Ok(())),
            OperationResult::Part(kind) => (random::size(bytes.len() + 1), Err(kind.into())),
            OperationResult::Refused(kind) => (0, Err(kind.into())),
        };
        if state.faults.most_bytes > 0 {
            let room = state.faults.most_bytes.saturating_sub(state.used());
            if count > room {
                (count, outcome) = (room, Err(io::ErrorKind::StorageFull.into()));
            }
        }
        drop(state);
        if count > 0 {
            self.contents.lock().unwrap().change(Change::Write(offset, bytes[..count].to_vec()));
        }
        (count, outcome)
    }
}

impl StoredFile for OpenFile {
    fn length(&self) -> io::Result<u64> {
        self.process.check()?;
        Ok(self.contents.lock().unwrap().bytes.len() as u64)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.process.check()?;
        let faults = self.process.machine.state().faults;
        if random::percent(faults.failing_reads) {
            return Err(io::ErrorKind::Other.into());
        }
        let contents = self.contents.lock().unwrap();
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let found = contents.bytes.get(start..start + bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(found);
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write(bytes, usize::try_from(offset).map_err(io::Error::other)?).1
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut end = self.end.lock().unwrap();
        let (count, outcome) = self.write(bytes, *end);
        *end += count;
        outcome
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        // Truncation needs no space.
        let faults = Faults { failing_writes: 0, ..self.process.machine.state().faults };
        self.process.may_change_names(faults)?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        self.contents.lock().unwrap().change(Change::Length(length));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.process.check()?;
        if random::percent(self.process.machine.state().faults.failing_syncs) {
            return Err(io::ErrorKind::Other.into());
        }
        let mut contents = self.contents.lock().unwrap();
        contents.unsynced.clear();
        contents.synced = contents.bytes.clone();
        Ok(())
    }

    fn is_removed(&self) -> bool {
        self.contents.lock().unwrap().is_removed
    }
}
