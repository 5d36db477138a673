//! Reads a suite from TOML, strictly: every key must be known, every value within its limits, weights must
//! sum to 100, ramps must leave some time to count, and all interfaces must return the same number of bytes.

use super::own_request::headers;
use super::values::{SECONDS_MAX, http_version, name};
use super::{Endpoint, Mix, Part, Suite, TlsOffer, read_class, read_workload};
use crate::definition::{DefinitionError, Document, Table};
use crate::memory::{self, Size};
use std::path::Path;
use touchstone_conformance::case;
use touchstone_load::{Arrivals, HttpVersion, Threshold, TimeSpread, TlsVersions};

/// The most virtual clients of a mix.
const CLIENTS_MAX: u64 = 100_000;
/// The largest receive buffer: 16 MiB.
const RECEIVE_BUFFER_BYTES_MAX: u64 = 16 << 20;
/// The most clients that can share a connection.
const STREAMS_MAX: u64 = 1000;
/// The fewest arrivals a second: one in a hundred seconds.
const RATE_MIN: f64 = 0.01;
/// The most arrivals a second.
pub const RATE_MAX: f64 = 1e9;
/// The most mixes of a suite.
const MIXES_MAX: usize = 10_000;

/// Reads a suite's TOML text, which has no data files; `file` names it in messages.
pub(super) fn suite(file: &str, text: &str) -> Result<Suite, DefinitionError> {
    suite_in(file, text, None)
}

/// The same with data files, which lie in `directory`.
pub(super) fn suite_in(file: &str, text: &str, directory: Option<&Path>) -> Result<Suite, DefinitionError> {
    let document = Document::new(file, text);
    let parsed = document.parse()?;
    let root = document.root(&parsed);

    let name = name(&root, root.required_string("name")?, "a suite's")?;
    let title = root.required_string("title")?.value;
    let description = root.required_string("description")?.value;
    let source = root.required_string("source")?.value;
    let shared = match root.table("mix")? {
        Some(table) => MixTimes::read_all(&table)?,
        None => MixTimes::default(),
    };
    let mixes = mixes(&root, shared)?;
    if mixes.is_empty() {
        return Err(root.error("the suite needs at least one mix: mixes = [{ clients = 1 }]"));
    }
    let conformance = root.boolean("conformance")?.is_some_and(|conformance| conformance.value);
    let conformance_cases = conformance_cases(&root, conformance)?;
    let warm_up = warm_up_s(&root)?;
    let (quick_warm_up, quick_mixes) = match root.table("quick")? {
        Some(table) => (warm_up_s(&table)?, quick_mixes(&table, shared)?),
        None => (0.0, Vec::new()),
    };
    let client = client(&root)?;
    let fail_if = thresholds(&root, "fail_if")?;
    let abort_if = abort_if(&root)?;
    let memory = memory(&root)?;
    let parts = read_workload::parts(&root, client.endpoint, client.streams, directory)?;
    root.finish()?;
    check_rates(&root, &mixes, &quick_mixes, &parts)?;
    Ok(Suite {
        name,
        title,
        description,
        source,
        keep_alive: client.keep_alive,
        new_connection_share: client.new_connection_share,
        http_version: client.endpoint.version,
        streams: client.streams,
        usual_headers: client.usual_headers,
        headers: client.headers,
        tls: client.tls,
        receive_buffer_bytes: client.receive_buffer_bytes,
        timeout_s: client.timeout_s,
        warm_up_s: warm_up,
        quick_warm_up_s: quick_warm_up,
        memory,
        fail_if,
        abort_if,
        conformance,
        conformance_cases,
        mixes,
        quick_mixes,
        parts,
        text: text.to_string(),
    })
}

/// Which rules of HTTP are tested, by the beginnings of their names.
fn conformance_cases(root: &Table<'_>, asked: bool) -> Result<Vec<String>, DefinitionError> {
    let Some(list) = root.strings("conformance_cases")? else { return Ok(Vec::new()) };
    if !asked {
        return Err(root.error_at(&list, "`conformance_cases` goes with `conformance = true`"));
    }
    let cases = case::all().map_err(|error| root.error_at(&list, error.to_string()))?;
    let is_none = |start: &&String| !cases.iter().any(|case| case.id.starts_with(start.as_str()));
    match list.value.iter().find(is_none) {
        Some(start) => {
            Err(root.error_at(&list, format!("there is no case whose name begins with {start:?}")))
        }
        None => Ok(list.value),
    }
}

