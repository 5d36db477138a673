//! Properties that hold for any input, any splitting of it, and any order of the server's actions.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// One frame, valid or not.
fn any_frame() -> impl Strategy<Value = Input> {
    let stream = (0u32..8).prop_map(|number| 2 * number + 1);
    let new = Input::new;
    prop_oneof![
        6 => stream.clone().prop_map(move |stream| new().get(stream)),
        4 => stream.clone().prop_map(move |stream| new().post(stream)),
        1 => stream.clone().prop_map(move |stream| new().headers(stream, &[("trailer", "x")], true)),
        1 => stream.clone().prop_map(move |stream| new().headers(stream, &GET[1..], true)),
        4 => (stream.clone(), 0usize..200, any::<bool>())
            .prop_map(move |(stream, length, end)| new().data(stream, &vec![b'd'; length], end)),
        2 => (stream.clone(), 0u8..4).prop_map(move |(stream, padding)| {
            let payload = [&[padding, b'd', b'd'][..], &vec![0; usize::from(padding)]].concat();
            new().frame(FrameType::DATA, 8, stream, &payload)
        }),
        2 => (
            prop_oneof![Just(0), stream.clone()],
            prop_oneof![9 => 1u32..100_000, 1 => Just(0), 1 => Just(0x7fff_ffff)],
        )
            .prop_map(move |(stream, increment)| new().window(stream, increment)),
        2 => stream.clone().prop_map(move |stream| new().reset(stream, ErrorCode::CANCEL)),
        1 => any::<bool>().prop_map(move |acknowledgement| new().ping(b"12345678", acknowledgement)),
        1 => (0u16..10, prop_oneof![0u32..3, 16_384u32..100_000])
            .prop_map(move |(id, value)| new().settings(&[(SettingId(id), value)])),
        1 => (stream.clone(), "(u=[0-9](, i)?)?")
            .prop_map(move |(stream, value)| new().priority_update(stream, &value)),
        1 => (stream, 0usize..30).prop_map(move |(stream, cut)| {
            let block = block(GET);
            let cut = cut.min(block.len());
            new()
                .frame(FrameType::HEADERS, 1, stream, &block[..cut])
                .frame(FrameType::CONTINUATION, 4, stream, &block[cut..])
        }),
        1 => (0u8..20, any::<u8>(), 0u32..6, proptest::collection::vec(any::<u8>(), 0..20))
            .prop_map(move |(frame_type, flags, stream, payload)| {
                new().frame(FrameType(frame_type), flags, stream, &payload)
            }),
    ]
}

/// The result of a connection for an input that is cut at the given places.
fn outcome(input: &[u8], cuts: &[usize]) -> (Vec<Seen>, Option<ConnectionError>, Vec<Sent>) {
    let mut harness = Harness::fresh(Limits { concurrent_streams: 3, ..Limits::default() });
    let mut seen = Vec::new();
    let mut error = None;
    let mut at = 0;
    for cut in cuts.iter().copied().chain([input.len()]) {
        if cut < at {
            continue;
        }
        match harness.try_receive(Input::new().raw(&input[at..cut])) {
            Ok(more) => seen.extend(more),
            Err(found) => {
                // The events before the error are reported as well.
                seen.extend(super::seen(&harness.events, &harness.rest));
                error = Some(found);
                break;
            }
        }
        at = cut;
    }
    (seen, error, harness.sent())
}

proptest! {
    #[test]
    fn any_bytes_and_no_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        hello in any::<bool>(),
    ) {
        let mut harness = Harness::fresh(Limits::default());
        if hello {
            harness.receive(Input::new().hello());
        }
        let _ = harness.try_receive(Input::new().raw(&bytes));
        harness.pump();
    }

    #[test]
    fn splitting_changes_nothing(
        frames in proptest::collection::vec(any_frame(), 0..20),
        cuts in proptest::collection::vec(0usize..2000, 0..30),
    ) {
        let mut input = Input::new().hello();
        for frame in frames {
            input = input.raw(&frame.bytes);
        }
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= input.bytes.len()).collect();
        cuts.sort_unstable();
        let whole = outcome(&input.bytes, &[]);
        prop_assert_eq!(&outcome(&input.bytes, &cuts), &whole);
        let every_byte: Vec<usize> = (0..input.bytes.len()).collect();
        prop_assert_eq!(&outcome(&input.bytes, &every_byte), &whole);
    }
}

