//! Reads one class of a workload: files of one size or of a spread of sizes, an interface's answers, explicit
//! requests, or a page or a session.

use super::endpoint::Endpoint;
use super::own_request::{OwnRequest, headers};
use super::sizes::{FILE_BYTES_MAX, Spread};
use super::values::{http_version, name};
use super::{Class, Content, Interface, Order, Stream};
use crate::definition::{DefinitionError, Table};
use touchstone_load::{HttpVersion, MAXIMUM_REQUESTS};

/// The most files of a class, and of a tree.
pub(super) const FILES_MAX: u64 = MAXIMUM_REQUESTS as u64;
/// The most bytes that a request requires of a program.
const ASKED_BYTES_MAX: u64 = 8 << 20;
/// The largest exponent of popularity.
const ZIPF_MAX: f64 = 10.0;

/// The stated weight of a class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Weight {
    /// Percent: those of all classes sum to 100.
    Percent(f64),
    /// Relative to the others.
    Relative(f64),
}

/// The defaults that the classes of a workload share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shared {
    pub(super) endpoint: Endpoint,
    /// Clients that share a connection.
    pub(super) streams: usize,
    pub(super) content_seed: u64,
}

/// A class and its weight.
pub(super) fn class(table: &Table<'_>, shared: Shared) -> Result<(Class, Weight), DefinitionError> {
    let name = name(table, table.required_string("name")?, "a class's")?;
    let weight = weight(table)?;
    let zipf = table.number("zipf", 0.0..=ZIPF_MAX)?;
    let content = content(table, &name, shared.content_seed)?;
    if let (Content::Requests { order: Order::Page | Order::Session, .. }, Some(zipf)) = (&content, &zipf) {
        let message = "everything of a page or a session is asked for: `zipf` has no meaning here";
        return Err(table.error_at(zipf, message));
    }
    let class = Class {
        name,
        weight_percent: 0.0,
        content,
        zipf: zipf.map_or(0.0, |zipf| zipf.value),
        headers: headers(table)?,
        endpoint: endpoint(table, shared.endpoint)?,
    };
    if let Content::Requests { requests, .. } = &class.content {
        let problem = |stream: Stream| stream.problem(class.endpoint.version, shared.streams);
        if let Some(problem) = requests.iter().filter_map(|request| request.stream).find_map(problem) {
            return Err(table.error(problem));
        }
    }
    table.finish()?;
    Ok((class, weight))
}

fn weight(table: &Table<'_>) -> Result<Weight, DefinitionError> {
    let nothing = "a class of weight 0 is never asked for; leave it out";
    if let Some(weight) = table.number("weight", 0.0..=1e12)? {
        if let Some(percent) = table.number("weight_percent", 0.0..=100.0)? {
            return Err(table.error_at(&percent, "a class has a `weight` or a `weight_percent`, not both"));
        }
        return match weight.value > 0.0 {
            true => Ok(Weight::Relative(weight.value)),
            false => Err(table.error_at(&weight, nothing)),
        };
    }
    let percent = table.required("weight_percent", table.number("weight_percent", 0.0..=100.0)?)?;
    match percent.value > 0.0 {
        true => Ok(Weight::Percent(percent.value)),
        false => Err(table.error_at(&percent, nothing)),
    }
}

/// The endpoint of the class's requests: that of the suite's `[client]`, unless the class states another.
pub(super) fn endpoint(table: &Table<'_>, usual: Endpoint) -> Result<Endpoint, DefinitionError> {
    let is_secure = table.boolean("tls")?.map_or(usual.is_secure, |tls| tls.value);
    let stated = table.string("http_version")?;
    let version = match &stated {
        Some(stated) => http_version(table, stated)?,
        None => usual.version,
    };
    if matches!(version, HttpVersion::Http2 | HttpVersion::Http3) && !is_secure {
        let message = match version {
            HttpVersion::Http2 => "HTTP/2 is agreed upon in the TLS handshake: it takes `tls = true`",
            _ => "HTTP/3 is always with TLS: it takes `tls = true`",
        };
        return Err(match &stated {
            Some(stated) => table.error_at(stated, message),
            None => table.error(message),
        });
    }
    Ok(Endpoint { is_secure, version })
}