/// What ends a running mix.
fn abort_if(root: &Table<'_>) -> Result<Vec<Threshold>, DefinitionError> {
    let list = thresholds(root, "abort_if")?;
    match list.iter().find_map(Threshold::only_at_the_end) {
        Some(reason) => Err(root.error(format!("`abort_if` {reason}"))),
        None => Ok(list),
    }
}

/// The thresholds of each mix, in the syntax of `touchstone load --fail-if`.
fn thresholds(root: &Table<'_>, key: &'static str) -> Result<Vec<Threshold>, DefinitionError> {
    let Some(list) = root.strings(key)? else { return Ok(Vec::new()) };
    let read = list.value.iter().map(|text| Threshold::parse(text));
    read.collect::<Result<_, _>>().map_err(|reason| root.error_at(&list, reason))
}

/// The sizes of memory that each system is measured with.
fn memory(root: &Table<'_>) -> Result<Vec<Size>, DefinitionError> {
    let Some(list) = root.strings("memory")? else { return Ok(Vec::new()) };
    memory::parse_list(&list.value).map_err(|reason| root.error_at(&list, reason))
}

/// The stated times of a mix.
#[derive(Debug, Clone, Copy, Default)]
struct MixTimes {
    ramp_up_s: Option<f64>,
    length_s: Option<f64>,
    ramp_down_s: Option<f64>,
    delay_s: Option<f64>,
    think_time_s: Option<f64>,
    think_spread: Option<TimeSpread>,
    arrivals: Option<Arrivals>,
}

impl MixTimes {
    /// Reads the times of a table that may hold other keys, too.
    fn read(table: &Table<'_>) -> Result<MixTimes, DefinitionError> {
        let seconds = |key| Ok(table.number(key, 0.0..=SECONDS_MAX)?.map(|number| number.value));
        Ok(MixTimes {
            ramp_up_s: seconds("ramp_up_s")?,
            length_s: seconds("length_s")?,
            ramp_down_s: seconds("ramp_down_s")?,
            delay_s: seconds("delay_s")?,
            think_time_s: seconds("think_time_s")?,
            think_spread: think_spread(table)?,
            arrivals: arrivals(table)?,
        })
    }

    /// Reads the times of a table without other keys.
    fn read_all(table: &Table<'_>) -> Result<MixTimes, DefinitionError> {
        let times = MixTimes::read(table)?;
        table.finish()?;
        Ok(times)
    }

    /// These times, completed by `shared`.
    fn over(self, shared: MixTimes) -> MixTimes {
        MixTimes {
            ramp_up_s: self.ramp_up_s.or(shared.ramp_up_s),
            length_s: self.length_s.or(shared.length_s),
            ramp_down_s: self.ramp_down_s.or(shared.ramp_down_s),
            delay_s: self.delay_s.or(shared.delay_s),
            think_time_s: self.think_time_s.or(shared.think_time_s),
            think_spread: self.think_spread.or(shared.think_spread),
            arrivals: self.arrivals.or(shared.arrivals),
        }
    }
}

/// Whether all think times are equal, or random with their mean.
fn think_spread(table: &Table<'_>) -> Result<Option<TimeSpread>, DefinitionError> {
    let Some(spread) = table.string("think_spread")? else { return Ok(None) };
    match spread.value.as_str() {
        "fixed" => Ok(Some(TimeSpread::Fixed)),
        "exponential" => Ok(Some(TimeSpread::Exponential)),
        other => {
            let message = format!("`think_spread` must be \"fixed\" or \"exponential\"; it is \"{other}\"");
            Err(table.error_at(&spread, message))
        }
    }
}

/// How the arrivals of an open load are spaced.
fn arrivals(table: &Table<'_>) -> Result<Option<Arrivals>, DefinitionError> {
    let Some(arrivals) = table.string("arrivals")? else { return Ok(None) };
    match arrivals.value.as_str() {
        "constant" => Ok(Some(Arrivals::Constant)),
        "poisson" => Ok(Some(Arrivals::Poisson)),
        other => {
            let message = format!("`arrivals` must be \"constant\" or \"poisson\"; it is \"{other}\"");
            Err(table.error_at(&arrivals, message))
        }
    }
}

