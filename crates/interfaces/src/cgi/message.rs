//! The messages between the server and its spawner: datagrams on their own socket (SOCK_SEQPACKET).
//!
//! ```text
//! server -> spawner   Start (with the program's descriptors)   End   Release   Adopt   KillGroup
//! spawner -> server   NotStarted   Started   Ended
//! ```
//!
//! Numbers are in the machine's byte order: both sides are the same program on the same machine. Lengths are
//! checked all the same.

use std::ffi::CStr;

use super::spawn::Stage;

/// The largest datagram that is sent. The kernel's own limit (net.core.wmem_default) is about 208 KiB.
pub const LARGEST_MESSAGE_BYTES: usize = 192 * 1024;

/// A program to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start<'m> {
    /// The server's number for it.
    pub id: u64,
    /// The first descriptor is its standard input; otherwise that is empty.
    pub has_input: bool,
    /// The spawner must report how it ends.
    pub is_reported: bool,
    /// It may gain rights that the spawner's parent does not have.
    pub no_new_privileges: bool,
    /// It is killed when the spawner ends.
    pub dies_with_spawner: bool,
    /// Permissions that are removed from the files that it makes.
    pub umask: u32,
    /// Its niceness.
    pub niceness: i32,
    /// User, group, supplementary groups.
    pub identity: Option<(u32, u32, Vec<u32>)>,
    /// `RLIMIT_*` with their values.
    pub limits: Vec<(u32, u64)>,
    /// Current directory.
    pub directory: &'m CStr,
    /// The file to execute.
    pub program: &'m CStr,
    /// Arguments, the first being its own name.
    pub arguments: Vec<&'m CStr>,
    /// Environment.
    pub environment: Vec<&'m CStr>,
}

/// An order of the server to a spawner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpawnerOrder<'m> {
    /// Start a program.
    Start(Box<Start<'m>>),
    /// End the remaining processes of a program: SIGTERM, and after some milliseconds SIGKILL.
    End {
        /// The program.
        id: u64,
        /// The time between SIGTERM and SIGKILL.
        grace_ms: u32,
    },
    /// Do not end the remaining processes of a program that has ended.
    Release {
        /// The program.
        id: u64,
    },
    /// Adopt processes whose own parent has ended.
    Adopt,
    /// Kill a process group whose spawner has ended.
    KillGroup {
        /// Its number.
        process: i32,
    },
}

/// A report of a spawner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// A program was not started.
    NotStarted {
        /// The program.
        id: u64,
        /// The step that failed.
        stage: Stage,
        /// The operating system's error number.
        errno: i32,
    },
    /// A program was started a while ago, and still runs.
    Started {
        /// The program.
        id: u64,
        /// Its process and process group.
        process: i32,
    },
    /// A program has ended.
    Ended {
        /// The program.
        id: u64,
        /// How it ended.
        status: Status,
        /// Others of its process group still run.
        leaves_others: bool,
    },
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// With this exit status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

impl std::fmt::Display for Status {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Status::Exit(status) => write!(formatter, "exit status {status}"),
            Status::Signal(signal) => write!(formatter, "ended by signal {signal}"),
        }
    }
}

const START: u8 = 1;
const END: u8 = 2;
const RELEASE: u8 = 3;
const ADOPT: u8 = 4;
const KILL_GROUP: u8 = 5;

const HAS_INPUT: u8 = 1;
const IS_REPORTED: u8 = 2;
const NO_NEW_PRIVILEGES: u8 = 4;
const DIES_WITH_SPAWNER: u8 = 8;
const HAS_IDENTITY: u8 = 16;

impl SpawnerOrder<'_> {
    /// Appends the order to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            SpawnerOrder::Start(start) => start.write(out),
            SpawnerOrder::End { id, grace_ms } => {
                out.push(END);
                out.extend_from_slice(&id.to_ne_bytes());
                out.extend_from_slice(&grace_ms.to_ne_bytes());
            }
            SpawnerOrder::Release { id } => {
                out.push(RELEASE);
                out.extend_from_slice(&id.to_ne_bytes());
            }
            SpawnerOrder::Adopt => out.push(ADOPT),
            SpawnerOrder::KillGroup { process } => {
                out.push(KILL_GROUP);
                out.extend_from_slice(&process.to_ne_bytes());
            }
        }
    }
}

