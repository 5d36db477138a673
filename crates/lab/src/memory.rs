//! Memory variation: the same system with little and with more memory, as in report 002 (Figures 8, 9 and
//! 12).
//!
//! A system that is measured with several sizes of memory takes part once for each, named `nginx@64MiB` and
//! `nginx@256MiB`.

use crate::figures::{percent, rate, significant};
use crate::result::{PeakLoad, PeakResult, ResultFile, SystemResult};
use std::fmt;

/// The least memory that a system can be given, bytes: with less no server starts.
pub const BYTES_MIN: u64 = 4 << 20;
/// The most, bytes: 16 TiB.
pub const BYTES_MAX: u64 = 16 << 40;

/// A size of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(u64);

impl Size {
    /// Reads `64MiB`, `1GiB` or `65536KiB`.
    pub fn parse(text: &str) -> Result<Size, String> {
        let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let in_unit: u64 = match unit.trim() {
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return Err(format!("`{text}` is not a size of memory such as 64MiB or 1GiB")),
        };
        let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(in_unit));
        let within = bytes.filter(|bytes| (BYTES_MIN..=BYTES_MAX).contains(bytes));
        within
            .map(Size)
            .ok_or_else(|| format!("the memory of a system is from 4MiB to 16384GiB, not `{text}`"))
    }

    /// Bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = match self.0 {
            bytes if bytes % (1 << 30) == 0 => (bytes >> 30, "GiB"),
            bytes if bytes % (1 << 20) == 0 => (bytes >> 20, "MiB"),
            bytes => (bytes >> 10, "KiB"),
        };
        write!(f, "{number}{unit}")
    }
}

/// Reads a list of sizes, each once.
pub fn parse_list(texts: &[String]) -> Result<Vec<Size>, String> {
    let sizes = texts.iter().map(|text| Size::parse(text.trim())).collect::<Result<Vec<Size>, String>>()?;
    let mut sorted = sizes.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() < sizes.len() { Err("a size of memory is named twice".to_owned()) } else { Ok(sorted) }
}

/// The name of a system with this memory limit.
pub fn name_with(name: &str, size: Size) -> String {
    format!("{name}@{size}")
}

/// A system's name without that of its memory.
fn own_name(system: &SystemResult) -> Option<(String, Size)> {
    let size = Size(system.memory_bytes?);
    // The number of processors may follow: nginx@64MiB@2p.
    let memory = format!("@{size}");
    system.name.contains(&memory).then(|| (system.name.replacen(&memory, "", 1), size))
}

/// A system with more memory compared with itself with the least.
#[derive(Debug, Clone, PartialEq)]
pub struct Row<'a> {
    /// The system with the least memory.
    pub base: &'a SystemResult,
    /// The system with more.
    pub system: &'a SystemResult,
    /// The interface; empty where the suite has one workload for all.
    pub interface: String,
    /// The least memory.
    pub base_size: Size,
    /// The more memory.
    pub size: Size,
    /// The peak with the least.
    pub base_peak: PeakLoad,
    /// The peak with more.
    pub peak: PeakLoad,
    /// The second rate over the first.
    pub times: f64,
}

/// Every system with more memory compared with itself with the least, for each interface that was measured
/// with both.
pub fn rows(result: &ResultFile) -> Vec<Row<'_>> {
    let sized: Vec<(String, Size, &SystemResult)> = result
        .systems
        .iter()
        .filter_map(|system| own_name(system).map(|(name, size)| (name, size, system)))
        .collect();
    let mut rows = Vec::new();
    for (name, size, system) in &sized {
        let least = sized.iter().filter(|(other, ..)| other == name).min_by_key(|(_, least, _)| *least);
        let Some((_, base_size, base)) = least.filter(|(_, least, _)| least < size) else { continue };
        let row = |peak: &PeakResult| {
            let base_peak = base.peaks.iter().find(|other| other.interface == peak.interface)?.peak;
            let times = peak.peak.requests_per_second.median / base_peak.requests_per_second.median;
            times.is_finite().then(|| Row {
                base,
                system,
                interface: peak.interface.clone(),
                base_size: *base_size,
                size: *size,
                base_peak,
                peak: peak.peak,
                times,
            })
        };
        rows.extend(system.peaks.iter().filter_map(row));
    }
    rows
}

/// The effect of more memory, a sentence each.
pub fn sentences(result: &ResultFile) -> Vec<String> {
    let sentence = |row: &Row<'_>| {
        let interface = match row.interface.as_str() {
            "" => String::new(),
            name => format!(", {name}"),
        };
        let change = row.times - 1.0;
        let difference = if change.abs() < 0.03 {
            format!("less than {} apart", percent(0.03))
        } else {
            format!("{} times as many", significant(row.times))
        };
        format!(
            "{}{interface}: with {} at the peak {} requests/s, with {} {}: {difference}.",
            row.base.title,
            row.size,
            rate(row.peak.requests_per_second.median),
            row.base_size,
            rate(row.base_peak.requests_per_second.median),
        )
    };
    rows(result).iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in
            [("64MiB", 64 << 20), ("1GiB", 1 << 30), ("1024MiB", 1 << 30), ("5000KiB", 5_120_000)]
        {
            let size = Size::parse(text).unwrap();
            assert_eq!(size.bytes(), bytes, "{text}");
            assert_eq!(Size::parse(&size.to_string()), Ok(size));
        }
        for text in
            ["", "64", "64MB", "1MiB", "x", "-1GiB", "99999999999999999999GiB", "99999999GiB", "1.5GiB"]
        {
            assert!(Size::parse(text).is_err(), "{text}");
        }
        let list = |texts: &[&str]| parse_list(&texts.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(list(&["1GiB", "64MiB"]).unwrap().first().map(|size| size.bytes()), Some(64 << 20));
        assert!(list(&["1GiB", "1024MiB"]).unwrap_err().contains("twice"));
    }

    #[test]
    fn a_system_with_more_memory_is_held_against_itself_with_the_least() {
        let mut result = crate::sample::result();
        result.systems.truncate(2);
        result.systems[1] = result.systems[0].clone();
        for (system, text) in result.systems.iter_mut().zip(["64MiB", "1GiB"]) {
            let size = Size::parse(text).unwrap();
            system.name = format!("{}@2p", name_with("nginx", size));
            system.title = format!("nginx, {size}");
            system.memory_bytes = Some(size.bytes());
        }
        result.systems[1].mixes.iter_mut().for_each(|mix| mix.requests_per_second *= 1.5);
        crate::derived::make(&mut result);
        let found = rows(&result);
        assert_eq!((found.len(), found[0].size.to_string()), (1, "1GiB".to_owned()));
        assert!((found[0].times - 1.5).abs() < 1e-9);
        assert_eq!(
            sentences(&result),
            ["nginx, 64MiB: with 1GiB at the peak 90,000 requests/s, with 64MiB 60,000: 1.50 times as many."]
        );
        result.systems[1].mixes.iter_mut().for_each(|mix| mix.requests_per_second /= 1.5);
        crate::derived::make(&mut result);
        assert!(sentences(&result)[0].ends_with("less than 3.0 % apart."), "{:?}", sentences(&result));
        result.systems[1].name = "h2o@1GiB".to_owned();
        assert!(rows(&result).is_empty());
    }
}
