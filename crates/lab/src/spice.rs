//! SPICE (Server-side Programming Interface Call Efficiency): the cost of an interface beyond a static file.
//!
//! The measures are those of Mindcraft's report of 2000 on iPlanet Web Server 4.0: the SPICE request rate and
//! the SPICE latency are those at an interface's peak; the efficiencies are their ratios to a static file's,
//! `SPICE request efficiency = SPICE request rate / static request rate` and `SPICE latency efficiency =
//! static latency / SPICE latency`. The report takes each at its own peak, where the numbers of clients
//! differ, so that latency efficiencies above 100 % are possible. So the efficiencies are also given at equal
//! load. A third form, the processor time of a request, needs no rate.

use crate::figures::{clients, list, percent, significant};
use crate::peaks::rate_is_the_servers;
use crate::ranking::{ComparisonOutcome, Ranking, Server};
use crate::result::{
    Figure, InterfaceRecord, MixResult, ReportFigures, ResultFile, SpiceEfficiency, SpiceProcessorCost,
    SpiceRow, SystemResult,
};
use crate::series::{self, Series};

/// The measures of every interface of every system: by interface in the order of the suite, by system in the
/// result's. Empty where the suite compares no interfaces.
pub fn rows(result: &ResultFile) -> Vec<SpiceRow> {
    let all = series::from_result(result);
    let of_interface = |interface: &InterfaceRecord| {
        all.iter()
            .filter(|series| series.interface.is_some_and(|own| own.name == interface.name))
            .filter_map(|series| row(series, base_of(result, &all, series.system), interface))
            .collect::<Vec<_>>()
    };
    result.suite.interfaces.iter().flat_map(of_interface).collect()
}

/// The mixes that a system's interfaces are compared with: those of the suite's first interface.
fn base_of<'s, 'a>(
    result: &ResultFile,
    all: &'s [Series<'a>],
    system: &SystemResult,
) -> Option<&'s Series<'a>> {
    let first = &result.suite.interfaces.first()?.name;
    let of_base = |series: &&Series<'a>| series.interface.is_some_and(|interface| interface.name == *first);
    all.iter().filter(of_base).find(|series| std::ptr::eq(series.system, system))
}

fn row(series: &Series<'_>, base: Option<&Series<'_>>, interface: &InterfaceRecord) -> Option<SpiceRow> {
    let peak = series.peak()?;
    let is_base = base.is_some_and(|base| base.interface.is_some_and(|own| own.name == interface.name));
    let base = base.filter(|_| !is_base);
    let equal = base.and_then(|base| at_equal_load(series, base));
    Some(SpiceRow {
        system: series.system.name.clone(),
        interface: interface.name.clone(),
        requests_per_second: peak.requests_per_second,
        bytes_per_second: peak.bytes_per_second,
        latency_us: peak.latency.mean_us,
        clients: peak.clients,
        at_own_peak: base.and_then(Series::peak).and_then(|base_peak| efficiency(peak, base_peak)),
        at_equal_load: equal.and_then(|(own, base)| efficiency(own, base)),
        processor_cost: equal.and_then(|(own, base)| processor_cost(own, base)),
    })
}

/// The mixes of both with the most clients that both completed.
fn at_equal_load<'a>(series: &Series<'a>, base: &Series<'a>) -> Option<(&'a MixResult, &'a MixResult)> {
    let whole = |mix: &&&MixResult| mix.complete && mix.requests > 0;
    let pairs = series.mixes.iter().filter(whole).filter_map(|own| {
        let same = base.mixes.iter().filter(whole).find(|base| base.clients == own.clients)?;
        Some((*own, *same))
    });
    pairs.max_by_key(|(own, _)| own.clients)
}

fn efficiency(own: &MixResult, base: &MixResult) -> Option<SpiceEfficiency> {
    let ratio = |dividend: f64, divisor: f64| Some(dividend / divisor).filter(|ratio| ratio.is_finite());
    Some(SpiceEfficiency {
        clients: own.clients,
        static_clients: base.clients,
        request_efficiency: ratio(own.requests_per_second, base.requests_per_second)?,
        throughput_efficiency: ratio(own.bytes_per_second, base.bytes_per_second)?,
        latency_efficiency: ratio(base.latency.mean_us, own.latency.mean_us)?,
    })
}

fn processor_cost(own: &MixResult, base: &MixResult) -> Option<SpiceProcessorCost> {
    let cost = |mix: &MixResult| {
        mix.server.as_ref().map(|server| server.cpu_us_per_request).filter(|us| *us > 0.0 && us.is_finite())
    };
    let (own_us, base_us) = (cost(own)?, cost(base)?);
    Some(SpiceProcessorCost {
        clients: own.clients,
        cpu_us_per_request: own_us,
        static_cpu_us_per_request: base_us,
        efficiency: base_us / own_us,
    })
}

