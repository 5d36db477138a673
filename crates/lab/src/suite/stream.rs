//! Reads the keys of a request about messages: that its answer is a stream of them (server-sent events,
//! lines, calls of gRPC), or that it opens a WebSocket. The keys are those of suites and of files of
//! sessions.

use super::values::SECONDS_MAX;
use crate::definition::{DefinitionError, LocatedValue, Table};
use std::time::Duration;
use touchstone_load::{HttpVersion, MessageForm, MessagePlan, WebSocketPlan};

/// The fields of a call of gRPC.
pub const GRPC_FIELDS: [&str; 2] = ["Content-Type: application/grpc", "TE: trailers"];
/// The most messages of one answer or of one WebSocket that a request states.
const MESSAGES_MAX: u64 = 1_000_000_000;
/// The keys of WebSockets alone.
const WEBSOCKET_KEYS: [&str; 4] = ["sends", "send_every_s", "binary", "ping_every_s"];

/// The settings of a request about messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Its answer is a stream of messages.
    Messages(MessagePlan),
    /// It opens a WebSocket.
    WebSocket(WebSocketPlan),
}

impl Stream {
    /// Whether it is a call of gRPC.
    pub(super) fn is_grpc(self) -> bool {
        matches!(self, Stream::Messages(MessagePlan { form: MessageForm::Grpc, .. }))
    }

    /// What is wrong with it in this version of HTTP, with this many clients on a connection.
    pub(super) fn problem(self, version: HttpVersion, streams: usize) -> Option<&'static str> {
        match self {
            Stream::WebSocket(_) if version != HttpVersion::Http11 => {
                Some("a WebSocket is opened over HTTP/1.1: `http_version = \"1.1\"`")
            }
            Stream::WebSocket(_) if streams > 1 => {
                Some("a WebSocket has a connection of its own: leave `streams` and `pipeline` out")
            }
            Stream::WebSocket(plan) if plan.expected_messages().is_none() => {
                Some("in a suite a WebSocket ends by itself: say when with `sends` or `end_after`")
            }
            Stream::Messages(MessagePlan { form: MessageForm::Grpc, .. })
                if matches!(version, HttpVersion::Http10 | HttpVersion::Http11) =>
            {
                Some("gRPC is spoken over HTTP/2 and 3: `http_version = \"2\"`")
            }
            _ => None,
        }
    }
}

/// Reads the keys `messages`, `end_after`, `websocket` and those of WebSockets; `has_body` states whether the
/// request has a body.
pub(super) fn stream(table: &Table<'_>, has_body: bool) -> Result<Option<Stream>, DefinitionError> {
    let form = form(table)?;
    let end_after = table.whole("end_after", 0..=MESSAGES_MAX)?;
    let websocket = table.boolean("websocket")?.filter(|websocket| websocket.value);
    let sends = table.whole("sends", 0..=MESSAGES_MAX)?;
    let times = [
        table.number("send_every_s", 1e-6..=SECONDS_MAX)?,
        table.number("ping_every_s", 1e-6..=SECONDS_MAX)?,
    ];
    let binary = table.boolean("binary")?;
    let Some(websocket) = websocket else {
        let given = [sends.is_some(), times[0].is_some(), binary.is_some(), times[1].is_some()];
        if let Some((key, _)) = WEBSOCKET_KEYS.iter().zip(given).find(|(_, given)| *given) {
            return Err(table.error(format!("`{key}` is for WebSockets: `websocket = true`")));
        }
        return messages(table, form, end_after);
    };
    if form.is_some() {
        return Err(table.error_at(&websocket, "a WebSocket has its own messages: leave `messages` out"));
    }
    if !has_body && sends.as_ref().is_some_and(|sends| sends.value > 0) {
        return Err(table.error_at(&websocket, "`sends`: what is to be sent? Give it with `body`"));
    }
    let [send_every, ping_every] = times.map(|time| time.map(|time| Duration::from_secs_f64(time.value)));
    let plan = WebSocketPlan {
        sends: Some(sends.map_or(u64::from(has_body), |sends| sends.value)),
        is_binary: binary.is_some_and(|binary| binary.value),
        send_every,
        receives: end_after.map(|end_after| end_after.value),
        ping_every,
    };
    Ok(Some(Stream::WebSocket(plan)))
}

fn form(table: &Table<'_>) -> Result<Option<MessageForm>, DefinitionError> {
    let Some(form) = table.string("messages")? else { return Ok(None) };
    match form.value.as_str() {
        "events" => Ok(Some(MessageForm::Events)),
        "lines" => Ok(Some(MessageForm::Lines)),
        "grpc" => Ok(Some(MessageForm::Grpc)),
        _ => Err(table.error_at(&form, "`messages` is \"events\", \"lines\" or \"grpc\"")),
    }
}

