//! The messages between the controller and the agents: JSON, under subjects to which the broker's permissions
//! apply.
//!
//! | subject | who writes | what |
//! |---|---|---|
//! | `fleet.NAME.all` | controller | [`Order`]s to all agents, the lease among them |
//! | `fleet.NAME.to.AGENT` | controller | [`Order`]s to one |
//! | `fleet.NAME.from.AGENT` | agent | [`Report`]s |
//! | `fleet.NAME.result.AGENT` | agent | parts of results, which are kept |

use crate::clock::Stamp;
use crate::fabric::{FabricError, Traffic};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use touchstone_load::{LiveFigures, Portion};

/// The version of this protocol; a controller and its agents must also run the same program, which is
/// checked.
pub const PROTOCOL: u32 = 1;

/// The longest name of a fleet or of an agent.
const MAXIMUM_NAME_BYTES: usize = 40;

/// The role of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It makes load.
    Load,
    /// It watches its machine, which is the server's.
    Probe,
}

/// An agent's description of itself and its machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentFacts {
    /// New for each process, so that two processes with one name can be distinguished.
    pub instance: String,
    /// What it is there for.
    pub role: Role,
    /// [`PROTOCOL`] of its program.
    pub protocol: u32,
    /// The version of its program.
    pub version: String,
    /// SHA-256 of its program.
    pub binary_sha256: String,
    /// Its kernel's release.
    pub kernel: String,
    /// The kernel's settings that matter to connections.
    pub sysctls: Vec<(String, String)>,
    /// The processors that its engine uses.
    pub cores: Vec<usize>,
    /// Its machine's memory.
    pub memory_bytes: u64,
    /// How many files it may have open.
    pub open_files_limit: u64,
    /// Where it may send load, as rules.
    pub allowed: Vec<String>,
    /// The processes that it watches.
    pub pids: Vec<u32>,
}

/// An order of the controller.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "order")]
pub enum Order {
    /// The controller is running, and so is this run. An agent with a task that does not receive this for
    /// [`crate::agent::LEASE`] stops.
    Lease {
        /// The run; another one than that of a task ends the task.
        run: String,
    },
    /// Introduce yourself: answered with [`Report::Here`].
    Muster,
    /// A question about the clocks.
    Ping {
        /// Returned with the answer.
        exchange: u64,
    },
    /// Prepare a portion of a plan.
    Prepare {
        /// The run.
        run: String,
        /// The mix's number in the run.
        mix: u64,
        /// The plan's hash, by which it is fetched.
        plan_sha256: String,
        /// The agent's portion; a probe has none.
        portion: Option<Portion>,
        /// The classes whose figures are reported during the mix, and those of the whole; `None`: no figures
        /// are reported.
        #[serde(default)]
        watched: Option<Vec<usize>>,
    },
    /// Start the prepared mix.
    Start {
        /// The run.
        run: String,
        /// The mix.
        mix: u64,
        /// The time, by the agent's own monotonic clock.
        at_monotonic_ns: u64,
    },
    /// End the mix now.
    Stop {
        /// The run.
        run: String,
        /// The mix.
        mix: u64,
    },
    /// The agent cannot take part.
    Refuse {
        /// The reason.
        reason: String,
    },
    /// Finish the present task and end.
    Drain,
    /// Report the recent notes.
    Logs,
}

/// A report of an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "report")]
pub enum Report {
    /// Its description; the answer to [`Order::Muster`].
    Here(Box<AgentFacts>),
    /// The answer to [`Order::Ping`].
    Pong {
        /// The question.
        exchange: u64,
        /// When the question arrived.
        #[serde(rename = "came")]
        question_received: Stamp,
        /// When this was sent.
        #[serde(rename = "answered")]
        answer_sent: Stamp,
    },
    /// Everything is prepared.
    Ready {
        /// The run.
        run: String,
        /// The mix.
        mix: u64,
        /// How long before the start of the run it must get the order to start.
        time_to_prepare_ns: u64,
    },
    /// A mix cannot be carried out, or was not to its end.
    Failed {
        /// The run.
        run: String,
        /// The mix.
        mix: u64,
        /// Why.
        reason: String,
    },
    /// The agent is alive; sent every [`crate::agent::BEAT_PERIOD`].
    Beat(Heartbeat),
    /// The figures of a mix so far, if they were requested; sent with the beats.
    Figures {
        /// The run.
        run: String,
        /// The mix.
        mix: u64,
        /// The figures.
        figures: Box<LiveFigures>,
    },
    /// The agent's recent notes.
    Logs {
        /// Lines, the oldest first.
        lines: Vec<String>,
    },
    /// The agent ends.
    Gone {
        /// Why.
        reason: String,
    },
}

/// The activity of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// It prepares a mix.
    Idle,
    /// A mix is prepared.
    Preparing,
    /// A mix is ready.
    Ready,
    /// It sends load.
    Running,
    /// It delivers its result.
    Reporting,
}

/// The state of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The process.
    pub instance: String,
    /// What it does.
    pub state: AgentState,
    /// The mix that the counters are of, and its run.
    pub mix: Option<(String, u64)>,
    /// Valid answers in this mix so far.
    pub requests: u64,
    /// Errors in this mix so far.
    pub errors: u64,
    /// Bytes received in this mix so far.
    pub bytes: u64,
    /// How busy the machine's processors were since the last beat, 0 to 1.
    pub cpu_share: f64,
    /// What it has sent and received through the fabric.
    pub traffic: Traffic,
    /// Parts of results that are on its disk, and not yet with the broker.
    pub spooled: u64,
    /// It has the order to end after its task.
    #[serde(default)]
    pub draining: bool,
}

/// Encodes a message.
pub(crate) fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FabricError> {
    serde_json::to_vec(message).map_err(|error| FabricError::Failed(error.to_string()))
}

/// Decodes a message; `None` if the bytes are not a message.
pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    serde_json::from_slice(body).ok()
}

/// The subjects of a fleet.
#[derive(Debug, Clone)]
pub(crate) struct Subjects {
    fleet: String,
}

impl Subjects {
    pub(crate) fn of(fleet: &str) -> Subjects {
        Subjects { fleet: fleet.to_string() }
    }

    pub(crate) fn all(&self) -> String {
        format!("fleet.{}.all", self.fleet)
    }

    pub(crate) fn to(&self, agent: &str) -> String {
        format!("fleet.{}.to.{agent}", self.fleet)
    }

    pub(crate) fn from(&self, agent: &str) -> String {
        format!("fleet.{}.from.{agent}", self.fleet)
    }

    pub(crate) fn result(&self, agent: &str) -> String {
        format!("fleet.{}.result.{agent}", self.fleet)
    }
}

/// The agent that a subject of [`Subjects::from`] or [`Subjects::result`] names.
pub(crate) fn sender(subject: &str) -> Option<&str> {
    subject.rsplit_once('.').map(|(_, agent)| agent)
}

/// What is wrong with the name of a fleet or an agent: it is used in subjects and file names.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || name.len() > MAXIMUM_NAME_BYTES || !name.bytes().all(good) {
        return Err(format!(
            "the name {name:?} is not allowed: use at most {MAXIMUM_NAME_BYTES} letters, digits, hyphens \
             and underscores"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_none(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (decode::<Order>(&bytes), decode::<Report>(&bytes));
        }
    }

    #[test]
    fn names_are_words_of_subjects() {
        for bad in ["", "a.b", "a b", "*", "ä", &"x".repeat(41)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert!(check_name("load-1_A").is_ok());
        assert_eq!(sender(&Subjects::of("lab").from("load-1")), Some("load-1"));
    }
}
