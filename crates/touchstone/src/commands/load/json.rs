//! The figures of a load as JSON. The names contain the units; what was not measured is null.

use super::FinishedLoad;
use serde_json::{Value, json};
use touchstone_load::{
    Arrivals, ArrivalsOutcome, ClassOutcome, ClientOutcome, ConnectionUse, ErrorCounts, ErrorReason,
    Interval, MessagesOutcome, Outcome, Plan, PlannedRequest, StageOutcome, TimeSpread, TimeSummary, Verdict,
    WebSocketsOutcome,
};

/// The output of `touchstone load --json`.
pub(super) fn of(finished: &FinishedLoad) -> Value {
    let FinishedLoad {
        subject,
        plan,
        outcome,
        fleet,
        invalid,
        verdicts,
        aborted_by,
        per_client,
        per_url,
        ..
    } = finished;
    let mut value = json!({
        "url": subject,
        "address": plan.target.address.to_string(),
        "clients": plan.clients,
        "duration_s": plan.length.as_secs_f64(),
        "plan": planned(plan),
        // The whole run, so that the server's log can be held against it; the rest is counted within the
        // window.
        "requests": outcome.total_requests,
        "errors": outcome.total_errors,
        "errors_by_kind": errors(&outcome.total_errors_by_kind),
        "error_reasons": outcome.error_reasons.iter().map(reason).collect::<Vec<_>>(),
        "thresholds": verdicts.iter().map(threshold).collect::<Vec<_>>(),
        "aborted_by": aborted_by.as_ref().map(threshold),
        "connections": outcome.total_connections,
        "retries": outcome.total_retries,
        "window": counted(outcome),
        "rate": outcome.requests_per_second(),
        "bytes": outcome.bytes,
        "bytes_per_second": outcome.bytes_per_second(),
        "megabits_per_second": outcome.bytes_per_second() * 8.0 / 1e6,
        "latency_us": times(TimeSummary::of(&outcome.latency_ns)),
        "service_us": times(TimeSummary::of(&outcome.service_ns)),
        "connect_us": times(TimeSummary::of(&outcome.connect_ns)),
        "handshake_us": times(TimeSummary::of(&outcome.handshake_ns)),
        "messages": outcome.messages.as_ref().map(messages),
        "websockets": outcome.websockets.as_ref().map(websockets),
        "tls": tls(plan, outcome),
        "arrivals": outcome.arrivals.as_ref().map(arrivals),
        "fleet": fleet,
        "invalid": invalid,
        "stages": outcome.stages.iter().map(stage).collect::<Vec<_>>(),
        "littles_law_clients": outcome.implied_clients(plan.think_time),
        "intervals": outcome.intervals.iter().map(interval).collect::<Vec<_>>(),
        "engine": engine(outcome),
        "saturated": !outcome.saturation.is_clear(),
        "interrupted": outcome.interrupted,
        "warnings": outcome.warnings,
    });
    if *per_client {
        let window_s = outcome.window.as_secs_f64();
        value["per_client"] = outcome.clients.iter().map(|one| client(one, window_s)).collect();
    }
    if *per_url {
        let (requests, classes) = (plan.requests.iter(), outcome.classes.iter());
        value["per_url"] =
            requests.zip(classes).map(|(request, class)| url(plan, request, class, outcome)).collect();
    }
    value
}

fn url(plan: &Plan, request: &PlannedRequest, class: &ClassOutcome, outcome: &Outcome) -> Value {
    // Of a list of one URL the figures are those of the whole.
    let is_alone = outcome.classes.len() == 1;
    let latency =
        if is_alone { TimeSummary::of(&outcome.latency_ns) } else { TimeSummary::of(&class.latency_ns) };
    json!({
        "method": request.method,
        "host": plan.targets().nth(request.target).map(|target| &target.host),
        "path": request.path,
        "weight": request.weight,
        "requests": class.requests,
        "errors": class.errors,
        "bytes": if is_alone { outcome.bytes } else { class.bytes },
        "latency_us": times(latency),
    })
}

fn planned(plan: &Plan) -> Value {
    json!({
        "connections": match plan.connections {
            ConnectionUse::Kept => "kept",
            ConnectionUse::New => "new",
            ConnectionUse::NewShare(_) => "some new",
        },
        "new_connection_share": match plan.connections {
            ConnectionUse::Kept => 0.0,
            ConnectionUse::New => 1.0,
            ConnectionUse::NewShare(share) => share,
        },
        "model": model(plan),
        "http_version": plan.version.name().trim_start_matches("HTTP/"),
        "streams": plan.streams,
        "rate": plan.rate,
        "recorded_requests": (!plan.recorded.is_empty()).then_some(plan.recorded.len()),
        "arrivals": match plan.arrivals {
            _ if !plan.recorded.is_empty() => "recorded",
            Arrivals::Constant => "constant",
            Arrivals::Poisson => "poisson",
        },
        "session_requests": plan.session.map(|session| session.requests),
        "request_limit": plan.request_limit,
        "urls": plan.requests.len(),
        "think_time_s": plan.think_time.as_secs_f64(),
        "think_time_spread": match plan.think_spread {
            TimeSpread::Fixed => "fixed",
            TimeSpread::Exponential => "exponential",
        },
        "delay_s": plan.delay.as_secs_f64(),
        "timeout_s": plan.timeout.as_secs_f64(),
        "ramp_up_s": plan.ramp_up.as_secs_f64(),
        "ramp_down_s": plan.ramp_down.as_secs_f64(),
        "receive_buffer_bytes": plan.receive_buffer_bytes,
        "headers": plan.headers,
        "cores": plan.cores,
        "seed": plan.seed,
    })
}