/// Open and closed loads cannot be in one table of figures, and interfaces are compared by their peaks.
fn check_rates(
    root: &Table<'_>,
    mixes: &[Mix],
    quick: &[Mix],
    parts: &[Part],
) -> Result<(), DefinitionError> {
    let all = || mixes.iter().chain(quick);
    let open = all().filter(|mix| mix.rate.is_some()).count();
    if open > 0 && open < all().count() {
        return Err(root.error("either all mixes of a suite have a `rate`, also those of [quick], or none"));
    }
    if open > 0 && parts.iter().any(|part| part.interface.is_some()) {
        return Err(root.error(
            "interfaces are compared by their peaks, which a `rate` does not look for: leave it out, or \
             `interfaces`",
        ));
    }
    Ok(())
}

/// How long each system is loaded before its first mix.
fn warm_up_s(table: &Table<'_>) -> Result<f64, DefinitionError> {
    Ok(table.number("warm_up_s", 0.0..=SECONDS_MAX)?.map_or(0.0, |seconds| seconds.value))
}

fn quick_mixes(table: &Table<'_>, shared: MixTimes) -> Result<Vec<Mix>, DefinitionError> {
    let times = MixTimes::read(table)?.over(shared);
    let mixes = mixes(table, times)?;
    table.finish()?;
    if mixes.is_empty() {
        return Err(table.error("[quick] needs at least one mix: mixes = [{ clients = 1 }]"));
    }
    Ok(mixes)
}

fn mixes(table: &Table<'_>, shared: MixTimes) -> Result<Vec<Mix>, DefinitionError> {
    let tables = table.tables("mixes")?;
    if tables.len() > MIXES_MAX {
        return Err(
            table.error(format!("{} mixes are more than the {MIXES_MAX} that are allowed", tables.len()))
        );
    }
    let mut mixes: Vec<Mix> = Vec::with_capacity(tables.len());
    for table in &tables {
        let mix = mix(table, shared)?;
        if mixes.iter().any(|other| other.name == mix.name) {
            return Err(
                table.error(format!("the mix `{}` is defined twice; give one another `name`", mix.name))
            );
        }
        mixes.push(mix);
    }
    Ok(mixes)
}

fn mix(table: &Table<'_>, shared: MixTimes) -> Result<Mix, DefinitionError> {
    let clients = table.required("clients", table.whole("clients", 1..=CLIENTS_MAX)?)?.value as usize;
    let rate = table.number("rate", RATE_MIN..=RATE_MAX)?.map(|rate| rate.value);
    let name = match (table.string("name")?, rate) {
        (Some(stated), _) => name(table, stated, "a mix's")?,
        (None, Some(rate)) => Mix::name_for_rate(rate),
        (None, None) => Mix::name_for(clients),
    };
    let times = MixTimes::read(table)?.over(shared);
    table.finish()?;
    let length_s = times
        .length_s
        .ok_or_else(|| table.error(format!("the mix {name} needs a `length_s`, here or under [mix]")))?;
    let mix = Mix {
        name,
        clients,
        rate,
        arrivals: times.arrivals.unwrap_or_default(),
        ramp_up_s: times.ramp_up_s.unwrap_or(0.0),
        length_s,
        ramp_down_s: times.ramp_down_s.unwrap_or(0.0),
        delay_s: times.delay_s.unwrap_or(0.0),
        think_time_s: times.think_time_s.unwrap_or(0.0),
        think_spread: times.think_spread.unwrap_or_default(),
    };
    match mix.problem() {
        Some(problem) => Err(table.error(problem)),
        None => Ok(mix),
    }
}

/// WebBench's "Client Parameters".
struct Client {
    keep_alive: bool,
    new_connection_share: Option<f64>,
    endpoint: Endpoint,
    streams: usize,
    usual_headers: bool,
    headers: Vec<String>,
    tls: TlsOffer,
    receive_buffer_bytes: usize,
    timeout_s: f64,
}

fn client(root: &Table<'_>) -> Result<Client, DefinitionError> {
    let table = root.table("client")?.ok_or_else(|| root.error("the suite needs a [client]"))?;
    let keep_alive = table.required("use_keep_alives", table.boolean("use_keep_alives")?)?.value;
    let version = table.required_string("http_version")?;
    let usual = Endpoint { is_secure: false, version: http_version(&table, &version)? };
    let receive_buffer = table.whole("receive_buffer_bytes", 64..=RECEIVE_BUFFER_BYTES_MAX)?;
    let timeout = table.number("timeout_s", 0.001..=SECONDS_MAX)?;
    let share = table.number("new_connection_share", 0.0..=1.0)?;
    if let Some(share) = &share
        && !(keep_alive && share.value > 0.0 && share.value < 1.0)
    {
        let message = "`new_connection_share` is above 0 and below 1, and for clients with `use_keep_alives`";
        return Err(table.error_at(share, message));
    }
    let client = Client {
        keep_alive,
        new_connection_share: share.map(|share| share.value),
        endpoint: read_class::endpoint(&table, usual)?,
        streams: streams(&table, usual.version)?.max(pipeline(&table, usual.version)?),
        usual_headers: usual_headers(&table, usual.version)?,
        headers: headers(&table)?,
        tls: tls_offer(&table, usual.version)?,
        receive_buffer_bytes: receive_buffer.map_or(4096, |bytes| bytes.value as usize),
        timeout_s: timeout.map_or(10.0, |seconds| seconds.value),
    };
    table.finish()?;
    Ok(client)
}