/// The efficiencies computed from a report's figures: of the rate and of the latency.
pub fn report_efficiencies(figures: &ReportFigures) -> (Option<f64>, Option<f64>) {
    let ratio = |dividend: Option<f64>, divisor: Option<f64>| {
        Some(dividend? / divisor?).filter(|ratio| ratio.is_finite())
    };
    (
        ratio(figures.requests_per_second, figures.static_requests_per_second),
        ratio(figures.static_latency_ms, figures.latency_ms),
    )
}

/// The measures in words, a sentence each: which server, which interface, the cost of each.
pub fn sentences(result: &ResultFile) -> Vec<String> {
    let all = series::from_result(result);
    let mut sentences: Vec<String> = ahead_by_interface(result).into_iter().collect();
    let rows = rows(result);
    let rivals = result.systems.iter().filter(|system| !system.is_limit);
    sentences.extend(rivals.filter_map(|system| what_it_costs(result, system, &rows)));
    sentences.extend(lower_bounds(&all));
    sentences
}

/// Which server is ahead with each interface that more than one has; absent if none has.
pub fn ahead_by_interface(result: &ResultFile) -> Option<String> {
    which_server(result, &series::from_result(result))
}

fn which_server(result: &ResultFile, all: &[Series<'_>]) -> Option<String> {
    let parts: Vec<InterfaceLead<'_>> =
        result.suite.interfaces.iter().filter_map(|interface| best_with(result, all, interface)).collect();
    let winner = parts.first()?.winner;
    let fewest = parts.iter().filter_map(|part| part.indicative_runs).min();
    let runs = match fewest {
        Some(1) => " (indicative, from one run)".to_owned(),
        Some(runs) => format!(" (indicative, from {runs} runs)"),
        None => String::new(),
    };
    let is_winner = |part: &InterfaceLead<'_>| {
        part.winner.zip(winner).is_some_and(|(one, other)| std::ptr::eq(one, other))
    };
    if let Some(winner) = winner.filter(|_| parts.iter().all(is_winner)) {
        let texts: Vec<String> = parts.iter().map(|part| format!("{} with {}", part.by, part.with)).collect();
        let is = if fewest.is_some() { "seems to be" } else { "is" };
        return Some(format!("{} {is} ahead{runs}: its peak rate is {}.", winner.title, list(&texts)));
    }
    let texts: Vec<String> = parts
        .iter()
        .map(|part| match part.winner {
            Some(winner) => format!("with {} {} ({})", part.with, winner.title, part.by),
            None => format!("with {} {}", part.with, part.by),
        })
        .collect();
    Some(format!("Which server is ahead depends on the interface{runs}: {}.", list(&texts)))
}

/// Which system is ahead with an interface.
struct InterfaceLead<'a> {
    /// Absent where no difference is shown.
    winner: Option<&'a SystemResult>,
    /// The interface, as a sentence names it.
    with: String,
    /// By how much, and the system that it is ahead of.
    by: String,
    /// From how many runs, where they are too few to show it.
    indicative_runs: Option<usize>,
}

fn best_with<'a>(
    result: &'a ResultFile,
    all: &[Series<'a>],
    interface: &InterfaceRecord,
) -> Option<InterfaceLead<'a>> {
    let has = |series: &&Series<'_>| {
        let is_server = !series.system.is_limit && series.system.origin.is_none();
        is_server && series.interface.is_some_and(|own| own.name == interface.name)
    };
    let server = |series: &Series<'a>| Some(Server { system: series.system, peak: series.peak()? });
    let servers = all.iter().filter(has).filter_map(server).collect();
    let ranking = Ranking::of_servers(result, servers, true);
    let (first, next) = (ranking.servers.first()?.system, ranking.distances.first()?);
    let other = &next.server.system.title;
    let (winner, by) = match next.shown {
        ComparisonOutcome::NoDifference => {
            (None, format!("no difference is shown between {} and {other}", first.title))
        }
        ComparisonOutcome::Ahead | ComparisonOutcome::Indicative => {
            let figure = match ranking.figure {
                Figure::Rate => "",
                Figure::ProcessorTime => " by processor time",
            };
            (Some(first), format!("{} times {other}{figure}", significant(next.times)))
        }
    };
    let indicative_runs = (next.shown == ComparisonOutcome::Indicative).then_some(next.runs);
    Some(InterfaceLead { winner, with: with_article(interface), by, indicative_runs })
}