fn content(table: &Table<'_>, class: &str, seed: u64) -> Result<Content, DefinitionError> {
    let interface = match table.string("interface")? {
        Some(named) => {
            Some(Interface::find(&named.value).map_err(|message| table.error_at(&named, message))?)
        }
        None => None,
    };
    let lists = [("requests", Order::Chosen), ("page", Order::Page), ("session", Order::Session)];
    let mut stated = Vec::new();
    for (key, order) in lists {
        let tables = table.tables(key)?;
        if !tables.is_empty() {
            stated.push((tables, order));
        }
    }
    match (stated.len(), interface) {
        (0, None) => files(table, class, seed),
        (0, Some(interface)) => interface_content(table, interface),
        (1, interface) => {
            let (tables, order) = stated.remove(0);
            listed_requests(table, &tables, order, interface)
        }
        _ => Err(table.error(
            "a class has `requests`, one of which is chosen, or a `page`, which is asked for as a whole, or \
             a `session`, a page with think times; not two of them",
        )),
    }
}

/// Paths that Touchstone answers itself, such as those of its check of visitors.
const OWN_PATHS: &str = "/.touchstone/";

/// Explicit requests.
fn listed_requests(
    class: &Table<'_>,
    tables: &[Table<'_>],
    order: Order,
    interface: Option<Interface>,
) -> Result<Content, DefinitionError> {
    if tables.len() as u64 > FILES_MAX {
        return Err(class.error(format!("{} requests; at most {FILES_MAX} are allowed", tables.len())));
    }
    let requests: Vec<OwnRequest> =
        tables.iter().map(|table| OwnRequest::read(table, order)).collect::<Result<_, _>>()?;
    if let (Some(table), Some(first)) = (tables.first(), requests.first())
        && first.think_time_s > 0.0
    {
        return Err(table.error(
            "the first request of a session follows nothing: what stands between sessions is the mix's \
             `think_time_s`",
        ));
    }
    let is_answered = |request: &OwnRequest, interface: &Interface| {
        request.path.starts_with(interface.directory()) || request.path.starts_with(OWN_PATHS)
    };
    if let Some(interface) = &interface
        && let Some((place, request)) =
            tables.iter().zip(&requests).find(|(_, request)| !is_answered(request, interface))
    {
        return Err(place.error(format!(
            "{} is not below {}, where `{}` answers",
            request.path,
            interface.directory(),
            interface.name
        )));
    }
    Ok(Content::Requests { requests, interface: interface.map(Box::new), order })
}

/// An interface's answers, in the requested size if it accepts one.
fn interface_content(table: &Table<'_>, interface: Interface) -> Result<Content, DefinitionError> {
    let asked_bytes = table.whole("body_bytes", 1..=ASKED_BYTES_MAX)?;
    if let Some(asked_bytes) = &asked_bytes
        && interface.size_query.is_none()
    {
        let message = format!(
            "`{}` is not asked for a size; it answers with {} bytes",
            interface.name, interface.body_bytes
        );
        return Err(table.error_at(asked_bytes, message));
    }
    Ok(Content::Interface {
        interface: Box::new(interface),
        asked_bytes: asked_bytes.map(|asked_bytes| asked_bytes.value),
    })
}

fn files(table: &Table<'_>, class: &str, seed: u64) -> Result<Content, DefinitionError> {
    // Classes that request the same files in several ways name one directory.
    let directory = match table.string("directory")? {
        Some(stated) => name(table, stated, "a directory's")?,
        None => class.to_string(),
    };
    let files = table.required("files", table.whole("files", 1..=FILES_MAX)?)?.value;
    let sizes = match table.table("sizes")? {
        Some(spread) => Spread::read(&spread)?.sizes(files, seed ^ seed_of(&directory)),
        None => {
            let bytes = table.required("file_bytes", table.whole("file_bytes", 1..=FILE_BYTES_MAX)?)?.value;
            vec![bytes; files as usize]
        }
    };
    let suffix = match table.string("suffix")? {
        None => ".html".to_string(),
        Some(suffix) => {
            let plain = |c: char| c.is_ascii_alphanumeric();
            let is_good = suffix.value.len() <= 20
                && suffix
                    .value
                    .strip_prefix('.')
                    .is_some_and(|rest| !rest.is_empty() && rest.chars().all(plain));
            if !is_good {
                return Err(table.error_at(&suffix, "`suffix` is a dot, letters and digits: \".html\""));
            }
            suffix.value
        }
    };
    Ok(Content::Files { directory, sizes, suffix })
}

/// The seed that is derived from a name.
pub(super) fn seed_of(name: &str) -> u64 {
    u64::from_str_radix(&crate::machine::sha256(name.as_bytes())[..16], 16).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::read::suite;
    use super::super::{Class, Content, Lengths, Order, RunParameters, Suite};
    use crate::definition::DefinitionError;
    use proptest::prelude::*;
    use touchstone_load::{HttpVersion, Target};

    const HEAD: &str = "name = \"s\"\ntitle = \"s\"\ndescription = \"s\"\nsource = \"s\"\n\
                        mixes = [{ clients = 1, length_s = 1 }]\n\
                        [client]\nuse_keep_alives = true\nhttp_version = \"1.1\"\n[workload]\nname = \"W\"\n";

    fn with(classes: &str) -> Result<Suite, DefinitionError> {
        suite("s.toml", &format!("{HEAD}{classes}"))
    }

    fn class(keys: &str) -> Result<Class, String> {
        let read = with(&format!("[[workload.class]]\nname = \"C\"\nweight = 1\n{keys}\n"));
        read.map(|suite| suite.first_part().workload.classes[0].clone()).map_err(|error| error.message)
    }

    #[test]
    fn weights_are_all_relative_or_all_percent() {
        let classes = |first: &str, second: &str| {
            let class = |name: &str, weight: &str| {
                format!("[[workload.class]]\nname = \"{name}\"\n{weight}\nfiles = 1\nfile_bytes = 10\n")
            };
            with(&(class("A", first) + &class("B", second)))
        };
        let suite = classes("weight = 1", "weight = 3").unwrap();
        let weights: Vec<f64> =
            suite.first_part().workload.classes.iter().map(|class| class.weight_percent).collect();
        assert_eq!(weights, [25.0, 75.0]);
        for (first, second, said) in [
            ("weight = 1", "weight_percent = 3", "some classes have a `weight` and some a `weight_percent`"),
            (
                "weight = 1\nweight_percent = 1",
                "weight = 1",
                "a class has a `weight` or a `weight_percent`, not both",
            ),
            ("weight = 0", "weight = 1", "never asked for"),
            ("weight_percent = 50", "weight_percent = 49", "must sum to 100; they sum to 99"),
        ] {
            let message = classes(first, second).unwrap_err().message;
            assert!(message.contains(said), "{message}");
        }
    }

    #[test]
    fn classes_ask_for_files_interfaces_requests_or_pages() {
        let files = class(
            "files = 3\nsuffix = \".js\"\ndirectory = \"D\"\n\
                           sizes = { spread = \"even\", from_bytes = 1, to_bytes = 3 }",
        )
        .unwrap();
        assert_eq!(
            (files.path(2), files.mean_body_bytes(), files.tree_bytes()),
            ("/D/2.js".to_string(), 2.0, 6)
        );
        let with_size = class("interface = \"cgi-send\"\nbody_bytes = 77").unwrap();
        assert_eq!(
            (with_size.path(0), with_size.body_bytes(0)),
            ("/cgi-bin/send?size=77".to_string(), Some(77))
        );
        let own = class(
            "requests = [{ path = \"/a\", body_bytes = 10, weight = 3 }, { path = \"/b\", file_bytes = 30 }]",
        )
        .unwrap();
        assert_eq!((own.requests(), own.mean_body_bytes(), own.page_requests()), (2, 15.0, 1));
        let page =
            class("page = [{ path = \"/a\", body_bytes = 10 }, { path = \"/b\", body_bytes = 30 }]").unwrap();
        assert_eq!((page.page_requests(), page.mean_body_bytes()), (2, 20.0));
        let session = class(
            "session = [{ path = \"/a\", body_bytes = 10 }, { path = \"/b\", body_bytes = 30, think_time_s \
             = 2.5 }]",
        )
        .unwrap();
        assert_eq!(
            (session.page_requests(), session.is_session(), session.session_think_s()),
            (2, true, 2.5)
        );
        assert!(!page.is_session() && page.session_think_s() == 0.0);
        let zipf = class(
            "zipf = 1\nrequests = [{ path = \"/a\", body_bytes = 0 }, { path = \"/b\", body_bytes = 30 }]",
        )
        .unwrap();
        assert!((zipf.mean_body_bytes() - 10.0).abs() < 1e-9);
        assert!(
            !class("tls = true\nfiles = 1\nfile_bytes = 1").unwrap().endpoint.version.name().contains('2')
        );
        let http2 = class("tls = true\nhttp_version = \"2\"\nfiles = 1\nfile_bytes = 1").unwrap();
        assert_eq!((http2.endpoint.is_secure, http2.endpoint.version), (true, HttpVersion::Http2));
    }

    #[test]
    fn a_session_is_planned_with_its_think_times() {
        let text = "[[workload.class]]\nname = \"C\"\nweight = 1\n\
                    session = [{ path = \"/a\" }, { path = \"/b\" }, { path = \"/c\", think_time_s = \
                    2.5 }]\n";
        let suite = with(text).unwrap();
        let target = Target::plain(([127, 0, 0, 1], 80).into(), "127.0.0.1");
        let lengths = Lengths::Stated;
        let run_parameters =
            RunParameters { target, tls_target: None, path_prefix: "", cores: &[], seed: 1, lengths };
        let plan = suite.plan(suite.first_part(), &suite.mixes[0], &run_parameters);
        let waits: Vec<u128> = plan.requests.iter().map(|request| request.think_before.as_millis()).collect();
        assert_eq!((waits, &plan.requests[0].then[..]), (vec![0, 0, 2500], &[1, 2][..]));
        assert!(plan.requests[0].is_session && plan.check().is_ok());
    }

    #[test]
    fn what_cannot_be_says_why() {
        for (keys, said) in [
            ("http_version = \"2\"\nfiles = 1\nfile_bytes = 1", "it takes `tls = true`"),
            ("files = 1\nfile_bytes = 1\nsuffix = \"html\"", "`suffix` is a dot, letters and digits"),
            ("files = 1\nfile_bytes = 1\nheaders = [\"a b: c\"]", "is not a header field"),
            (
                "files = 2\nsizes = { spread = \"even\", from_bytes = 9, to_bytes = 3 }",
                "the first is the smaller",
            ),
            ("files = 2\nsizes = { spread = \"normal\" }", "there is no spread \"normal\""),
            (
                "files = 2\nsizes = { spread = \"quantiles\", percent = [0, 90], bytes = [1, 2] }",
                "`percent` rises from 0 to 100",
            ),
            (
                "files = 2\nsizes = { spread = \"quantiles\", percent = [0, 100], bytes = [2, 1] }",
                "`bytes` rises",
            ),
            (
                "files = 2\nsizes = { spread = \"quantiles\", percent = [0, 100], bytes = [2] }",
                "they have 2 and 1",
            ),
            (
                "interface = \"cgi\"\nbody_bytes = 7",
                "`cgi` is not asked for a size; it answers with 6250 bytes",
            ),
            ("interface = \"application\"\nrequests = [{ path = \"/x\" }]", "/x is not below /application/"),
            ("requests = [{ path = \"/x\" }]\npage = [{ path = \"/y\" }]", "not two of them"),
            ("requests = [{ path = \"x\" }]", "does not begin with"),
            ("requests = [{ path = \"/x\", method = \"a b\" }]", "a method is a word"),
            ("requests = [{ path = \"/x\", status = [99] }]", "a list of numbers from 200 to 599"),
            ("requests = [{ path = \"/x\", body = \"a\", send_bytes = 3 }]", "not both"),
            ("requests = [{ path = \"/x\", body_bytes = 1, file_bytes = 3 }]", "not both"),
            ("page = [{ path = \"/x\", weight = 3 }]", "unknown key `weight`"),
            ("page = [{ path = \"/x\" }, { path = \"/y\", think_time_s = 3 }]", "unknown key `think_time_s`"),
            ("session = [{ path = \"/x\", think_time_s = 3 }]", "follows nothing"),
            ("session = [{ path = \"/x\" }, { path = \"/y\", think_time_s = 1e9 }]", "to 86400"),
            ("zipf = 1\nsession = [{ path = \"/x\" }]", "`zipf` has no meaning here"),
            ("session = [{ path = \"/x\" }]\npage = [{ path = \"/y\" }]", "not two of them"),
            ("zipf = 1\npage = [{ path = \"/x\" }]", "`zipf` has no meaning here"),
            (
                "requests = [{ path = \"/x\", body_bytes = 1 }, { path = \"/x\", body_bytes = 2 }]",
                "/x is there with 1 bytes and with 2",
            ),
        ] {
            match class(keys) {
                Ok(_) => panic!("{keys} is taken"),
                Err(message) => {
                    assert!(message.contains(said) || message.contains("is there with"), "{keys}: {message}")
                }
            }
        }
        let twice = "[[workload.class]]\nname = \"A\"\nweight = 1\ndirectory = \"D\"\nfiles = 1\n\
                     file_bytes = 1\n\
                     [[workload.class]]\nname = \"B\"\nweight = 1\ndirectory = \"D\"\nfiles = 1\n\
                     file_bytes = 2\n";
        assert!(with(twice).unwrap_err().message.contains("two classes have the directory D"));
    }

    /// Any class that can be.
    fn classes() -> impl Strategy<Value = String> {
        let sizes = prop_oneof![
            (1u64..100_000).prop_map(|bytes| format!("file_bytes = {bytes}")),
            (1u64..1000, 1u64..100).prop_map(|(from, times)| format!(
                "sizes = {{ spread = \"geometric\", from_bytes = {from}, to_bytes = {} }}",
                from * times
            )),
            (1u64..1000, 1u64..100).prop_map(|(from, times)| format!(
                "sizes = {{ spread = \"pareto\", shape = 1.2, from_bytes = {from}, to_bytes = {} }}",
                from * times
            )),
        ];
        let files = (1u64..50, sizes, 0.0f64..2.0)
            .prop_map(|(files, sizes, zipf)| format!("files = {files}\n{sizes}\nzipf = {zipf}"));
        let own = prop::collection::vec((0u64..5000, 0.1f64..9.0), 1..10).prop_map(|requests| {
            let line = |(place, (bytes, weight)): (usize, &(u64, f64))| {
                format!("{{ path = \"/own/{place}\", body_bytes = {bytes}, weight = {weight} }}")
            };
            format!("requests = [{}]", requests.iter().enumerate().map(line).collect::<Vec<_>>().join(", "))
        });
        let page = prop::collection::vec(1u64..5000, 1..10).prop_map(|requests| {
            let line = |(place, bytes): (usize, &u64)| {
                format!("{{ path = \"/page/{place}\", body_bytes = {bytes} }}")
            };
            format!("page = [{}]", requests.iter().enumerate().map(line).collect::<Vec<_>>().join(", "))
        });
        prop_oneof![files, own, page]
    }

    proptest! {
        #[test]
        fn what_is_asked_for_is_what_the_suite_states(
            contents in prop::collection::vec((classes(), 0.1f64..100.0), 1..6),
        ) {
            // Each kind of request has its paths once.
            let own = |keys: &str| keys.starts_with("requests") || keys.starts_with("page");
            let mut seen = Vec::new();
            let mut text = String::new();
            for (number, (keys, weight)) in contents.iter().enumerate() {
                let kind = keys.split(' ').next().unwrap_or_default().to_string();
                if own(keys) && seen.contains(&kind) { continue; }
                seen.push(kind);
                text += &format!("[[workload.class]]\nname = \"C{number}\"\nweight = {weight}\n{keys}\n");
            }
            let suite = with(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
            let part = suite.first_part();
            let target = Target::plain(([127, 0, 0, 1], 80).into(), "127.0.0.1");
            let run_parameters = RunParameters {
                target,
                tls_target: None,
                path_prefix: "",
                cores: &[],
                seed: 1,
                lengths: Lengths::OfTree,
            };
            let plan = suite.plan(part, &suite.mixes[0], &run_parameters);
            let (mut bytes, mut requests, mut chosen) = (0.0, 0.0, 0.0);
            for request in &plan.requests {
                chosen += request.weight;
                for sent in request.then.iter().map(|next| &plan.requests[*next]).chain([request]) {
                    requests += request.weight;
                    bytes += request.weight * sent.expected_body_bytes.unwrap_or(0) as f64;
                }
            }
            prop_assert!((chosen - 100.0).abs() < 1e-6, "{chosen}");
            let mean = part.workload.mean_body_bytes();
            prop_assert!(
                (bytes / requests - mean).abs() <= 1e-9 * mean.max(1.0),
                "{} and not {mean}",
                bytes / requests
            );
            // The record in the result is the same.
            let record = suite.record(false, 1);
            let recorded: f64 = record
                .classes
                .iter()
                .map(|class| class.weight_percent / 100.0 * class.mean_bytes())
                .sum();
            prop_assert!((recorded - mean).abs() <= 1e-9 * mean.max(1.0));
            let tree: f64 = record.classes.iter().map(crate::result::ClassRecord::tree_bytes).sum();
            prop_assert_eq!(tree as u64, part.workload.tree_bytes());
            for class in &part.workload.classes {
                let is_page = matches!(class.content, Content::Requests { order: Order::Page, .. });
                prop_assert_eq!(class.is_page(), is_page);
            }
        }
    }
}