impl<'m> SpawnerOrder<'m> {
    /// The order in a datagram; `None` if it is invalid.
    pub fn read(datagram: &'m [u8]) -> Option<SpawnerOrder<'m>> {
        let mut reader = Reader(datagram);
        let order = match reader.byte()? {
            START => SpawnerOrder::Start(Box::new(Start::read(&mut reader)?)),
            END => SpawnerOrder::End { id: reader.u64()?, grace_ms: reader.u32()? },
            RELEASE => SpawnerOrder::Release { id: reader.u64()? },
            ADOPT => SpawnerOrder::Adopt,
            KILL_GROUP => SpawnerOrder::KillGroup { process: reader.i32()? },
            _ => return None,
        };
        reader.0.is_empty().then_some(order)
    }
}

impl Start<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        out.push(START);
        out.extend_from_slice(&self.id.to_ne_bytes());
        out.push(
            flag(self.has_input, HAS_INPUT)
                | flag(self.is_reported, IS_REPORTED)
                | flag(self.no_new_privileges, NO_NEW_PRIVILEGES)
                | flag(self.dies_with_spawner, DIES_WITH_SPAWNER)
                | flag(self.identity.is_some(), HAS_IDENTITY),
        );
        out.extend_from_slice(&self.umask.to_ne_bytes());
        out.extend_from_slice(&self.niceness.to_ne_bytes());
        if let Some((user, group, groups)) = &self.identity {
            for number in [*user, *group, groups.len() as u32].iter().chain(groups) {
                out.extend_from_slice(&number.to_ne_bytes());
            }
        }
        out.extend_from_slice(&(self.limits.len() as u32).to_ne_bytes());
        for (resource, most) in &self.limits {
            out.extend_from_slice(&resource.to_ne_bytes());
            out.extend_from_slice(&most.to_ne_bytes());
        }
        for string in [self.directory, self.program] {
            out.extend_from_slice(string.to_bytes_with_nul());
        }
        for strings in [&self.arguments, &self.environment] {
            out.extend_from_slice(&(strings.len() as u32).to_ne_bytes());
            for string in strings {
                out.extend_from_slice(string.to_bytes_with_nul());
            }
        }
    }
}

impl<'m> Start<'m> {
    fn read(reader: &mut Reader<'m>) -> Option<Start<'m>> {
        let id = reader.u64()?;
        let flags = reader.byte()?;
        let (umask, niceness) = (reader.u32()?, reader.i32()?);
        let mut identity = None;
        if flags & HAS_IDENTITY != 0 {
            let (user, group, count) = (reader.u32()?, reader.u32()?, reader.u32()?);
            let groups = (0..count).map(|_| reader.u32()).collect::<Option<Vec<u32>>>()?;
            identity = Some((user, group, groups));
        }
        let count = reader.u32()?;
        let limits = (0..count).map(|_| Some((reader.u32()?, reader.u64()?))).collect::<Option<Vec<_>>>()?;
        Some(Start {
            id,
            has_input: flags & HAS_INPUT != 0,
            is_reported: flags & IS_REPORTED != 0,
            no_new_privileges: flags & NO_NEW_PRIVILEGES != 0,
            dies_with_spawner: flags & DIES_WITH_SPAWNER != 0,
            umask,
            niceness,
            identity,
            limits,
            directory: reader.string()?,
            program: reader.string()?,
            arguments: reader.strings()?,
            environment: reader.strings()?,
        })
    }
}

/// The bytes of a report; a datagram may contain several.
pub const REPORT_BYTES: usize = 14;

impl Report {
    /// Appends the report to `out`: [`REPORT_BYTES`].
    pub fn write(&self, out: &mut Vec<u8>) {
        let (kind, id, number, extra) = match *self {
            Report::NotStarted { id, stage, errno } => (0, id, errno, stage as u8),
            Report::Ended { id, status: Status::Exit(status), leaves_others } => {
                (1, id, status, leaves_others.into())
            }
            Report::Ended { id, status: Status::Signal(signal), leaves_others } => {
                (2, id, signal, leaves_others.into())
            }
            Report::Started { id, process } => (3, id, process, 0),
        };
        out.push(kind);
        out.push(extra);
        out.extend_from_slice(&id.to_ne_bytes());
        out.extend_from_slice(&number.to_ne_bytes());
    }

