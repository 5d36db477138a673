//! The parsed contents of a transcript, for all versions of the protocol.

/// The parsed contents of a transcript.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParsedTranscript {
    /// The final answers, in order.
    pub answers: Vec<Answer>,
    /// The statuses of interim answers.
    pub interim: Vec<u16>,
    /// Why bytes could not be parsed as answers, if so.
    pub malformed: Option<String>,
    /// Whether the server closed the (last) connection.
    pub closed: bool,
    /// The error that ended the connection, by name.
    pub connection_error: Option<String>,
    /// Streams that were reset, with the error by name.
    pub resets: Vec<(u64, String)>,
    /// HTTP/2: the types of all frames, in order.
    pub frames: Vec<u8>,
    /// HTTP/2: the settings, in order.
    pub settings: Vec<(u16, u32)>,
    /// HTTP/2, HTTP/3: whether the server's first frame was SETTINGS.
    pub settings_first: bool,
    /// HTTP/2: the number of received acknowledgements of SETTINGS.
    pub settings_acks: usize,
    /// HTTP/2: the answers to PING.
    pub pongs: Vec<[u8; 8]>,
    /// The requests that the origin received, as text in lower case.
    pub origin: Vec<String>,
}

/// A final answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The stream of HTTP/2 or HTTP/3; the connection of HTTP/1.
    pub stream: u64,
    /// Its status.
    pub status: u16,
    /// Its fields: names in lower case, and values.
    pub fields: Vec<(String, String)>,
    /// Its body as far as it was received.
    pub body: Vec<u8>,
    /// Whether it was complete.
    pub complete: bool,
}

impl Answer {
    /// The values of a field, joined as in RFC 9110 section 5.2.
    pub fn field(&self, name: &str) -> Option<String> {
        let values: Vec<&str> = self.lines(name).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    /// The lines of a field.
    pub fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

impl ParsedTranscript {
    /// A short description, for example `400, closed`.
    pub fn in_words(&self) -> String {
        let mut words: Vec<String> = self.interim.iter().map(ToString::to_string).collect();
        for answer in &self.answers {
            words.push(match answer.complete {
                true => answer.status.to_string(),
                false => format!("{} (incomplete)", answer.status),
            });
        }
        words.extend(self.malformed.iter().map(|problem| format!("malformed: {problem}")));
        words.extend(self.resets.iter().map(|(stream, error)| format!("stream {stream} reset: {error}")));
        match &self.connection_error {
            Some(error) => words.push(format!("connection error {error}")),
            None if self.closed => words.push("closed".to_owned()),
            None => {}
        }
        if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
    }
}

/// Bytes as text, one character for each byte.
pub(super) fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}
