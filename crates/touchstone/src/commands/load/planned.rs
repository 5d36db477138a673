//! From the command line to the plan of the load engine.

use super::replay;
use super::url_list::{self, Entry};
use super::values;
use super::{Arguments, StageList};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use touchstone_lab::suite::{GRPC_FIELDS, SessionFile, framed};
use touchstone_lab_run::placement::parse_list;
use touchstone_load::{
    Arrivals, ClientCertificate, ConnectionUse, HttpUrl, HttpVersion, MessageForm, MessagePlan, Plan,
    PlannedRequest, Session, Target, TlsTarget, TlsVersions, Trust, WebSocketPlan, allowed_cores,
};

/// How long a run may last that ends with a number of requests and whose duration is not stated.
const LONG_ENOUGH: Duration = Duration::from_secs(24 * 3600);
const USUAL_DURATION: Duration = Duration::from_secs(10);
/// The largest list of URLs, in bytes.
const MAXIMUM_LIST_BYTES: u64 = 64 * 1024 * 1024;

/// What is loaded in words, and the plan.
pub(super) fn plan(arguments: &Arguments) -> Result<(String, Plan), String> {
    let base = arguments.url.as_deref().map(HttpUrl::parse_any).transpose().map_err(|error| error.0)?;
    let opens_websockets =
        arguments.websocket || base.as_ref().is_some_and(|(_, is_websocket)| *is_websocket);
    let base = base.map(|(url, _)| url);
    if opens_websockets && (arguments.sessions.is_some() || arguments.replay.is_some()) {
        return Err("--sessions and --replay require http:// or https://".to_string());
    }
    let replay = arguments.replay.as_deref().map(|path| replay::read(arguments, path)).transpose()?;
    let sessions = arguments.sessions.as_deref().map(session_file).transpose()?;
    let (subject, targets, requests) = match &replay {
        Some(replay) => {
            let server = replay::server(replay, base.as_ref())?;
            let targets = vec![target(arguments, &server, &trust(arguments)?)?];
            (replay.subject.clone(), targets, replay.requests.clone())
        }
        None => match (&arguments.sessions, &sessions, &base) {
            (Some(path), Some(file), Some(base)) => {
                let targets = vec![target(arguments, base, &trust(arguments)?)?];
                let subject = format!("{}, sessions of {}", base.origin(), path.display());
                (subject, targets, with_prefix(&base.path, &file.requests))
            }
            _ => {
                let (subject, entries) = entries(arguments, base.as_ref(), opens_websockets)?;
                let (targets, requests) = requests(arguments, &entries)?;
                (subject, targets, requests)
            }
        },
    };
    let mut targets = targets.into_iter();
    let target = targets.next().ok_or("there is nothing to load")?;
    let stages = arguments.stages.as_ref().or(arguments.rate_stages.as_ref());
    let stages = stages.map(|StageList(stages)| stages.clone()).unwrap_or_default();
    let most =
        |stages: &[touchstone_load::Stage]| stages.iter().map(|s| s.from.max(s.to)).fold(0.0, f64::max);
    let plan = Plan {
        other_targets: targets.collect(),
        requests,
        headers: arguments.headers.clone(),
        clients: match &arguments.stages {
            Some(StageList(stages)) => most(stages).ceil() as usize,
            None => arguments.clients,
        },
        streams: streams(arguments)?,
        cores: cores(arguments.cores, arguments.pin.as_deref())?,
        connections: match arguments.new_connection_share {
            _ if arguments.new_connections => ConnectionUse::New,
            Some(share) => ConnectionUse::NewShare(share),
            None => ConnectionUse::Kept,
        },
        version: version(arguments),
        receive_buffer_bytes: arguments.receive_buffer.0,
        delay: arguments.delay,
        think_time: arguments.think_time.value,
        think_spread: arguments.think_time.spread,
        timeout: arguments.timeout,
        ramp_up: arguments.ramp_up,
        length: match (&stages[..], arguments.duration, arguments.requests) {
            ([_, ..], _, _) => stages.iter().map(|stage| stage.length).sum(),
            (_, Some(duration), _) => duration,
            (_, None, _) if replay.is_some() => {
                replay.as_ref().map_or(USUAL_DURATION, |replay| replay.length)
            }
            (_, None, Some(_)) => LONG_ENOUGH,
            (_, None, None) => USUAL_DURATION,
        },
        ramp_down: arguments.ramp_down,
        rate: arguments.rate.or(arguments.rate_stages.as_ref().map(|StageList(stages)| most(stages))),
        recorded: replay.as_ref().map_or_else(|| Arc::new([]) as Arc<[_]>, |replay| replay.recorded.clone()),
        arrivals: if arguments.poisson { Arrivals::Poisson } else { Arrivals::Constant },
        session: arguments.session.map(|session| Session { requests: session.value, spread: session.spread }),
        stages,
        request_limit: arguments.requests,
        seed: arguments.seed,
        script: sessions.map(|file| file.script),
        ..Plan::of_one(target, "/")
    };
    if arguments.poisson && plan.rate.is_none() {
        return Err("--poisson changes how requests arrive: add a --rate".to_string());
    }
    // Errors of the plan are reported before the progress line begins.
    match arguments.fleet {
        Some(_) => plan.check_for_fleet(),
        None => plan.check(),
    }
    .map_err(|error| error.0)?;
    Ok((subject, plan))
}

