//! The facts that a reader needs before trusting a figure: whether the run is complete, what was run, when,
//! where and how, and the warnings.

use maud::{Markup, html};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::view::View;
use super::{Source, number, words};
use crate::hardware::{disks, network_cards, sponsor, switch};
use touchstone_lab::result::{MachineFacts, RunStatus, TlsRecord};

/// The banner of a run that ended early; empty for a complete one.
pub(super) fn banner(view: &View) -> Markup {
    let incomplete: Vec<(&Source, &str)> = view
        .sources
        .iter()
        .filter_map(|source| match &source.status {
            RunStatus::Complete => None,
            RunStatus::Incomplete(reason) => Some((source, reason.as_str())),
        })
        .collect();
    html! {
        @if !incomplete.is_empty() {
            section class="banner" aria-labelledby="incomplete" {
                h2 id="incomplete" { "This run is incomplete" }
                @for (source, reason) in incomplete {
                    p {
                        @if view.sources.len() > 1 { strong { (words::line(&source.label, 80)) ": " } }
                        (words::line(reason, words::SENTENCE_LIMIT))
                    }
                }
                p { "The figures are those that were measured until then." }
                @for system in view.each_system() {
                    @if let Some(last_words) = &system.system.last_words {
                        p { "What " (system.system_label) " printed last:" }
                        (super::appendix::verbatim(
                            &format!("The last output of {}", system.system_label),
                            last_words,
                        ))
                    }
                }
            }
        }
    }
}

/// The strip: a term and its fact, many times.
pub(super) fn section(view: &View) -> Markup {
    let suite = &view.result.suite;
    html! {
        section aria-labelledby="disclosure" {
            h2 id="disclosure" { "What was measured, when and where" }
            dl class="facts-grid" {
                (fact(
                    "Suite",
                    &format!(
                        "{}{}",
                        words::line(&suite.name, 120),
                        if suite.quick { " (quick form)" } else { "" },
                    ),
                ))
                (fact("Status", &status(view)))
                @for source in view.sources {
                    (fact(&named("When", source, view), &when(source)))
                }
                (fact("Load", load(view)))
                @if view.result.method.warm_up_s > 0.0 {
                    (fact("Warm-up", &warm_up(view.result.method.warm_up_s)))
                }
                (fact(
                    "Connections",
                    if suite.keep_alive { "kept for many requests" } else { "a new one for every request" },
                ))
                (fact("Protocol", &words::line(&suite.http_version, 40)))
                @if let Some(offered) = &suite.tls {
                    (fact("TLS", &tls(offered)))
                }
                @for source in view.sources {
                    (fact(&named("Where", source, view), &place(&source.machine)))
                }
                (fact("Machines", machines(view)))
                @for source in view.sources {
                    (fact(&named("Network cards", source, view), &network_cards(&source.machine)))
                    (fact(&named("Disks", source, view), &disks(&source.machine)))
                    (fact(&named("Switch", source, view), &switch(&source.disclosure, &source.machine)))
                    (fact(&named("Sponsor", source, view), &sponsor(&source.disclosure)))
                }
                @for source in view.sources {
                    (fact(
                        &named("Validity", source, view),
                        &format!("{}, by the run rules", source.assessment.class.name()),
                    ))
                }
            }
            (notes(view))
            (warnings(view))
        }
    }
}

/// The notes of the person who measured; empty if there are none.
fn notes(view: &View) -> Markup {
    html! {
        @for source in view.sources {
            @if !source.disclosure.notes.is_empty() {
                h3 { (named("Notes", source, view)) }
                @for note in &source.disclosure.notes { p { (words::line(note, words::SENTENCE_LIMIT)) } }
            }
        }
    }
}

/// The versions and ciphers that were offered in TLS handshakes.
pub(super) fn tls(offered: &TlsRecord) -> String {
    let version = match &offered.version {
        Some(version) => format!("{} alone", words::line(version, 20)),
        None => "1.2 or 1.3, as the system chose".to_owned(),
    };
    let resumed = match offered.resumption_share {
        share if share <= 0.0 => "full handshakes".to_owned(),
        share if share >= 1.0 => "sessions resumed wherever possible".to_owned(),
        share => format!("{} % of the handshakes resumed a session", number::grouped(share * 100.0, 0)),
    };
    format!("{version}; {resumed}")
}

/// The warm-up before the first mix.
fn warm_up(seconds: f64) -> String {
    format!(
        "each system was loaded for {} s before its first mix, uncounted",
        number::grouped(seconds, usize::from(seconds.fract() != 0.0))
    )
}