/// What a server may do between two inputs.
#[derive(Debug, Clone)]
enum Step {
    Receive(Input),
    Respond { which: usize, length: u64 },
    Stream { which: usize },
    Offer { which: usize, bytes: usize },
    Finish { which: usize, trailers: bool },
    Reset { which: usize },
    Release { which: usize, bytes: usize },
    Pump { frames: usize, max_length: usize },
    Replenish,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Input({})", self.bytes.escape_ascii())
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let which = 0usize..6;
    prop_oneof![
        8 => any_frame().prop_map(Step::Receive),
        4 => (which.clone(), prop_oneof![0u64..200, 0u64..100_000])
            .prop_map(|(which, length)| Step::Respond { which, length }),
        2 => which.clone().prop_map(|which| Step::Stream { which }),
        3 => (which.clone(), 0usize..40_000).prop_map(|(which, bytes)| Step::Offer { which, bytes }),
        2 => (which.clone(), any::<bool>()).prop_map(|(which, trailers)| Step::Finish { which, trailers }),
        1 => which.clone().prop_map(|which| Step::Reset { which }),
        3 => (which, 0usize..400).prop_map(|(which, bytes)| Step::Release { which, bytes }),
        4 => (0usize..6, 1usize..20_000).prop_map(|(frames, max_length)| Step::Pump { frames, max_length }),
        1 => Just(Step::Replenish),
    ]
}

/// A client that follows the standard and checks the server.
#[derive(Default)]
struct Client {
    initial_window: i64,
    connection_window: i64,
    stream_windows: BTreeMap<u32, i64>,
    /// For each stream: header sections seen, whether data was seen, and whether it has ended.
    responses: BTreeMap<u32, (bool, bool)>,
    /// The streams that were reported to the server's caller and have not ended.
    known_to_caller: BTreeMap<u32, StreamKey>,
}

