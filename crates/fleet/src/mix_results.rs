//! Assembles results from their parts, which arrive in any order and may arrive more than once. The outcome
//! is the same in every order.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The longest part, in bytes; a broker takes messages of up to 1 MiB.
pub(crate) const PART_BYTES: usize = 512 * 1024;
/// The most parts of a result: with [`PART_BYTES`] the most memory that one agent can use, 256 MiB. A mix of
/// ten thousand clients has about 20 MiB.
const MAXIMUM_PARTS: u64 = 512;
/// The most bytes of a result before it is compressed.
const MAXIMUM_RESULT_BYTES: u64 = 1024 * 1024 * 1024;
/// A low level of compression: histograms are compressed already, and compressing their base64 gains a
/// quarter.
const COMPRESSION_LEVEL: i32 = 1;

/// A part of an agent's result of a mix: its identity and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub head: PartHead,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What a part is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartHead {
    /// The run.
    pub run: String,
    /// The mix's place in the run.
    pub mix: u64,
    /// The agent. Only the subject of the message counts; a part that names another agent is refused.
    pub agent: String,
    /// Its number, from 0.
    pub sequence: u64,
    /// How many there are.
    pub of: u64,
}

impl PartHead {
    /// The name of the file of a part.
    pub fn id(&self) -> String {
        format!("{}-{}-{}-{}", self.run, self.mix, self.agent, self.sequence)
    }
}

impl Part {
    /// A line of JSON and the bytes behind it.
    pub fn encode(&self) -> Vec<u8> {
        let mut message = serde_json::to_vec(&self.head).unwrap_or_default();
        message.push(b'\n');
        message.extend_from_slice(&self.bytes);
        message
    }

    /// Decodes a part; `None` if the bytes are not a valid part.
    pub fn decode(message: &[u8]) -> Option<Part> {
        let end = message.iter().position(|&byte| byte == b'\n')?;
        let head: PartHead = serde_json::from_slice(&message[..end]).ok()?;
        let possible = head.sequence < head.of && head.of <= MAXIMUM_PARTS;
        let fits = message.len() - end - 1 <= PART_BYTES;
        (possible && fits).then(|| Part { head, bytes: message[end + 1..].to_vec() })
    }

    /// An agent's result, as parts.
    pub fn of_result<T: Serialize>(
        run: &str,
        mix: u64,
        agent: &str,
        result: &T,
    ) -> Result<Vec<Part>, String> {
        let text = serde_json::to_vec(result).map_err(|error| error.to_string())?;
        let bytes =
            zstd::encode_all(text.as_slice(), COMPRESSION_LEVEL).map_err(|error| error.to_string())?;
        let part_count = bytes.len().div_ceil(PART_BYTES) as u64;
        if part_count > MAXIMUM_PARTS {
            return Err(format!(
                "the result has {} bytes, but the controller accepts at most {} of an agent: use more \
                 agents or fewer clients",
                bytes.len(),
                MAXIMUM_PARTS as usize * PART_BYTES
            ));
        }
        let part = |(sequence, bytes): (usize, &[u8])| {
            let head = PartHead {
                run: run.to_string(),
                mix,
                agent: agent.to_string(),
                sequence: sequence as u64,
                of: part_count,
            };
            Part { head, bytes: bytes.to_vec() }
        };
        Ok(bytes.chunks(PART_BYTES).enumerate().map(part).collect())
    }
}

/// The results of one mix, as far as they have arrived, of the agents that take part in it.
#[derive(Debug, Default)]
pub struct MixResults {
    run: String,
    mix: u64,
    agents: BTreeMap<String, Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    of: u64,
    parts: BTreeMap<u64, Vec<u8>>,
}

