//! The messages between this program and its probe: a line of JSON for each question and each answer, one
//! answer a question.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use touchstone_lab::recording::Snapshot;
use touchstone_lab::result::{ConfigurationFile, MachineFacts};

/// The longest line that is read, bytes: the snapshot of a system with thousands of processes has less than a
/// tenth of it.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ask")]
pub(super) enum Question {
    /// Is there this system, and where would it listen?
    Find {
        /// The name of its definition, for messages.
        file: String,
        /// Its definition.
        definition: String,
        /// The processors that it is to have; absent: all of that machine's.
        cpus: Option<Vec<usize>>,
    },
    /// Start the found system.
    Start {
        /// The capabilities that the run needs of it.
        needs: Vec<String>,
        /// The mean body of the workload, bytes.
        mean_body_bytes: u64,
    },
    /// What are the figures now?
    Look,
    /// End it.
    Stop,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
pub(super) enum Answer {
    /// The system was found; its data.
    Found(Box<RemoteSystem>),
    /// It was started so.
    Started {
        /// The command that started it.
        command: Vec<String>,
        /// Its configuration files.
        configuration: Vec<ConfigurationFile>,
    },
    /// These are the figures.
    Seen {
        /// The machine, and the system's processes.
        snapshot: Box<Snapshot>,
        /// How the system ended, if it did.
        ended: Option<String>,
        /// The end of what it printed, where it has ended.
        last_words: Option<String>,
    },
    /// It has ended.
    Stopped,
    /// It could not be done, for this reason.
    Failed {
        /// As text.
        reason: String,
    },
}

/// What is known of a system on another machine before it is started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RemoteSystem {
    /// Its name for people, with its version.
    pub title: String,
    /// The capabilities that its build has in addition to those of every build.
    pub capabilities: Vec<String>,
    /// The address on which it will listen: the one that ssh connected to.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// The processors that it will have.
    pub cpus: Vec<usize>,
    /// The machine.
    pub machine: MachineFacts,
    /// The directory into which the workload's files (`tree`) and the programs (`programs`) are to be put.
    pub directory: PathBuf,
}

/// Writes a message as a line.
pub(super) fn write(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Reads a message; `None` at the end.
pub(super) fn read<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    let read = from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    if line.last() != Some(&b'\n') {
        return Err(invalid("a line is too long, or cut off".to_owned()));
    }
    serde_json::from_slice(&line).map(Some).map_err(|error| invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_come_over_as_they_were() {
        let questions = [
            Question::Find { file: "x".into(), definition: "a\nb".into(), cpus: Some(vec![1]) },
            Question::Start { needs: vec!["files".into()], mean_body_bytes: 7 },
            Question::Look,
            Question::Stop,
        ];
        let mut text = Vec::new();
        questions.iter().for_each(|question| write(&mut text, question).unwrap());
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), questions.len());
        let mut from = text.as_slice();
        for question in questions {
            assert_eq!(read::<Question>(&mut from).unwrap(), Some(question));
        }
        assert_eq!(read::<Question>(&mut from).unwrap(), None);
        assert!(
            read::<Question>(&mut &b"{\"ask\":\"look\"}"[..]).unwrap_err().to_string().contains("cut off")
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read::<Question>(&mut bytes.as_slice());
            let _ = read::<Answer>(&mut bytes.as_slice());
        }
    }
}
