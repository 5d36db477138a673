//! Computes a verdict from a case and a transcript. It does no input or output and does not wait: the same
//! transcript always has the same verdict.

mod http1;
mod http2;
mod http3;
mod observed;
mod test;

pub use observed::{Answer, ParsedTranscript};

use crate::case::{Case, Condition, Facts, Protocol, Script, Test};
use crate::transcript::{Bytes, EndState, Part, Transcript};
use serde::{Deserialize, Serialize};

/// The verdict of a case on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The answer is allowed.
    Kept,
    /// The answer is not allowed.
    Broken,
    /// The case could not be run.
    NotTried,
}

/// The verdict on a transcript, and a short description of the answer.
pub fn judge(case: &Case, facts: &Facts, transcript: &Transcript) -> (Verdict, String) {
    if let Some(reason) = &transcript.not_sent {
        return (Verdict::NotTried, reason.clone());
    }
    let observed = observe(case, transcript);
    let holds = |condition: &Condition| test::holds(condition, usual_subject(case), &observed, facts);
    let kept = case.answer.iter().any(|alternative| alternative.iter().all(holds));
    (if kept { Verdict::Kept } else { Verdict::Broken }, observed.in_words())
}

/// Whether a verdict needs the whole waiting time, because its conditions are about what is not received.
pub fn waits(case: &Case) -> bool {
    let conditions = || case.answer.iter().flatten();
    conditions().any(|condition| {
        matches!(
            condition.test,
            Test::Open
                | Test::Silent
                | Test::Answers(_)
                | Test::NoInterim(_)
                | Test::Origin(_)
                | Test::OriginAtMost(_)
                | Test::BodyLacks(_)
                | Test::BodySoFar(_)
        )
    })
}

/// Parses a transcript with the protocol of the case.
pub fn observe(case: &Case, transcript: &Transcript) -> ParsedTranscript {
    match case.protocol() {
        Protocol::Http1 => http1::observe(transcript, &methods(case)),
        Protocol::Http2 => http2::observe(transcript),
        Protocol::Http3 => http3::observe(transcript),
    }
}

/// Parses bytes of a server as each version of the protocol, for fuzzing.
pub fn read_as_each(bytes: &[u8]) {
    for (id, ending) in [(0, EndState::Closed), (3, EndState::Open)] {
        let part = Part { id, bytes: Bytes(bytes.to_vec()), ending };
        let transcript = Transcript { parts: vec![part], ..Transcript::default() };
        for observed in [
            http1::observe(&transcript, &[vec!["HEAD".to_owned(), "GET".to_owned()]]),
            http2::observe(&transcript),
            http3::observe(&transcript),
        ] {
            let _ = observed.in_words();
        }
    }
}

/// The answers of HTTP/1 to one GET.
pub(crate) fn observe_http1(transcript: &Transcript) -> ParsedTranscript {
    http1::observe(transcript, &[])
}

/// Whether a complete final answer of HTTP/1 was received on a connection.
pub(crate) fn is_answered(part: &Part) -> bool {
    let transcript = Transcript { parts: vec![part.clone()], ..Transcript::default() };
    let observed = http1::observe(&transcript, &[]);
    observed.malformed.is_some() || observed.answers.last().is_some_and(|answer| answer.complete)
}

/// Whether the server has ended a stream of HTTP/2.
pub(crate) fn has_ended(transcript: &Transcript, stream: u64) -> bool {
    let observed = http2::observe(transcript);
    observed.answers.iter().any(|answer| answer.stream == stream && answer.complete)
        || observed.resets.iter().any(|(id, _)| *id == stream)
}

/// The answer or stream that a condition without a number applies to.
fn usual_subject(case: &Case) -> Subject {
    match case.script {
        Script::Http1(_) => Subject::Number(1),
        Script::Steps { .. } => Subject::Last,
        Script::Http2(_) => Subject::Stream(1),
        Script::Http3(_) => Subject::Stream(0),
    }
}

#[derive(Debug, Clone, Copy)]
enum Subject {
    Number(u64),
    Last,
    Stream(u64),
}

/// The methods of the requests that are sent, for each connection.
fn methods(case: &Case) -> Vec<Vec<String>> {
    match &case.script {
        Script::Http1(text) => vec![methods_in(text)],
        Script::Steps { steps, .. } => {
            let sends = steps.iter().filter_map(|step| match step {
                crate::case::Step::Send(text) => Some(methods_in(text)),
                crate::case::Step::Wait(_) => None,
            });
            sends.collect()
        }
        Script::Http2(_) | Script::Http3(_) => Vec::new(),
    }
}

/// The first words of all lines that look like request lines.
fn methods_in(text: &str) -> Vec<String> {
    text.replace("{get}", "GET x HTTP/1.1\r\n")
        .split("\r\n")
        .filter(|line| line.contains(" HTTP/"))
        .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case;
    use proptest::prelude::*;

    fn verdict(answer: &str, bytes: &[u8], ending: EndState) -> (Verdict, String) {
        let text = format!(
            "document = \"RFC 9112\"\nsection = \"3\"\ntitle = \"T\"\n[[case]]\nname = \"a\"\nrule = \"R\"\n\
             send = \"GET / HTTP/1.1\\r\\n\\r\\n\"\nanswer = [\"{answer}\"]\n"
        );
        let case = case::file("x", &text).unwrap().remove(0);
        let part = Part { id: 0, bytes: Bytes(bytes.to_vec()), ending };
        judge(&case, &Facts::default(), &Transcript { parts: vec![part], ..Transcript::default() })
    }

    #[test]
    fn http1_answers_are_judged() {
        const OK: &[u8] =
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nDate: Thu, 01 Jan 1970 00:00:01 GMT\r\n\r\nab";
        const BAD: &[u8] = b"HTTP/1.1 400 Bad\r\nConnection: close\r\n\r\nno";
        let two = [OK, OK].concat();
        let cases = [
            ("200 & body 2 & body ~ ab", OK, EndState::Open, Verdict::Kept),
            ("200 & closed", OK, EndState::Open, Verdict::Broken),
            ("open & field Date is-date & no-field Server", OK, EndState::Open, Verdict::Kept),
            ("answers 1", &two, EndState::Open, Verdict::Broken),
            ("2: 200", &two, EndState::Open, Verdict::Kept),
            ("refused", BAD, EndState::Closed, Verdict::Kept),
            ("refused", b"", EndState::Closed, Verdict::Kept),
            ("refused", b"", EndState::Open, Verdict::Broken),
            ("refused", OK, EndState::Closed, Verdict::Broken),
            ("silent", b"", EndState::Open, Verdict::Kept),
            ("not 400", b"", EndState::Open, Verdict::Broken),
        ];
        for (answer, bytes, ending, expected) in cases {
            let found = verdict(answer, bytes, ending);
            assert_eq!(found.0, expected, "{answer}: {found:?}");
        }
        assert_eq!(verdict("200", BAD, EndState::Closed).1, "400, closed");
    }

    #[test]
    fn interim_answers_are_no_final_ones() {
        let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n";
        assert_eq!(verdict("interim 100 & 204", bytes, EndState::Open).0, Verdict::Kept);
        assert_eq!(verdict("no-interim 100", bytes, EndState::Open).0, Verdict::Broken);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_judge_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            read_as_each(&bytes);
        }

        #[test]
        fn no_damage_to_a_good_answer_makes_the_judge_panic(at in 0..59usize, put in any::<u8>()) {
            let good = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
            let mut bytes = good.to_vec();
            bytes[at] = put;
            read_as_each(&bytes);
        }
    }
}