/// Reads the sessions that `--sessions` names.
fn session_file(path: &Path) -> Result<SessionFile, String> {
    let text = read(path, MAXIMUM_LIST_BYTES)?;
    let text = String::from_utf8(text).map_err(|_| format!("{}: this is not text", path.display()))?;
    let directory = path.parent().unwrap_or(Path::new(""));
    SessionFile::read(&path.display().to_string(), &text, directory).map_err(|error| error.to_string())
}

/// The requests below the path of the URL: with `http://HOST/shop/` the sessions request `/shop/basket`.
fn with_prefix(path: &str, requests: &[PlannedRequest]) -> Vec<PlannedRequest> {
    let prefix = path.split('?').next().unwrap_or_default().trim_end_matches('/');
    let below = |request: &PlannedRequest| PlannedRequest {
        // A path that is a value is whole already.
        path: if request.path.starts_with('/') {
            format!("{prefix}{}", request.path)
        } else {
            request.path.clone()
        },
        ..request.clone()
    };
    requests.iter().map(below).collect()
}

/// How many clients share a connection.
fn streams(arguments: &Arguments) -> Result<usize, String> {
    match (arguments.pipeline, version(arguments)) {
        (Some(clients), _) => Ok(clients),
        (None, version @ (HttpVersion::Http10 | HttpVersion::Http11)) if arguments.streams > 1 => {
            Err(format!(
                "{} has one request at a time on a connection: streams are HTTP/2's and 3's \
                 (--pipeline sends several requests of HTTP/1.1 without waiting)",
                version.name()
            ))
        }
        (None, _) => Ok(arguments.streams),
    }
}

fn version(arguments: &Arguments) -> HttpVersion {
    match arguments {
        Arguments { http10: true, .. } => HttpVersion::Http10,
        Arguments { http2: true, .. } => HttpVersion::Http2,
        Arguments { http3: true, .. } => HttpVersion::Http3,
        _ => HttpVersion::Http11,
    }
}

/// What is to be loaded: the URL, or the list.
fn entries(
    arguments: &Arguments,
    base: Option<&HttpUrl>,
    is_websocket: bool,
) -> Result<(String, Vec<Entry>), String> {
    let Some(path) = &arguments.urls else {
        let url = base.cloned().ok_or("there is no URL")?;
        let what = if is_websocket { "WebSockets of " } else { "" };
        let subject = format!("{what}{}{}", url.origin(), url.path);
        return Ok((subject, vec![Entry { weight: None, method: None, url, is_websocket }]));
    };
    let text = read(path, MAXIMUM_LIST_BYTES)?;
    let text = String::from_utf8(text).map_err(|_| format!("{}: this is not text", path.display()))?;
    let mut entries =
        url_list::read(&text, base).map_err(|reason| format!("{}: {reason}", path.display()))?;
    entries.iter_mut().for_each(|entry| entry.is_websocket |= is_websocket);
    if arguments.zipf.is_some() && entries.iter().any(|entry| entry.weight.is_some()) {
        return Err("--zipf makes the weights: leave those in the list out".to_string());
    }
    Ok((format!("{} URLs of {}", entries.len(), path.display()), entries))
}

