//! The effect of an accelerator on its origin, in the style of report 004: how many times faster the same
//! origin is with it than without it in the same run (Table 5), each at its own peak, and the remaining work
//! of the origin.

use crate::figures::{percent, significant};
use crate::peaks::{peak, rate_is_the_servers};
use crate::reference::{self, PrintedNumber};
use crate::result::{MixResult, OriginResult, OriginUse, ResultFile, SystemResult};
use crate::series::{self, Series};

/// An accelerated system beside its origin, measured alone.
#[derive(Debug, Clone)]
pub struct Acceleration<'a> {
    /// The accelerator with the origin behind it.
    pub accelerated: &'a SystemResult,
    /// What is known of the origin behind it.
    pub origin: &'a OriginResult,
    /// The same origin alone; absent where the run did not measure it.
    pub alone: Option<&'a SystemResult>,
}

/// How many times faster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factors {
    /// By requests a second.
    pub rate: f64,
    /// By bytes a second.
    pub throughput: f64,
}

/// The factors that report 004 prints for a kind of load: by rate and by throughput, for each of its
/// accelerators.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportedFactors {
    /// The accelerator's machine.
    pub machine: &'static str,
    /// By requests a second, as printed.
    pub rate: PrintedNumber,
    /// By bits a second, as printed.
    pub throughput: PrintedNumber,
}

/// Every accelerated system of a result.
pub fn from_result(result: &ResultFile) -> Vec<Acceleration<'_>> {
    let accelerations = result.systems.iter().filter_map(|accelerated| {
        let origin = accelerated.origin.as_ref()?;
        let alone =
            result.systems.iter().find(|system| system.name == origin.name && system.origin.is_none());
        Some(Acceleration { accelerated, origin, alone })
    });
    accelerations.collect()
}

/// The peaks of an accelerated system and of its origin alone, with one interface.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// The interface's name for people; absent where the suite compares none.
    pub interface: Option<&'a str>,
    /// Accelerated.
    pub accelerated: &'a MixResult,
    /// Alone.
    pub alone: &'a MixResult,
}

impl Pair<'_> {
    /// How many times faster.
    pub fn factors(&self) -> Option<Factors> {
        let ratio = |dividend: f64, divisor: f64| Some(dividend / divisor).filter(|ratio| ratio.is_finite());
        Some(Factors {
            rate: ratio(self.accelerated.requests_per_second, self.alone.requests_per_second)?,
            throughput: ratio(self.accelerated.bytes_per_second, self.alone.bytes_per_second)?,
        })
    }
}

impl<'a> Acceleration<'a> {
    /// The peaks: accelerated, and alone.
    pub fn peaks(&self) -> Option<(&'a MixResult, &'a MixResult)> {
        Some((peak(self.accelerated)?, peak(self.alone?)?))
    }

    /// The factors between the peaks.
    pub fn factors(&self) -> Option<Factors> {
        let (accelerated, alone) = self.peaks()?;
        Pair { interface: None, accelerated, alone }.factors()
    }

    /// The peaks of each interface that both were measured with; one pair without an interface where the
    /// suite compares none.
    pub fn pairs(&self, result: &'a ResultFile) -> Vec<Pair<'a>> {
        let Some(alone) = self.alone else { return Vec::new() };
        let alone = series::of_system(result, alone);
        let pair = |fast: Series<'a>| {
            let name = |series: &Series<'_>| series.interface.map(|interface| interface.name.clone());
            let same = alone.iter().find(|alone| name(alone) == name(&fast))?;
            let interface = fast.interface.map(|interface| interface.title.as_str());
            Some(Pair { interface, accelerated: fast.peak()?, alone: same.peak()? })
        };
        series::of_system(result, self.accelerated).into_iter().filter_map(pair).collect()
    }

    /// What the origin used in the mix in which the accelerator reached its peak.
    pub fn origin_at_peak(&self) -> Option<&'a OriginUse> {
        let peak = peak(self.accelerated)?;
        self.origin.mixes.iter().find(|mix| mix.mix == peak.name && mix.run == peak.run)
    }

    /// The share of requests that would be answered from the store: the hits of each class, by its weight.
    /// Absent where the suite compares interfaces, which have no weights.
    pub fn hit_share(&self, result: &ResultFile) -> Option<f64> {
        if result.suite.classes.is_empty() {
            return None;
        }
        let of_class = |class: &crate::result::ClassRecord| {
            let hits = self.origin.hits.iter().find(|hits| hits.class == class.name && hits.asked > 0)?;
            Some(class.weight_percent / 100.0 * hits.hits as f64 / hits.asked as f64)
        };
        result.suite.classes.iter().map(of_class).sum()
    }
}