/// The costs of the cheapest and the most expensive interface of a system.
fn what_it_costs(result: &ResultFile, system: &SystemResult, rows: &[SpiceRow]) -> Option<String> {
    let mut own: Vec<&SpiceRow> = rows
        .iter()
        .filter(|row| {
            row.system == system.name && (row.processor_cost.is_some() || row.at_equal_load.is_some())
        })
        .collect();
    own.sort_by(|left, right| cost_order(left).total_cmp(&cost_order(right)));
    let (first, last) = (own.first()?, own.last()?);
    let title = |row: &SpiceRow| {
        series::interface(result, &row.interface)
            .map_or(row.interface.clone(), |interface| interface.title.clone())
    };
    let base = first.processor_cost.as_ref().map_or(String::new(), |cost| {
        format!(" where a static file costs {} µs", significant(cost.static_cpu_us_per_request))
    });
    let beginning = format!("With {}, {} costs", system.title, title(first));
    if own.len() == 1 {
        return Some(format!("{beginning} {}{base}.", cost_in_words(first)));
    }
    Some(format!(
        "{beginning} least beyond a static file: {}{base}. {} costs most: {}.",
        cost_in_words(first),
        title(last),
        cost_in_words(last)
    ))
}

/// Cheapest first, by processor time or else by rate.
fn cost_order(row: &SpiceRow) -> f64 {
    let by_rate = || row.at_equal_load.as_ref().map_or(f64::MAX, |equal| 1.0 / equal.request_efficiency);
    row.processor_cost.as_ref().map_or_else(by_rate, |cost| 1.0 / cost.efficiency)
}

fn cost_in_words(row: &SpiceRow) -> String {
    let rate = row.at_equal_load.as_ref().map(|equal| {
        format!("{} of the rate with {}", percent(equal.request_efficiency), clients(equal.clients))
    });
    let time = row
        .processor_cost
        .as_ref()
        .map(|cost| format!("{} µs of processor time a request", significant(cost.cpu_us_per_request)));
    match (time, rate) {
        (Some(time), Some(rate)) => format!("{time} ({rate})"),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => "nothing that was measured".to_string(),
    }
}