/// The load model, which determines the meaning of the figures.
fn model(plan: &Plan) -> &'static str {
    match (plan.is_open(), plan.session) {
        (false, _) => "closed",
        (true, None) => "open",
        (true, Some(_)) => "partly-open",
    }
}

fn tls(plan: &Plan, outcome: &Outcome) -> Value {
    let Some(tls) = plan.targets().find_map(|target| target.tls.as_ref()) else { return Value::Null };
    json!({
        "full_handshakes": outcome.handshakes.full,
        "resumed_handshakes": outcome.handshakes.resumed,
        "resumed_share": outcome.handshakes.resumed_share(),
        "commanded_share": tls.resumption_share,
        "server_name": tls.server_name,
        "first_error": outcome.tls_error,
    })
}

fn messages(messages: &MessagesOutcome) -> Value {
    json!({
        "count": messages.count,
        "whole_run": messages.total,
        "first_us": times(TimeSummary::of(&messages.first_ns)),
        "gap_us": times(TimeSummary::of(&messages.gap_ns)),
    })
}

fn websockets(websockets: &WebSocketsOutcome) -> Value {
    let closes = websockets.closes.iter().map(|(code, count)| (code.to_string(), json!(count)));
    json!({
        "opened": websockets.opened,
        "sent": websockets.sent,
        "whole_run": { "opened": websockets.total_opened, "sent": websockets.total_sent },
        "server_pings": websockets.pings,
        "close_codes": closes.collect::<serde_json::Map<_, _>>(),
        "open_us": times(TimeSummary::of(&websockets.open_ns)),
        "answer_us": times(TimeSummary::of(&websockets.answer_ns)),
        "pong_us": times(TimeSummary::of(&websockets.pong_ns)),
    })
}

fn arrivals(arrivals: &ArrivalsOutcome) -> Value {
    json!({
        "due": arrivals.due,
        "started": arrivals.started,
        "late": arrivals.late,
        "unsent": arrivals.unsent(),
        "lateness_us": times(TimeSummary::of(&arrivals.lateness_ns)),
        "engine_lateness_us": times(TimeSummary::of(&arrivals.engine_lateness_ns)),
    })
}

fn stage(stage: &StageOutcome) -> Value {
    json!({
        "start_s": stage.start_s,
        "length_s": stage.length_s,
        "requests": stage.requests,
        "errors": stage.errors,
        "bytes": stage.bytes,
        "rate": stage.requests as f64 / stage.length_s,
        "latency_us": times(TimeSummary::of(&stage.latency_ns)),
    })
}

/// What ended between the ramps.
fn counted(outcome: &Outcome) -> Value {
    json!({
        "length_s": outcome.window.as_secs_f64(),
        "requests": outcome.requests,
        "errors": outcome.errors.total(),
        "errors_by_kind": errors(&outcome.errors),
        "answers_by_status": by_status(outcome),
        "connections": outcome.connections,
        "bytes": outcome.bytes,
        "body_bytes": outcome.body_bytes,
    })
}

fn by_status(outcome: &Outcome) -> Value {
    outcome.statuses.iter().map(|(status, count)| (status.to_string(), json!(count))).collect()
}

fn reason(reason: &ErrorReason) -> Value {
    json!({
        "kind": reason.kind,
        "reason": reason.reason,
        "count": reason.count,
        "first_at_s": reason.first_at_s,
        "first_request": reason.first_request,
        "first_answer": reason.first_answer,
    })
}

fn threshold(verdict: &Verdict) -> Value {
    json!({
        "threshold": verdict.threshold,
        "kept": verdict.is_kept,
        "measured": verdict.measured,
        "limit": verdict.limit,
        "unit": verdict.unit.name(),
        "words": verdict.words,
    })
}

fn errors(errors: &ErrorCounts) -> Value {
    errors.by_kind().into_iter().map(|(kind, count)| (kind.to_string(), json!(count))).collect()
}

fn times(summary: Option<TimeSummary>) -> Value {
    let Some(times) = summary else { return Value::Null };
    json!({
        "count": times.count,
        "min": times.min_us,
        "mean": times.mean_us,
        "deviation": times.deviation_us,
        "p50": times.p50_us,
        "p90": times.p90_us,
        "p95": times.p95_us,
        "p99": times.p99_us,
        "p999": times.p999_us,
        "max": times.max_us,
    })
}

fn interval(interval: &Interval) -> Value {
    let times = TimeSummary::of(&interval.latency_ns);
    json!({
        "start_s": interval.start_s,
        "length_s": interval.length_s,
        "requests": interval.requests,
        "errors": interval.errors,
        "bytes": interval.bytes,
        "latency_mean_us": times.map(|times| times.mean_us),
        "latency_p99_us": times.map(|times| times.p99_us),
    })
}

fn engine(outcome: &Outcome) -> Value {
    json!({
        "user_s": outcome.engine.user_s,
        "system_s": outcome.engine.system_s,
        "us_per_request": outcome.engine_us_per_request(),
        "busiest_thread": outcome.engine.busiest_thread,
        "longest_waiting_thread": outcome.engine.longest_waiting_thread,
        "saturation": outcome.saturation.text(),
    })
}

fn client(client: &ClientOutcome, window_s: f64) -> Value {
    json!({
        "requests": client.requests,
        "errors": client.errors,
        "bytes": client.bytes,
        "rate": if window_s > 0.0 { client.requests as f64 / window_s } else { 0.0 },
        "latency_us": times(TimeSummary::of(&client.latency_ns)),
    })
}