impl OriginUse {
    /// The origin's processors in use, 1.0 being one.
    pub fn cpus(&self) -> f64 {
        if self.length_s > 0.0 { self.cpu_s / self.length_s } else { 0.0 }
    }
}

/// What report 004 has for the same kind of load: its Table 5.
pub fn reported(suite: &str) -> Vec<ReportedFactors> {
    let kind = match suite {
        "accelerator-static" => "Static Data",
        "accelerator-mixed" => "Mixed Data",
        _ => return Vec::new(),
    };
    let Some(table) = reference::report("bordermanager-1997").and_then(|report| report.table("table-5"))
    else {
        return Vec::new();
    };
    let of_machine = |machine| {
        Some(ReportedFactors {
            machine,
            rate: table.figure(&format!("Requests/Second, {kind}"), machine)?,
            throughput: table.figure(&format!("Throughput (Mbits/s), {kind}"), machine)?,
        })
    };
    ["Compaq", "Intel"].into_iter().filter_map(of_machine).collect()
}

/// Describes the factors, with a sentence for each accelerated system.
pub fn sentences(result: &ResultFile) -> Vec<String> {
    from_result(result).iter().map(|acceleration| sentence(result, acceleration)).collect()
}

fn sentence(result: &ResultFile, acceleration: &Acceleration<'_>) -> String {
    let (title, origin) = (&acceleration.accelerated.title, &acceleration.origin.title);
    let Some(factors) = acceleration.factors() else {
        return format!(
            "{origin} was not measured alone, so there is no factor for {title}; name {} beside it.",
            acceleration.origin.name
        );
    };
    let reports: Vec<String> = reported(&result.suite.name).into_iter().map(|of| of.rate.text).collect();
    let beside = match &reports[..] {
        [] => String::new(),
        texts => format!(" (report 004: {})", texts.join(" and ")),
    };
    let left = acceleration.origin_at_peak().map_or(String::new(), |left| {
        format!("; the origin then used {} of a processor", percent(left.cpus()))
    });
    let servers_own = |(fast, origin): (&MixResult, &MixResult)| {
        let alone = acceleration.alone.is_none_or(|alone| rate_is_the_servers(alone, origin));
        alone && rate_is_the_servers(acceleration.accelerated, fast)
    };
    let but = match acceleration.peaks().is_some_and(|peaks| !servers_own(peaks)) {
        true => "; but the load engine, not the servers, set some of these rates",
        false => "",
    };
    format!(
        "{origin} is {} times as fast accelerated as alone{beside}{left}{but}.",
        significant(factors.rate)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::accelerated;

    #[test]
    fn factors_are_those_between_the_peaks() {
        let result = accelerated();
        let all = from_result(&result);
        let factors = all[0].factors().unwrap();
        assert!((factors.rate - 6.5).abs() < 1e-9 && (factors.throughput - 6.0).abs() < 1e-9);
        assert_eq!(all[0].origin_at_peak().map(OriginUse::cpus), Some(0.1));
        assert!((all[0].hit_share(&result).unwrap() - 0.9).abs() < 1e-9);
        let sentence = &sentences(&result)[0];
        for text in
            ["is 6.50 times as fast accelerated as alone (report 004: 12.4)", "used 10 % of a processor"]
        {
            assert!(sentence.contains(text), "{sentence}");
        }
        assert!(!sentence.contains("load engine"));
        let mut result = accelerated();
        for mix in &mut result.systems[1].mixes {
            mix.generator_saturated = Some("busy".to_string());
            mix.server.as_mut().unwrap().cpu_share = 0.6;
        }
        assert!(
            sentences(&result)[0].ends_with("the load engine, not the servers, set some of these rates.")
        );
    }

    #[test]
    fn without_the_origin_alone_there_is_no_factor() {
        let mut result = accelerated();
        result.systems.remove(0);
        assert_eq!(from_result(&result)[0].factors(), None);
        assert!(sentences(&result)[0].contains("was not measured alone"), "{:?}", sentences(&result));
    }

    #[test]
    fn the_reports_own_factors_are_those_of_table_5() {
        let texts = |suite| {
            reported(suite).into_iter().map(|of| (of.rate.text, of.throughput.text)).collect::<Vec<_>>()
        };
        let pair = |rate: &str, throughput: &str| (rate.to_string(), throughput.to_string());
        assert_eq!(texts("accelerator-static"), [pair("6.0", "5.7"), pair("7.4", "7.0")]);
        assert_eq!(texts("accelerator-mixed"), [pair("12.4", "13.3")]);
        assert!(texts("spice").is_empty());
    }
}