/// What is offered if a connection is made with TLS: both versions, and resumed sessions, unless stated.
fn tls_offer(table: &Table<'_>, version: HttpVersion) -> Result<TlsOffer, DefinitionError> {
    let resumption_share = table.number("tls_resumption_share", 0.0..=1.0)?;
    let versions = match table.string("tls_version")? {
        None => TlsVersions::Both,
        Some(stated) => match stated.value.as_str() {
            "1.2" if version == HttpVersion::Http3 => {
                return Err(table.error_at(&stated, "HTTP/3 is always with TLS 1.3"));
            }
            "1.2" => TlsVersions::Tls12,
            "1.3" => TlsVersions::Tls13,
            other => {
                let message = format!("`tls_version` must be \"1.2\" or \"1.3\"; it is \"{other}\"");
                return Err(table.error_at(&stated, message));
            }
        },
    };
    Ok(TlsOffer { versions, resumption_share: resumption_share.map_or(1.0, |share| share.value) })
}

/// Clients that share a connection of HTTP/2 or 3.
fn streams(table: &Table<'_>, version: HttpVersion) -> Result<usize, DefinitionError> {
    match table.whole("streams", 1..=STREAMS_MAX)? {
        Some(streams) if streams.value > 1 && !matches!(version, HttpVersion::Http2 | HttpVersion::Http3) => {
            Err(table.error_at(&streams, "only HTTP/2 and 3 have several requests on a connection at once"))
        }
        streams => Ok(streams.map_or(1, |streams| streams.value as usize)),
    }
}

/// Clients that share a connection of HTTP/1.1, and send without waiting.
fn pipeline(table: &Table<'_>, version: HttpVersion) -> Result<usize, DefinitionError> {
    match table.whole("pipeline", 1..=STREAMS_MAX)? {
        Some(clients) if clients.value > 1 && version != HttpVersion::Http11 => {
            Err(table.error_at(&clients, "pipelining is HTTP/1.1's: HTTP/2 and 3 have `streams`"))
        }
        clients => Ok(clients.map_or(1, |clients| clients.value as usize)),
    }
}