impl MixResults {
    /// A mix without parts yet, in which these agents take part.
    pub fn new<'a>(run: &str, mix: u64, agents: impl IntoIterator<Item = &'a str>) -> MixResults {
        let agents = agents.into_iter().map(|agent| (agent.to_string(), Parts::default()));
        MixResults { run: run.to_string(), mix, agents: agents.collect() }
    }

    /// Adds a part that arrived under this agent's subject, under which the broker allows no other agent to
    /// write. A part is ignored if it was received before, belongs to another mix, names another agent, or is
    /// from an agent without a portion of the mix.
    pub fn take(&mut self, agent: &str, part: Part) {
        if part.head.run != self.run || part.head.mix != self.mix || part.head.agent != agent {
            return;
        }
        let Some(parts) = self.agents.get_mut(agent) else { return };
        if parts.parts.is_empty() {
            parts.of = part.head.of;
        }
        if parts.of == part.head.of {
            parts.parts.entry(part.head.sequence).or_insert(part.bytes);
        }
    }

    /// Whether all parts of an agent's result have arrived.
    pub fn is_complete(&self, agent: &str) -> bool {
        self.agents.get(agent).is_some_and(|parts| parts.of > 0 && parts.parts.len() as u64 == parts.of)
    }

    /// An agent's result; `None` while a part is missing.
    pub fn result<T: DeserializeOwned>(&self, agent: &str) -> Option<Result<T, String>> {
        let parts = self.agents.get(agent).filter(|_| self.is_complete(agent))?;
        let bytes: Vec<u8> = parts.parts.values().flatten().copied().collect();
        Some(decompressed(&bytes).and_then(|text| {
            serde_json::from_slice(&text).map_err(|error| format!("its result cannot be read: {error}"))
        }))
    }
}

fn decompressed(bytes: &[u8]) -> Result<Vec<u8>, String> {
    use std::io::Read;
    let decoder = zstd::Decoder::new(bytes).map_err(|error| error.to_string())?;
    let mut text = Vec::new();
    let read = decoder.take(MAXIMUM_RESULT_BYTES + 1).read_to_end(&mut text);
    read.map_err(|error| format!("its result cannot be decompressed: {error}"))?;
    if text.len() as u64 > MAXIMUM_RESULT_BYTES {
        return Err(format!("its result has more than {MAXIMUM_RESULT_BYTES} bytes"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(agent: &str, sequence: u64, of: u64) -> Part {
        let head = PartHead { run: "r".into(), mix: 1, agent: agent.into(), sequence, of };
        Part { head, bytes: vec![sequence as u8; 3] }
    }

    proptest! {
        #[test]
        fn neither_order_nor_repetition_matters(order in prop::collection::vec(0u64..6, 0..60)) {
            let mut fold = MixResults::new("r", 1, ["a"]);
            order.iter().for_each(|&sequence| fold.take("a", part("a", sequence, 6)));
            let distinct: std::collections::BTreeSet<u64> = order.iter().copied().collect();
            prop_assert_eq!(fold.is_complete("a"), distinct.len() == 6);
            let held: Vec<u8> = fold
                .agents
                .get("a")
                .map(|it| it.parts.values().flatten().copied().collect())
                .unwrap_or_default();
            let expected: Vec<u8> = distinct.iter().flat_map(|&sequence| vec![sequence as u8; 3]).collect();
            prop_assert_eq!(held, expected);
        }

        #[test]
        fn any_bytes_are_a_part_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Part::decode(&bytes);
        }

        #[test]
        fn a_part_comes_back_as_it_was(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            sequence in 0u64..9,
        ) {
            let part = Part { bytes, ..part("a", sequence, 9) };
            prop_assert_eq!(Part::decode(&part.encode()), Some(part));
        }
    }

    #[test]
    fn parts_of_another_run_or_mix_are_left_out() {
        let mut fold = MixResults::new("r", 2, ["a"]);
        fold.take("a", part("a", 0, 1));
        assert!(!fold.is_complete("a") && fold.result::<u32>("a").is_none());
        assert_eq!(
            Part::decode(b"{\"run\":\"r\",\"mix\":1,\"agent\":\"a\",\"sequence\":5,\"of\":5}\n"),
            None
        );
    }

    #[test]
    fn a_part_counts_only_under_the_subject_of_its_own_agent() {
        let mut fold = MixResults::new("r", 1, ["a", "b"]);
        fold.take("b", part("a", 0, 1));
        assert!(!fold.is_complete("a") && !fold.is_complete("b"), "b wrote a result in the name of a");
        fold.take("stranger", part("stranger", 0, 1));
        assert!(
            !fold.is_complete("stranger") && fold.agents.len() == 2,
            "an agent that has no part in the mix"
        );
        fold.take("a", part("a", 0, 1));
        assert!(fold.is_complete("a"));
    }

    #[test]
    fn an_agent_takes_up_no_more_memory_than_a_result_may_have() {
        let long = Part { bytes: vec![0; PART_BYTES + 1], ..part("a", 0, 1) };
        assert_eq!(Part::decode(&long.encode()), None);
        assert_eq!(Part::decode(&part("a", 0, MAXIMUM_PARTS + 1).encode()), None);
        let result = vec![0u8; 1 << 20];
        assert_eq!(Part::of_result("r", 1, "a", &result).unwrap().len(), 1);
    }
}