/// The targets, and the requests with their weights.
fn requests(arguments: &Arguments, entries: &[Entry]) -> Result<(Vec<Target>, Vec<PlannedRequest>), String> {
    let body = match body(arguments)? {
        body if arguments.grpc => Some(framed(body.as_deref().unwrap_or_default()).into()),
        body => body,
    };
    let messages = messages(arguments, entries)?;
    let websocket = websocket(arguments, entries, body.is_some())?;
    let grpc = GRPC_FIELDS.map(str::to_string);
    let usual_method = arguments.method.as_deref().unwrap_or(if body.is_some() { "POST" } else { "GET" });
    let trust = trust(arguments)?;
    if let Some(power) = arguments.zipf
        && !(0.0..=10.0).contains(&power)
    {
        return Err(format!("--zipf {power}: the power is from 0 to 10"));
    }
    let (mut origins, mut targets, mut requests) = (Vec::new(), Vec::new(), Vec::new());
    for (rank, entry) in entries.iter().enumerate() {
        let origin = entry.url.origin();
        let place = origins.iter().position(|known| *known == origin).unwrap_or(origins.len());
        if place == origins.len() {
            origins.push(origin);
            targets.push(target(arguments, &entry.url, &trust)?);
        }
        let websocket = websocket.filter(|_| entry.is_websocket);
        let usual_method = if websocket.is_some() { "GET" } else { usual_method };
        let method = entry.method.as_deref().unwrap_or(usual_method).to_string();
        let has_body = !["GET", "HEAD", "DELETE", "OPTIONS", "TRACE"].contains(&&method[..]);
        let weight = match arguments.zipf {
            Some(power) => ((rank + 1) as f64).powf(-power),
            None => entry.weight.unwrap_or(1.0),
        };
        requests.push(PlannedRequest {
            // Each line of a list is a class, so that its figures can be reported.
            class: rank,
            target: place,
            headers: if arguments.grpc { grpc.to_vec() } else { Vec::new() },
            messages: messages.filter(|_| !entry.is_websocket),
            websocket,
            body: body.clone().filter(|_| has_body || entry.is_websocket || arguments.urls.is_none()),
            method,
            weight,
            expected_status: arguments.expect_status.as_ref().map(|list| list.0.clone()).unwrap_or_default(),
            expected_body_bytes: arguments.expect_size.map(|bytes| bytes.0 as u64),
            expected_body_sha256: arguments.expect_sha256.map(|sum| sum.0),
            ..PlannedRequest::get(&*entry.url.path)
        });
    }
    Ok((targets, requests))
}

/// What is expected of the messages of answers.
fn messages(arguments: &Arguments, entries: &[Entry]) -> Result<Option<MessagePlan>, String> {
    let limit = arguments.end_after;
    match arguments.messages {
        _ if arguments.grpc => Ok(Some(MessagePlan { form: MessageForm::Grpc, limit })),
        Some(form) => Ok(Some(MessagePlan { form, limit })),
        None if limit.is_some() && !entries.iter().any(|entry| entry.is_websocket) => {
            Err("--end-after counts messages: choose them with --messages, --grpc or a URL with ws://"
                .to_string())
        }
        None => Ok(None),
    }
}

/// What is done on WebSockets, where there are any.
fn websocket(
    arguments: &Arguments,
    entries: &[Entry],
    has_body: bool,
) -> Result<Option<WebSocketPlan>, String> {
    let options = [
        ("--sends", arguments.sends.is_some()),
        ("--send-every", arguments.send_every.is_some()),
        ("--binary", arguments.binary),
        ("--ping-every", arguments.ping_every.is_some()),
    ];
    if !entries.iter().any(|entry| entry.is_websocket) {
        return match options.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => {
                Err(format!("{option} is for WebSockets: use a URL with ws:// or wss://, or --websocket"))
            }
            None => Ok(None),
        };
    }
    if let (Some(values::Sends(None | Some(1..))), false) = (arguments.sends, has_body) {
        return Err(
            "--sends: what is to be sent? Give it with --body, --body-file or --body-size".to_string()
        );
    }
    Ok(Some(WebSocketPlan {
        sends: match arguments.sends {
            Some(values::Sends(sends)) => sends,
            None if has_body && arguments.send_every.is_some() => None,
            None => Some(u64::from(has_body)),
        },
        is_binary: arguments.binary,
        send_every: arguments.send_every,
        receives: arguments.end_after,
        ping_every: arguments.ping_every,
    }))
}