fn warnings(view: &View) -> Markup {
    let warnings: Vec<String> = touchstone_lab::warnings::each_once(&view.result.warnings)
        .iter()
        .map(|warning| words::line(warning, words::SENTENCE_LIMIT))
        .collect();
    html! {
        @if warnings.is_empty() {
            p class="faint" { "The run gave no warnings." }
        } @else {
            div class="warnings" {
                h3 { (warnings.len()) @if warnings.len() == 1 { " warning" } @else { " warnings" } }
                ul { @for warning in &warnings { li { (warning) } } }
            }
        }
    }
}

fn fact(term: &str, words: &str) -> Markup {
    html! { div { dt { (term) } dd { (words) } } }
}

/// A term, with the run's name where there are several runs.
fn named(term: &str, source: &Source, view: &View) -> String {
    if view.sources.len() > 1 {
        format!("{term} ({})", words::line(&source.label, 80))
    } else {
        term.to_owned()
    }
}

fn status(view: &View) -> String {
    let incomplete = view.sources.iter().any(|source| source.status != RunStatus::Complete);
    let measured: usize = view.systems.iter().map(|system| system.mixes.len()).sum();
    let mixes = if measured == 1 { "mix" } else { "mixes" };
    if incomplete {
        format!("incomplete: {measured} {mixes} measured before it ended")
    } else {
        format!("complete: {measured} {mixes} measured")
    }
}

/// What makes a client send its next request.
fn load(view: &View) -> &'static str {
    let mixes = view.systems.iter().flat_map(|system| system.runs.iter().flatten());
    if view.clients.is_open() {
        "open load: the time of each request is fixed before the run, however the server answers"
    } else if view.result.suite.classes.iter().any(|class| class.session_think_s > 0.0) {
        "closed loop of sessions: each virtual client is a visitor who sends one request after the other, \
         with think times between"
    } else if mixes.into_iter().any(|mix| mix.think_time_s > 0.0) {
        "closed loop with think times: each virtual client sends its next request some time after the last \
         is answered"
    } else {
        "closed loop: each virtual client sends its next request when the last is answered"
    }
}

/// Whether load and servers had separate machines.
fn machines(view: &View) -> &'static str {
    if view.sources.iter().any(|source| source.machine.same_host) {
        "load and server shared one machine, so each took processor time from the other"
    } else {
        "load and server ran on separate machines"
    }
}

fn when(source: &Source) -> String {
    let (started, finished) = (moment(&source.started_at), moment(&source.finished_at));
    match (started, finished) {
        (Some(started), Some(finished)) => {
            let length = (finished - started).as_seconds_f64();
            let length =
                if length >= 0.0 { format!(", {}", number::seconds(length.round())) } else { String::new() };
            format!("{}{length}", dated(started))
        }
        _ => words::line(&source.started_at, 60),
    }
}

/// A moment as a person writes it.
pub(super) fn date(rfc3339: &str) -> String {
    moment(rfc3339).map_or_else(|| words::line(rfc3339, 60), dated)
}

fn moment(rfc3339: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(rfc3339, &Rfc3339).ok()
}

fn dated(moment: OffsetDateTime) -> String {
    let moment = moment.to_offset(time::UtcOffset::UTC);
    format!(
        "{} {} {}, {:02}:{:02}:{:02} UTC",
        moment.day(),
        moment.month(),
        moment.year(),
        moment.hour(),
        moment.minute(),
        moment.second()
    )
}

fn place(machine: &MachineFacts) -> String {
    let mut parts = vec![
        words::line(&machine.host, 80),
        words::line(&machine.os, 80),
        format!("kernel {}", words::line(&machine.kernel, 80)),
        format!("{} × {}", machine.cpus, words::line(&machine.cpu_model, 80)),
        format!("{} of memory", number::bytes(machine.memory_bytes as f64)),
    ];
    if let Some(hypervisor) = &machine.virtualised {
        parts.push(format!("virtual ({})", words::line(hypervisor, 40)));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_is_told() {
        assert_eq!(warm_up(0.4), "each system was loaded for 0.4 s before its first mix, uncounted");
    }

    #[test]
    fn dates_are_written_out() {
        assert_eq!(date("2026-11-20T10:15:30Z"), "20 November 2026, 10:15:30 UTC");
        assert_eq!(date("2026-11-20T12:15:30.123+02:00"), "20 November 2026, 10:15:30 UTC");
        assert_eq!(date("yesterday\u{1b}"), "yesterday␛");
    }
}