fn messages(
    table: &Table<'_>,
    form: Option<MessageForm>,
    end_after: Option<LocatedValue<u64>>,
) -> Result<Option<Stream>, DefinitionError> {
    match (form, end_after) {
        (None, Some(end_after)) => Err(table.error_at(
            &end_after,
            "`end_after` counts messages: say which with `messages`, or `websocket = true`",
        )),
        (Some(_), Some(end_after)) if end_after.value == 0 => {
            Err(table.error_at(&end_after, "an answer ends after at least 1 message"))
        }
        (form, end_after) => Ok(form.map(|form| {
            Stream::Messages(MessagePlan { form, limit: end_after.map(|end_after| end_after.value) })
        })),
    }
}

/// A message as gRPC sends it: not compressed, with its length before it.
pub fn framed(message: &[u8]) -> Vec<u8> {
    // A body is far smaller than 4 GiB.
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], message].concat()
}

#[cfg(test)]
mod tests {
    use super::super::read::suite;
    use super::super::{Content, Suite};
    use super::*;

    fn with(version: &str, request: &str) -> Result<Suite, String> {
        let text = format!(
            "name = \"s\"\ntitle = \"s\"\ndescription = \"s\"\nsource = \"s\"\n\
             mixes = [{{ clients = 1, length_s = 1 }}]\n\
             [client]\nuse_keep_alives = true\n{version}\n[workload]\nname = \"W\"\n\
             [[workload.class]]\nname = \"C\"\nweight = 1\nrequests = [{{ path = \"/\", {request} }}]\n"
        );
        suite("s.toml", &text).map_err(|error| error.message)
    }

    fn read(version: &str, request: &str) -> Option<Stream> {
        let suite = with(version, request).expect("a good suite");
        match &suite.first_part().workload.classes[0].content {
            Content::Requests { requests, .. } => requests[0].stream,
            _ => None,
        }
    }

    const HTTP1: &str = "http_version = \"1.1\"";
    const HTTP2: &str = "http_version = \"2\"\ntls = true";

    #[test]
    fn streams_are_read_as_the_command_line_reads_them() {
        let events = |limit| Stream::Messages(MessagePlan { form: MessageForm::Events, limit });
        assert_eq!(read(HTTP1, "messages = \"events\""), Some(events(None)));
        assert_eq!(read(HTTP1, "messages = \"events\", end_after = 20"), Some(events(Some(20))));
        assert_eq!(read(HTTP1, "method = \"PUT\""), None);
        let grpc = read(HTTP2, "messages = \"grpc\", body_hex = \"0a0161\"").expect("a call");
        assert!(grpc.is_grpc());
        let socket = |request: &str| match read(HTTP1, request) {
            Some(Stream::WebSocket(plan)) => plan,
            other => panic!("{other:?}"),
        };
        let plan =
            socket("websocket = true, body = \"hi\", sends = 5, send_every_s = 0.5, ping_every_s = 10");
        assert_eq!(
            (plan.sends, plan.send_every, plan.receives),
            (Some(5), Some(Duration::from_millis(500)), None)
        );
        assert_eq!(plan.ping_every, Some(Duration::from_secs(10)));
        assert_eq!(socket("websocket = true, body = \"hi\"").sends, Some(1));
        let listener = socket("websocket = true, end_after = 3, binary = true");
        assert_eq!((listener.sends, listener.receives, listener.is_binary), (Some(0), Some(3), true));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (version, request, said) in [
            (HTTP1, "messages = \"all\"", "`messages` is"),
            (HTTP1, "end_after = 3", "counts messages"),
            (HTTP1, "messages = \"lines\", end_after = 0", "at least 1"),
            (HTTP1, "sends = 3", "is for WebSockets"),
            (HTTP1, "websocket = true, messages = \"lines\"", "its own messages"),
            (HTTP1, "websocket = true, sends = 2", "what is to be sent"),
            (HTTP1, "websocket = true, method = \"POST\", body = \"x\"", "asked for with GET"),
            (HTTP1, "websocket = true, body_bytes = 5", "101"),
            (HTTP1, "websocket = true, extract = { a = \"body\" }", "no values"),
            (HTTP1, "messages = \"grpc\"", "HTTP/2 and 3"),
            (HTTP2, "websocket = true", "over HTTP/1.1"),
            (HTTP1, "websocket = true", "ends by itself"),
            (HTTP2, "messages = \"grpc\", body_hex = \"0\"", "two digits"),
            (HTTP2, "body_hex = \"00\", body = \"x\"", "not both"),
        ] {
            let message = with(version, request).expect_err(request);
            assert!(message.contains(said), "{request}: {message}");
        }
    }

    #[test]
    fn a_message_has_its_length_before_it() {
        assert_eq!(framed(b"abc"), [0, 0, 0, 0, 3, b'a', b'b', b'c']);
        assert_eq!(framed(b""), [0, 0, 0, 0, 0]);
    }
}
