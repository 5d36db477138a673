//! Speedup over processors: the same system on one and on several, as in the reports' tables of one and two
//! processors.
//!
//! A system that is measured on several numbers of processors takes part once for each, named `nginx@1p` and
//! `nginx@2p`.

use crate::figures::{count, percent, rate, significant};
use crate::loads;
use crate::result::{PeakResult, ResultFile, SpeedupRow, SystemResult};

/// The name of a system on this number of processors.
pub fn name_on(name: &str, processors: usize) -> String {
    format!("{name}@{processors}p")
}

/// The system's own name, and the number of processors that its name states.
fn own_name(name: &str) -> Option<(&str, u64)> {
    let (own, suffix) = name.rsplit_once('@')?;
    Some((own, suffix.strip_suffix('p')?.parse().ok()?))
}

/// Every system on more processors compared with itself on the fewest, for each interface that was measured
/// with both.
pub fn rows(result: &ResultFile) -> Vec<SpeedupRow> {
    let sized: Vec<(&str, u64, &SystemResult)> = result
        .systems
        .iter()
        .filter_map(|system| own_name(&system.name).map(|(own, processors)| (own, processors, system)))
        .collect();
    let mut rows = Vec::new();
    for (own, processors, system) in &sized {
        let fewest = sized.iter().filter(|(other, ..)| other == own).min_by_key(|(_, fewest, _)| *fewest);
        let Some((_, base_processors, base)) = fewest.filter(|(_, fewest, _)| fewest < processors) else {
            continue;
        };
        let row = |peak: &PeakResult| {
            let base_peak = base.peaks.iter().find(|other| other.interface == peak.interface)?.peak;
            let speedup = peak.peak.requests_per_second.median / base_peak.requests_per_second.median;
            speedup.is_finite().then(|| SpeedupRow {
                base: base.name.clone(),
                system: system.name.clone(),
                interface: peak.interface.clone(),
                base_processors: *base_processors,
                processors: *processors,
                base_peak,
                peak: peak.peak,
                speedup,
                efficiency: speedup * *base_processors as f64 / *processors as f64,
            })
        };
        rows.extend(system.peaks.iter().filter_map(row));
    }
    rows
}

/// The speedups in words, a sentence each.
pub fn sentences(result: &ResultFile) -> Vec<String> {
    let sentence = |row: &SpeedupRow| {
        let title =
            result.systems.iter().find(|system| system.name == row.base).map_or("", |base| &base.title);
        let interface = match row.interface.as_str() {
            "" => String::new(),
            name => format!(", {name}"),
        };
        // What processors share costs processor time, also where the load engine limits the rate.
        let cost = match (
            cpu_us_at(result, &row.base, &row.interface, row.base_peak.clients),
            cpu_us_at(result, &row.system, &row.interface, row.peak.clients),
        ) {
            (Some(base_us), Some(us)) => format!(
                "; a request then took {} us of processor time instead of {} us",
                significant(us),
                significant(base_us)
            ),
            _ => String::new(),
        };
        format!(
            "{title}{interface}: on {} processors {} times as many requests/s ({} instead of {}), {} of what \
             they could bring{cost}.",
            count(row.processors),
            significant(row.speedup),
            rate(row.peak.requests_per_second.median),
            rate(row.base_peak.requests_per_second.median),
            percent(row.efficiency),
        )
    };
    result.speedups.iter().map(sentence).collect()
}

/// The processor time of a request at a load, microseconds, if the system was watched.
fn cpu_us_at(result: &ResultFile, system: &str, interface: &str, clients: u64) -> Option<f64> {
    let system = result.systems.iter().find(|own| own.name == system)?;
    let mut runs = loads::representatives(&system.mixes).into_iter();
    let mix = runs.find(|mix| mix.interface == interface && mix.clients == clients)?;
    Some(mix.server.as_ref()?.cpu_us_per_request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_on_two_processors_is_held_against_itself_on_one() {
        let mut result = crate::sample::result();
        result.systems.truncate(2);
        result.systems[1] = result.systems[0].clone();
        for (system, processors) in result.systems.iter_mut().zip([1, 2]) {
            system.name = name_on("nginx", processors);
            system.title = format!("nginx, {processors} p");
        }
        for mix in &mut result.systems[1].mixes {
            mix.requests_per_second *= 1.8;
            if let Some(server) = &mut mix.server {
                server.cpu_us_per_request = 50.0;
            }
        }
        crate::derived::make(&mut result);
        assert_eq!(result.speedups.len(), 1);
        let row = &result.speedups[0];
        assert_eq!((row.base.as_str(), row.system.as_str(), row.processors), ("nginx@1p", "nginx@2p", 2));
        assert!((row.speedup - 1.8).abs() < 1e-9 && (row.efficiency - 0.9).abs() < 1e-9);
        let sentence = sentences(&result).remove(0);
        assert!(sentence.contains("nginx, 1 p: on 2 processors 1.80 times as many"), "{sentence}");
        let base_us = cpu_us_at(&result, "nginx@1p", "", row.base_peak.clients).map(significant).unwrap();
        let cost = format!("; a request then took 50.0 us of processor time instead of {base_us} us.");
        assert!(sentence.ends_with(&cost), "{sentence}");
        // A system that was not watched has no processor time.
        result.systems[1].mixes.iter_mut().for_each(|mix| mix.server = None);
        assert!(sentences(&result)[0].ends_with("of what they could bring."));
        // A system that was measured on one number only has no speedup, nor has another system.
        result.systems[1].name = name_on("h2o", 2);
        crate::derived::make(&mut result);
        assert!(result.speedups.is_empty());
        assert_eq!(
            (own_name("http://a@b"), own_name("x@2"), own_name("x@y@2p")),
            (None, None, Some(("x@y", 2)))
        );
    }
}