    /// The report in [`REPORT_BYTES`] bytes; `None` if it is invalid.
    pub fn read(bytes: &[u8]) -> Option<Report> {
        let mut reader = Reader(bytes);
        let (kind, extra) = (reader.byte()?, reader.byte()?);
        let (id, number) = (reader.u64()?, reader.i32()?);
        let ended = |status| Report::Ended { id, status, leaves_others: extra != 0 };
        match kind {
            0 => Some(Report::NotStarted { id, stage: Stage::from_number(extra)?, errno: number }),
            1 => Some(ended(Status::Exit(number))),
            2 => Some(ended(Status::Signal(number))),
            3 => Some(Report::Started { id, process: number }),
            _ => None,
        }
    }
}

struct Reader<'m>(&'m [u8]);

impl<'m> Reader<'m> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }

    fn string(&mut self) -> Option<&'m CStr> {
        let string = CStr::from_bytes_until_nul(self.0).ok()?;
        self.0 = &self.0[string.to_bytes_with_nul().len()..];
        Some(string)
    }

    fn strings(&mut self) -> Option<Vec<&'m CStr>> {
        let count = self.u32()?;
        (0..count).map(|_| self.string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn orders_are_read_back(
            id in any::<u64>(),
            flags in any::<[bool; 4]>(),
            umask in any::<u32>(),
            niceness in 0i32..20,
            identity in proptest::option::of((
                any::<u32>(),
                any::<u32>(),
                proptest::collection::vec(any::<u32>(), 0..5),
            )),
            limits in proptest::collection::vec((0u32..16, any::<u64>()), 0..5),
            strings in proptest::collection::vec("[^\\x00]{0,20}", 2..12),
            cut in any::<proptest::sample::Index>(),
        ) {
            let strings: Vec<CString> =
                strings.into_iter().map(|string| CString::new(string).unwrap()).collect();
            let strings: Vec<&CStr> = strings.iter().map(CString::as_c_str).collect();
            let start = Start {
                id,
                has_input: flags[0],
                is_reported: flags[1],
                no_new_privileges: flags[2],
                dies_with_spawner: flags[3],
                umask,
                niceness,
                identity,
                limits,
                directory: strings[0],
                program: strings[1],
                arguments: strings[2..].iter().step_by(2).copied().collect(),
                environment: strings[2..].iter().skip(1).step_by(2).copied().collect(),
            };
            let kill = SpawnerOrder::KillGroup { process: niceness };
            let others = [SpawnerOrder::Release { id }, SpawnerOrder::Adopt, kill];
            let first = [SpawnerOrder::Start(Box::new(start)), SpawnerOrder::End { id, grace_ms: umask }];
            for order in first.into_iter().chain(others) {
                let mut bytes = Vec::new();
                order.write(&mut bytes);
                prop_assert_eq!(SpawnerOrder::read(&bytes), Some(order));
                // A part of an order is invalid, and so is an order with more bytes after it.
                prop_assert_eq!(SpawnerOrder::read(&bytes[..cut.index(bytes.len())]), None);
                bytes.push(0);
                prop_assert_eq!(SpawnerOrder::read(&bytes), None);
            }
        }

        #[test]
        fn reports_are_read_back(id in any::<u64>(), number in any::<i32>(), leaves_others in any::<bool>()) {
            for report in [
                Report::NotStarted { id, stage: Stage::User, errno: number },
                Report::Started { id, process: number },
                Report::Ended { id, status: Status::Exit(number), leaves_others },
                Report::Ended { id, status: Status::Signal(number), leaves_others },
            ] {
                let mut bytes = Vec::new();
                report.write(&mut bytes);
                prop_assert_eq!(bytes.len(), REPORT_BYTES);
                prop_assert_eq!(Report::read(&bytes), Some(report));
            }
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = (SpawnerOrder::read(&bytes), Report::read(&bytes));
        }
    }
}