/// Whether Host, User-Agent and Accept are sent without being named.
fn usual_headers(table: &Table<'_>, version: HttpVersion) -> Result<bool, DefinitionError> {
    match table.boolean("usual_headers")? {
        Some(usual) if !usual.value && version != HttpVersion::Http10 => Err(table.error_at(
            &usual,
            "only HTTP/1.0 does without the usual header fields: later versions ask for Host",
        )),
        usual => Ok(usual.is_none_or(|usual| usual.value)),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub const GOOD: &str = r#"name = "two"
title = "Two classes"
description = "For tests"
source = "here"
mixes = [{ clients = 1 }, { clients = 2, think_time_s = 0.5, name = "thinkers" }]
[mix]
ramp_up_s = 1
length_s = 3
ramp_down_s = 1
[client]
use_keep_alives = true
http_version = "1.0"
[workload]
name = "W"
[[workload.class]]
name = "SMALL"
weight_percent = 33.5
files = 2
file_bytes = 100
[[workload.class]]
name = "LARGE"
weight_percent = 66.5
files = 1
file_bytes = 1000
"#;

    #[test]
    fn a_good_suite_is_read_with_defaults() {
        let suite = suite("two.toml", GOOD).unwrap();
        assert_eq!(suite.mixes[0].name, "1_client");
        assert_eq!((suite.mixes[1].name.as_str(), suite.mixes[1].think_time_s), ("thinkers", 0.5));
        assert_eq!((suite.receive_buffer_bytes, suite.timeout_s), (4096, 10.0));
        assert_eq!(suite.http_version, HttpVersion::Http10);
        assert!(suite.quick_mixes.is_empty());
        let workload = &suite.first_part().workload;
        assert_eq!((suite.parts.len(), workload.tree_bytes()), (1, 1200));
        assert!((workload.mean_body_bytes() - 698.5).abs() < 1e-9);
    }

    #[test]
    fn mixes_of_an_open_load_are_read_and_planned_with_their_rate() {
        let open = GOOD.replace(
            "mixes = [{ clients = 1 }, { clients = 2, think_time_s = 0.5, name = \"thinkers\" }]",
            "mixes = [{ clients = 10, rate = 2.5 }, { clients = 10, rate = 5000, arrivals = \"poisson\" }]",
        );
        let suite = suite("two.toml", &open).unwrap();
        assert_eq!(suite.mixes[0].name, "2.5_per_second");
        assert_eq!(
            (suite.mixes[1].name.as_str(), suite.mixes[1].arrivals),
            ("5000_per_second", Arrivals::Poisson)
        );
        let run_parameters = super::super::RunParameters {
            target: touchstone_load::Target::plain(([127, 0, 0, 1], 80).into(), "127.0.0.1"),
            tls_target: None,
            path_prefix: "",
            cores: &[],
            seed: 1,
            lengths: super::super::Lengths::OfTree,
        };
        let plan = suite.plan(suite.first_part(), &suite.mixes[1], &run_parameters);
        assert_eq!((plan.rate, plan.arrivals, plan.clients), (Some(5000.0), Arrivals::Poisson, 10));
        plan.check().unwrap();
    }

    /// The good suite with something else in a place is refused with this message.
    fn refuses(cases: &[(&str, &str, &str)]) {
        for (from, to, expected) in cases {
            assert!(GOOD.contains(from), "{from}");
            let text = GOOD.replacen(from, to, 1);
            assert_eq!(&suite("two.toml", &text).unwrap_err().to_string(), expected, "{from} -> {to}");
        }
    }

    #[test]
    fn bad_suites_are_refused_with_the_place_and_the_reason() {
        refuses(&[
            ("title =", "titel =", "two.toml:1:1: the top level needs `title`"),
            ("files = 2", "file = 2", "two.toml:15:1: [workload.class] needs `files`"),
            (
                "mixes = [{ clients = 1 }",
                "mixes = [{ clients = 1, rate = 10 }",
                "two.toml:1:1: either all mixes of a suite have a `rate`, also those of [quick], or none",
            ),
            (
                "mixes = [",
                "conformance_cases = [\"9112\"]\nmixes = [",
                "two.toml:5:21: `conformance_cases` goes with `conformance = true`",
            ),
            (
                "mixes = [",
                "conformance = true\nconformance_cases = [\"9112/3.2\", \"9999/1\"]\nmixes = [",
                "two.toml:6:21: there is no case whose name begins with \"9999/1\"",
            ),
            (
                "ramp_up_s = 1",
                "ramp_up_s = 1\narrivals = \"often\"",
                "two.toml:8:12: `arrivals` must be \"constant\" or \"poisson\"; it is \"often\"",
            ),
            (
                "think_time_s = 0.5, name",
                "think_time_s = 0.5, rate = 5, name",
                "two.toml:5:27: the mix thinkers has a `rate`, which says when each request is due: leave \
                 `think_time_s` and `delay_s` out",
            ),
            (
                "ramp_up_s = 1",
                "ramp_upp_s = 1",
                "two.toml:7:1: unknown key `ramp_upp_s` in [mix]; did you mean `ramp_up_s`?",
            ),
            (
                "weight_percent = 33.5",
                "weight_percent = 30",
                "two.toml:13:1: the weights of the classes must sum to 100; they sum to 96.5",
            ),
            (
                "weight_percent = 33.5",
                "weight_percent = 0",
                "two.toml:17:18: a class of weight 0 is never asked for; leave it out",
            ),
            (
                "length_s = 3",
                "length_s = 2",
                "two.toml:5:10: the ramps of the mix 1_client (1 s up, 1 s down) leave nothing to count of \
                 its length of 2 s",
            ),
            ("length_s = 3", "", "two.toml:5:10: the mix 1_client needs a `length_s`, here or under [mix]"),
            (
                "{ clients = 1 }",
                "{ clients = 0 }",
                "two.toml:5:22: `clients` must be a whole number from 1 to 100000; it is 0",
            ),
            ("{ clients = 1 }", "{ }", "two.toml:5:10: [mixes] needs `clients`"),
            (
                "{ clients = 1 }",
                "{ clients = 1, thinktime = 2 }",
                "two.toml:5:25: unknown key `thinktime` in [mixes]; did you mean `think_time_s`?",
            ),
        ]);
    }

    #[test]
    fn bad_classes_and_clients_are_refused_with_the_place_and_the_reason() {
        refuses(&[
            (
                "http_version = \"1.0\"",
                "http_version = \"3\"",
                "two.toml:12:16: HTTP/3 is always with TLS: it takes `tls = true`",
            ),
            (
                "http_version = \"1.0\"",
                "http_version = \"2\"",
                "two.toml:12:16: HTTP/2 is agreed upon in the TLS handshake: it takes `tls = true`",
            ),
            (
                "http_version = \"1.0\"",
                "http_version = \"1.0\"\ntls_version = \"1.1\"",
                "two.toml:13:15: `tls_version` must be \"1.2\" or \"1.3\"; it is \"1.1\"",
            ),
            (
                "file_bytes = 100\n",
                "file_bytes = 0\n",
                "two.toml:19:14: `file_bytes` must be a whole number from 1 to 1073741824; it is 0",
            ),
            ("name = \"LARGE\"", "name = \"SMALL\"", "two.toml:20:1: the class `SMALL` is defined twice"),
            (
                "name = \"LARGE\"",
                "name = \"../up\"",
                "two.toml:21:8: a class's name has 1 to 100 letters, digits, `.`, `-` and `_`, and does not \
                 begin with a dot",
            ),
            (
                ", name = \"thinkers\"",
                ", name = \"1_client\"",
                "two.toml:5:27: the mix `1_client` is defined twice; give one another `name`",
            ),
            ("[client]", "[klient]", "two.toml:1:1: the suite needs a [client]"),
            (
                "use_keep_alives = true",
                "use_keep_alives = 1",
                "two.toml:11:19: `use_keep_alives` must be true or false; it is 1",
            ),
        ]);
    }

    #[test]
    fn the_quick_form_has_a_warm_up_of_its_own() {
        let good = suite("two.toml", GOOD).unwrap();
        assert_eq!((good.warm_up_s, good.quick_warm_up_s), (0.0, 0.0));
        let quick = "[quick]\nwarm_up_s = 0.5\nmixes = [{ clients = 4 }]\n[client]";
        let text = format!("warm_up_s = 20\n{}", GOOD.replacen("[client]", quick, 1));
        let with = suite("two.toml", &text).unwrap();
        assert_eq!((with.warm_up_s, with.quick_warm_up_s), (20.0, 0.5));
        let sized = suite("mem.toml", &format!("memory = [\"1GiB\", \"64MiB\"]\n{GOOD}")).unwrap();
        assert_eq!(sized.memory.iter().map(ToString::to_string).collect::<Vec<_>>(), ["64MiB", "1GiB"]);
        let small = suite("mem.toml", &format!("memory = [\"1KiB\"]\n{GOOD}")).unwrap_err().to_string();
        assert!(small.contains("mem.toml:1:") && small.contains("from 4MiB"), "{small}");
        let endless = suite("two.toml", &format!("warm_up_s = 86401\n{GOOD}")).unwrap_err();
        assert!(endless.to_string().contains("`warm_up_s` must be a number from 0 to 86400"), "{endless}");
    }

    #[test]
    fn a_quick_form_must_have_mixes_and_inherits_the_times() {
        let with =
            |quick: &str| suite("two.toml", &GOOD.replacen("[client]", &format!("{quick}\n[client]"), 1));
        let quick = with("[quick]\nlength_s = 9\nmixes = [{ clients = 4 }]").unwrap().quick_mixes;
        assert_eq!((quick.len(), quick[0].length_s, quick[0].ramp_up_s), (1, 9.0, 1.0));
        assert!(
            with("[quick]\nlength_s = 9").unwrap_err().to_string().contains("[quick] needs at least one mix")
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
            let _ = suite("any.toml", &text);
        }

        #[test]
        fn no_damage_to_a_good_suite_makes_the_reader_panic(
            at in 0..GOOD.len(),
            put in "[\\x20-\\x7e\\n]{0,8}",
        ) {
            let mut text = GOOD.to_string();
            text.replace_range(at..(at + 1), &put);
            if let Err(error) = suite("any.toml", &text) {
                prop_assert!(error.line >= 1 && error.column >= 1);
            }
        }
    }
}