/// States where rates were not the servers' own.
fn lower_bounds(all: &[Series<'_>]) -> Option<String> {
    let bound =
        |series: &&Series<'_>| series.peak().is_some_and(|peak| !rate_is_the_servers(series.system, peak));
    let bounds: Vec<&Series<'_>> = all.iter().filter(bound).collect();
    let whose = if bounds.len() == all.len() && all.len() > 1 {
        "every series".to_owned()
    } else {
        let titles: Vec<String> = bounds.iter().map(|series| series.title.clone()).collect();
        titles.join("; ")
    };
    (!bounds.is_empty()).then(|| {
        format!(
            "At the peak of {whose} the load engine, not the server, set the rate: these rates are lower \
             bounds, and efficiencies by rate against them look better than they are; those by processor \
             time hold."
        )
    })
}

/// "a static file", "SHTML".
fn with_article(interface: &InterfaceRecord) -> String {
    let lower = interface.title.starts_with(|c: char| c.is_lowercase());
    if lower { format!("a {}", interface.title) } else { interface.title.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_suite_without_interfaces_has_no_measures() {
        assert!(rows(&sample::result()).is_empty());
    }

    #[test]
    fn the_three_forms_follow_from_the_figures() {
        let result = sample::spice();
        let rows = rows(&result);
        assert_eq!(rows, result.spice);
        let row_of = |system: &str, interface: &str| {
            rows.iter().find(|row| row.system == system && row.interface == interface)
        };
        let base = row_of("touchstone", "static").unwrap();
        assert_eq!((base.requests_per_second, base.clients), (60_000.0, 16));
        assert!(base.at_own_peak.is_none() && base.processor_cost.is_none());

        let cgi = row_of("touchstone", "cgi").unwrap();
        // The sample's program is at its peak with four clients, and slower with more.
        assert_eq!((cgi.requests_per_second, cgi.clients, cgi.latency_us), (1_200.0, 4, 4e6 / 1_200.0));
        let own = cgi.at_own_peak.as_ref().unwrap();
        assert_eq!((own.clients, own.static_clients), (4, 16));
        assert_eq!(own.request_efficiency, 1_200.0 / 60_000.0);
        assert_eq!(own.throughput_efficiency, own.request_efficiency);
        assert_eq!(own.latency_efficiency, (16e6 / 60_000.0) / (4e6 / 1_200.0));
        let equal = cgi.at_equal_load.as_ref().unwrap();
        assert_eq!((equal.clients, equal.static_clients), (16, 16));
        assert_eq!(equal.request_efficiency, 1_000.0 / 60_000.0);
        assert!((equal.latency_efficiency - equal.request_efficiency).abs() < 1e-12);
        let cost = cgi.processor_cost.as_ref().unwrap();
        assert_eq!((cost.cpu_us_per_request, cost.static_cpu_us_per_request), (960.0, 16.0));
        assert_eq!(cost.efficiency, 16.0 / 960.0);
        assert!(row_of("nginx", "cgi").is_none());
    }

    #[test]
    fn equal_load_needs_a_mix_that_both_completed() {
        let mut result = sample::spice();
        for mix in &mut result.systems[0].mixes {
            mix.complete = mix.interface != "cgi" || mix.clients == 1;
        }
        let rows = rows(&result);
        let cgi = rows.iter().find(|row| row.interface == "cgi").unwrap();
        assert_eq!(cgi.at_equal_load.as_ref().unwrap().clients, 1);
        for mix in &mut result.systems[0].mixes {
            mix.server = None;
        }
        assert!(
            super::rows(&result).iter().all(|row| row.system != "touchstone" || row.processor_cost.is_none())
        );
    }

    #[test]
    fn sentences_say_which_server_which_interface_and_what_it_costs() {
        let expected = [
            "touchstone 0.1.0 seems to be ahead (indicative, from one run): its peak rate is 1.50 times \
             nginx 1.22.1 with a static file and 2.00 times nginx 1.22.1 with SHTML.",
            "With touchstone 0.1.0, SHTML costs least beyond a static file: 17.5 µs of processor time a \
             request (92 % of the rate with 16 clients) where a static file costs 16.0 µs. CGI costs most: \
             960 µs of processor time a request (1.7 % of the rate with 16 clients).",
            "With nginx 1.22.1, SHTML costs 34.9 µs of processor time a request (69 % of the rate with 16 \
             clients) where a static file costs 24.0 µs.",
        ];
        assert_eq!(sentences(&sample::spice()), expected);
    }

    #[test]
    fn who_is_ahead_may_depend_on_the_interface() {
        let mut result = sample::spice();
        let faster = result.systems[1].mixes.iter_mut().filter(|mix| mix.interface == "shtml");
        faster.for_each(|mix| mix.requests_per_second *= 4.0);
        let expected = "Which server is ahead depends on the interface (indicative, from one run): with a \
                        static file touchstone 0.1.0 (1.50 times nginx 1.22.1) and with SHTML nginx 1.22.1 \
                        (2.00 times touchstone 0.1.0).";
        assert_eq!(sentences(&result)[0], expected);
        let level = result.systems[1].mixes.iter_mut().filter(|mix| mix.interface == "shtml");
        level.for_each(|mix| mix.requests_per_second /= 1.98);
        assert!(
            sentences(&result)[0]
                .ends_with("with SHTML no difference is shown between nginx 1.22.1 and touchstone 0.1.0.")
        );
        result.systems.truncate(1);
        assert!(sentences(&result)[0].starts_with("With touchstone 0.1.0, SHTML costs least"));
    }

    #[test]
    fn rates_that_the_load_engine_set_are_called_so() {
        let mut result = sample::spice();
        let mix = &mut result.systems[0].mixes[2];
        mix.generator_saturated = Some("a thread was busy".into());
        mix.server.as_mut().unwrap().cpu_share = 0.5;
        let last = sentences(&result).pop().unwrap();
        assert!(last.starts_with("At the peak of touchstone 0.1.0, static file the load engine"), "{last}");
    }

    #[test]
    fn the_reports_figures_give_the_efficiencies_that_they_print() {
        // Report 000, Tables 5, 6, 9 and 10 (of efficiencies): four processors. The latency efficiency of CGI
        // on iWS is printed as 17.2 %, which does not follow from its Table 3 (40.2 ms); so it is left out
        // here.
        let printed = [
            ("shtml", "iWS 4.0", 78.0, Some(77.2)),
            ("shtml", "Stronghold", 71.5, Some(52.9)),
            ("cgi", "iWS 4.0", 17.9, None),
            ("cgi", "Stronghold", 15.1, Some(26.6)),
        ];
        let interfaces = crate::suite::Interface::built_in().unwrap();
        for (name, server, rate, latency) in printed {
            let interface = interfaces.iter().find(|interface| interface.name == name).unwrap();
            let figures = interface.reports.iter().find(|figures| figures.server == server).unwrap();
            let (of_rate, of_latency) = report_efficiencies(figures);
            assert!((of_rate.unwrap() * 100.0 - rate).abs() < 0.06, "{name} {server}");
            if let Some(latency) = latency {
                assert!((of_latency.unwrap() * 100.0 - latency).abs() < 0.4, "{name} {server}");
            }
        }
    }
}