fn body(arguments: &Arguments) -> Result<Option<Arc<[u8]>>, String> {
    Ok(match (&arguments.body, &arguments.body_file, arguments.body_size) {
        (Some(text), _, _) => Some(text.as_bytes().into()),
        (_, Some(path), _) => Some(read(path, touchstone_load::MAXIMUM_BODY_BYTES as u64)?.into()),
        (_, _, Some(bytes)) if bytes.0 > touchstone_load::MAXIMUM_BODY_BYTES => {
            return Err(format!("--body-size: at most {} bytes", touchstone_load::MAXIMUM_BODY_BYTES));
        }
        // Text that no compression makes small, the same in each run.
        (_, _, Some(bytes)) => Some(generated(bytes.0).into()),
        _ => None,
    })
}

/// Letters and digits in a fixed pseudo-random order.
fn generated(bytes: usize) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut letter = || {
        // Xorshift (Marsaglia, 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        LETTERS[(state >> 58) as usize]
    };
    (0..bytes).map(|_| letter()).collect()
}

/// A whole file, of at most this many bytes.
pub(super) fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > most {
        return Err(format!("{}: {length} bytes, and at most {most} are possible", path.display()));
    }
    std::fs::read(path).map_err(failed)
}

fn target(arguments: &Arguments, url: &HttpUrl, trust: &Trust) -> Result<Target, String> {
    let mut target = match &arguments.connect_to {
        None => url.resolve().map_err(|error| error.0)?,
        Some(place) => {
            // Read as the place in a URL, by the same rules.
            let place = HttpUrl::parse(&format!("http://{place}/"))
                .map_err(|error| format!("--connect-to: {error}"))?;
            let address = place.resolve().map_err(|error| error.0)?.address;
            let tls = url.is_secure.then(|| TlsTarget::new(&url.host));
            Target { address, host: url.host_field(), tls, version: None }
        }
    };
    if let Some(tls) = &mut target.tls {
        tls.trust = trust.clone();
        tls.versions = arguments.tls.unwrap_or(TlsVersions::Both);
        tls.resumption_share = arguments.resumption_share;
        tls.client_certificate = client_certificate(arguments)?;
        if let Some(name) = &arguments.server_name {
            tls.server_name = name.clone();
        }
    }
    Ok(target)
}

/// The client's certificate and its key, which may be in one file.
fn client_certificate(arguments: &Arguments) -> Result<Option<ClientCertificate>, String> {
    let Some(path) = &arguments.cert else { return Ok(None) };
    let read = |path: &Path| read(path, 16 * 1024 * 1024);
    let key = arguments.key.as_ref().unwrap_or(path);
    Ok(Some(ClientCertificate { chain: read(path)?, key: read(key)? }))
}

fn trust(arguments: &Arguments) -> Result<Trust, String> {
    Ok(match &arguments.ca {
        _ if arguments.insecure => Trust::Anything,
        Some(path) => Trust::Authorities(read(path, 16 * 1024 * 1024)?),
        None => Trust::System,
    })
}

/// The processors of the engine threads. Servers are mostly pinned to the first ones, so a number takes the
/// last.
fn cores(number: Option<usize>, list: Option<&str>) -> Result<Vec<usize>, String> {
    if let Some(list) = list {
        return parse_list(list).map_err(|error| format!("--pin: {error}"));
    }
    let Some(number) = number else { return Ok(Vec::new()) };
    let allowed = allowed_cores();
    if !(1..=allowed.len()).contains(&number) {
        return Err(format!("--cores {number}: this process may use {} processors", allowed.len()));
    }
    Ok(allowed[allowed.len() - number..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_cores_takes_the_last_ones() {
        let allowed = allowed_cores();
        assert_eq!(cores(None, None), Ok(vec![]));
        assert_eq!(cores(Some(1), None), Ok(vec![allowed[allowed.len() - 1]]));
        assert_eq!(cores(Some(allowed.len()), None), Ok(allowed.clone()));
        assert!(cores(Some(0), None).is_err());
        assert!(cores(Some(allowed.len() + 1), None).is_err());
        assert_eq!(cores(None, Some("0,2-3")), Ok(vec![0, 2, 3]));
        assert!(cores(None, Some("x")).is_err());
    }

    #[test]
    fn a_generated_body_is_always_the_same() {
        let body = generated(10_000);
        assert_eq!(body.len(), 10_000);
        assert_eq!(body, generated(10_000));
        assert!((b'0'..=b'z').all(|letter| !letter.is_ascii_alphanumeric() || body.contains(&letter)));
    }
}