impl Client {
    /// Notes what the client has sent, as far as the server has processed it without error.
    fn sends(&mut self, input: &Input) {
        let mut rest = &input.bytes[..];
        while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let header = FrameHeader::parse(header);
            let (payload, after) = after.split_at(header.length);
            rest = after;
            match Frame::parse(header, payload) {
                Ok(Frame::Settings(settings)) => {
                    for (id, value) in settings.iter() {
                        if id == SettingId::INITIAL_WINDOW_SIZE {
                            let difference = i64::from(value) - self.initial_window;
                            self.initial_window = i64::from(value);
                            self.stream_windows.values_mut().for_each(|window| *window += difference);
                        }
                    }
                }
                Ok(Frame::WindowUpdate { stream: 0, increment }) => {
                    self.connection_window += i64::from(increment)
                }
                Ok(Frame::WindowUpdate { stream, increment }) => {
                    if let Some(window) = self.stream_windows.get_mut(&stream) {
                        *window += i64::from(increment);
                    }
                }
                Ok(Frame::Headers { stream, .. }) => {
                    self.stream_windows.entry(stream).or_insert(self.initial_window);
                }
                _ => {}
            }
        }
    }

    fn watches(&mut self, sent: Vec<Sent>) {
        for sent in sent {
            match sent {
                Sent::Headers { stream, end, .. } => {
                    let (begun, ended) = self.responses.entry(stream).or_default();
                    assert!(!*ended, "a header section behind the end of {stream}");
                    assert!(!*begun || end, "a second header section of {stream} that is not trailers");
                    (*begun, *ended) = (true, end);
                }
                Sent::Data { stream, data, end } => {
                    let (begun, ended) = self.responses.entry(stream).or_default();
                    assert!(*begun && !*ended, "data of {stream} out of place");
                    *ended = end;
                    let length = data.len() as i64;
                    let window = self.stream_windows.get_mut(&stream).unwrap();
                    assert!(length == 0 || length <= *window, "more data than the window of {stream}");
                    assert!(length == 0 || length <= self.connection_window, "more data than the window");
                    *window -= length;
                    self.connection_window -= length;
                }
                Sent::Reset(stream, _) => {
                    self.responses.entry(stream).or_default().1 = true;
                }
                _ => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever a client and a server do: windows are respected, no frame follows an end, the caller is
    /// notified of every end that it did not cause, and everything that can be sent is sent.
    #[test]
    fn a_client_that_watches_finds_nothing_wrong(steps in proptest::collection::vec(any_step(), 0..120)) {
        let mut harness = Harness::with_limits(Limits { concurrent_streams: 6, ..Limits::default() });
        let mut client = Client { initial_window: 65_535, connection_window: 65_535, ..Client::default() };
        let mut next_stream = 1;
        for step in steps {
            let keys: Vec<StreamKey> = client.known_to_caller.values().copied().collect();
            let pick = |which: usize| keys.get(which % keys.len().max(1)).copied();
            match step {
                Step::Receive(mut input) => {
                    // Most streams are new ones, and those that are not should not end the connection too
                    // often.
                    if let Some(header) = input.bytes.first_chunk_mut::<HEADER_BYTES>() {
                        let mut parsed = FrameHeader::parse(header);
                        if parsed.frame_type == FrameType::HEADERS && parsed.has(4) {
                            parsed.stream = next_stream;
                            next_stream += 2;
                            *header = parsed.bytes();
                        } else if parsed.stream > next_stream {
                            continue;
                        }
                    }
                    client.sends(&input);
                    if harness.try_receive(input).is_err() {
                        harness.sent();
                        return Ok(());
                    }
                    for event in harness.events.iter() {
                        match event {
                            Event::Request(request) => {
                                let stream = request.stream();
                                assert!(client.known_to_caller.insert(stream.id(), stream).is_none());
                            }
                            Event::Reset { stream, .. } => {
                                assert!(client.known_to_caller.remove(&stream.id()).is_some());
                            }
                            _ => {}
                        }
                    }
                    let is_open = |key: &&StreamKey| harness.connection.is_open(**key);
                    let open = client.known_to_caller.values().filter(is_open);
                    let indexes: std::collections::BTreeSet<usize> =
                        open.clone().map(|key| key.index()).collect();
                    assert_eq!(indexes.len(), open.count(), "two open streams with one index");
                    client.known_to_caller.retain(|_, key| harness.connection.is_open(*key));
                }
                Step::Respond { which, length } => if let Some(key) = pick(which) {
                    let bytes = vec![b'x'; length as usize];
                    let body = if length % 2 == 0 { Body::Bytes(&bytes) } else { Body::Length(length) };
                    harness.connection.respond(key, &response_block(200), body, &mut harness.out);
                },
                Step::Stream { which } => if let Some(key) = pick(which) {
                    harness.connection.respond(key, &response_block(200), Body::Stream, &mut harness.out);
                },
                Step::Offer { which, bytes } => if let Some(key) = pick(which) {
                    harness.connection.offer(key, bytes);
                },
                Step::Finish { which, trailers } => if let Some(key) = pick(which) {
                    harness.connection.finish(key, trailers.then_some(&[0x20, 0x88][1..]), &mut harness.out);
                },
                Step::Reset { which } => if let Some(key) = pick(which) {
                    harness.connection.reset(key, ErrorCode::CANCEL);
                },
                Step::Release { which, bytes } => if let Some(key) = pick(which) {
                    harness.connection.release(key, bytes);
                },
                Step::Pump { frames, max_length } => {
                    for _ in 0..frames {
                        let next = harness.connection.next_data(max_length, &mut harness.out);
                        let Some(frame) = next else { break };
                        assert!(frame.length > 0 && frame.length <= max_length);
                        harness.out.resize(harness.out.len() + frame.length, b'x');
                    }
                }
                Step::Replenish => harness.connection.replenish(),
            }
            let sent = harness.sent();
            client.watches(sent);
            client.known_to_caller.retain(|_, key| harness.connection.is_open(*key));
        }
        // In the end everything that has a window goes out.
        while harness.connection.has_data_to_send() {
            let sent = harness.pump();
            client.watches(sent);
        }
        let keys: Vec<StreamKey> = client.known_to_caller.values().copied().collect();
        for key in keys {
            let unsent = harness.connection.unsent(key);
            let window = client.stream_windows[&key.id()].min(client.connection_window);
            assert!(unsent == 0 || window <= 0, "{unsent} bytes could have been sent");
        }
    }
}
