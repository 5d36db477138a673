//! Which processors the system under test gets and which the load engine: always different ones if there are
//! two.
//!
//! The processors that this process may use are split: the first half for the system under test, the rest for
//! the load engine and the monitor. Both can be stated instead.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// The processors of the load engine and of the systems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The processors of the system under test.
    pub system: Vec<usize>,
    /// The processors of the load engine.
    pub load: Vec<usize>,
}

/// The caller's wishes; [`place`] decides what is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacementOptions {
    /// How many processors the system under test gets.
    pub cores: Option<usize>,
    /// Exactly these for the system under test.
    pub system: Option<Vec<usize>>,
    /// Exactly these for the load engine.
    pub load: Option<Vec<usize>>,
}

impl Placement {
    /// A sentence for the reader if the two share a processor.
    pub fn warning(&self) -> Option<String> {
        let shared: Vec<usize> = self.system.iter().copied().filter(|cpu| self.load.contains(cpu)).collect();
        (!shared.is_empty()).then(|| {
            format!(
                "The load engine and the system under test share processor{} {}: each takes time from the \
                 other, so rates are lower and latencies higher than the server's own.",
                if shared.len() == 1 { "" } else { "s" },
                list(&shared)
            )
        })
    }
}

/// Splits the processors that this process may use.
pub fn place(wishes: &PlacementOptions) -> Result<Placement, String> {
    let allowed =
        allowed().map_err(|error| format!("the processors of this process cannot be read: {error}"))?;
    split(&allowed, wishes)
}

/// The processors that the calling thread may use.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Pins the calling thread, and all that it starts from now on, to the processors.
pub fn pin_this_thread(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU) {
        set.set(*cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Reads a list such as `0,2-3`.
pub fn parse_list(text: &str) -> Result<Vec<usize>, String> {
    let number = |word: &str| {
        let cpu = word.trim().parse::<usize>().ok().filter(|cpu| *cpu < CpuSet::MAX_CPU);
        cpu.ok_or_else(|| format!("`{text}` is not a list of processors such as 0,2-3"))
    };
    let mut cpus = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if first > last {
                    return Err(format!("`{part}` runs backwards; write {last}-{first}"));
                }
                cpus.extend(first..=last);
            }
            None => cpus.push(number(part)?),
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// The list as text, for example `0,2,3`.
pub fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

fn split(allowed: &[usize], wishes: &PlacementOptions) -> Result<Placement, String> {
    if allowed.is_empty() {
        return Err("this process may use no processor".to_string());
    }
    for (option, stated) in [("--sut-cores", &wishes.system), ("--load-cores", &wishes.load)] {
        if let Some(cpus) = stated {
            check(option, cpus, allowed)?;
        }
    }
    let system = match (&wishes.system, wishes.cores) {
        (Some(_), Some(_)) => return Err("--cores and --sut-cores exclude each other".to_string()),
        (Some(stated), None) => stated.clone(),
        (None, wished) => choose_system(allowed, wishes.load.as_deref().unwrap_or_default(), wished)?,
    };
    let load = match &wishes.load {
        Some(stated) => stated.clone(),
        None => {
            let rest: Vec<usize> = allowed.iter().copied().filter(|cpu| !system.contains(cpu)).collect();
            if rest.is_empty() { allowed.to_vec() } else { rest }
        }
    };
    Ok(Placement { system, load })
}

/// The system's processors: the first of those that the load engine did not request, half of all unless
/// stated.
fn choose_system(allowed: &[usize], load: &[usize], wished: Option<usize>) -> Result<Vec<usize>, String> {
    if wished == Some(0) || wished.is_some_and(|count| count > allowed.len()) {
        return Err(format!("--cores must be from 1 to {}, the processors of this process", allowed.len()));
    }
    let free: Vec<usize> = allowed.iter().copied().filter(|cpu| !load.contains(cpu)).collect();
    let count = match wished {
        Some(count) => count,
        None if load.is_empty() => (allowed.len() / 2).max(1),
        None => free.len().max(1),
    };
    let from = if free.len() >= count { &free } else { allowed };
    Ok(from[..count].to_vec())
}

fn check(option: &str, cpus: &[usize], allowed: &[usize]) -> Result<(), String> {
    if cpus.is_empty() {
        return Err(format!("{option} names no processor"));
    }
    match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(cpu) => {
            Err(format!("{option}: processor {cpu} is not among those of this process ({})", list(allowed)))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_half_serves_and_the_rest_loads() {
        let cases: [(&[usize], &[usize], &[usize]); 4] = [
            (&[0, 1], &[0], &[1]),
            (&[0, 1, 2], &[0], &[1, 2]),
            (&[2, 3, 6, 7], &[2, 3], &[6, 7]),
            (&[5], &[5], &[5]),
        ];
        for (allowed, system, load) in cases {
            let placement = split(allowed, &PlacementOptions::default()).unwrap();
            assert_eq!((placement.system.as_slice(), placement.load.as_slice()), (system, load));
            assert_eq!(placement.warning().is_some(), allowed.len() == 1);
        }
    }

    #[test]
    fn wishes_are_kept_or_refused() {
        let wish = |cores, system: Option<&[usize]>, load: Option<&[usize]>| {
            let wishes = PlacementOptions { cores, system: system.map(Vec::from), load: load.map(Vec::from) };
            split(&[0, 1, 2, 3], &wishes)
        };
        let expect = |placement: Result<Placement, String>, system: &[usize], load: &[usize]| {
            assert_eq!(placement, Ok(Placement { system: system.to_vec(), load: load.to_vec() }));
        };
        expect(wish(Some(1), None, None), &[0], &[1, 2, 3]);
        expect(wish(Some(4), None, None), &[0, 1, 2, 3], &[0, 1, 2, 3]);
        expect(wish(None, Some(&[3]), None), &[3], &[0, 1, 2]);
        expect(wish(None, None, Some(&[0])), &[1, 2, 3], &[0]);
        expect(wish(Some(1), None, Some(&[0])), &[1], &[0]);
        expect(wish(None, Some(&[1]), Some(&[1])), &[1], &[1]);
        assert!(wish(Some(0), None, None).unwrap_err().contains("from 1 to 4"));
        assert!(wish(Some(1), Some(&[1]), None).unwrap_err().contains("exclude each other"));
        assert!(wish(None, Some(&[9]), None).unwrap_err().contains("--sut-cores: processor 9 is not among"));
        assert!(wish(None, None, Some(&[])).unwrap_err().contains("--load-cores names no processor"));
    }

    #[test]
    fn lists_are_read() {
        assert_eq!(parse_list("0,2-4, 3"), Ok(vec![0, 2, 3, 4]));
        for bad in ["", "a", "1-", "3-1", "-1", "99999999"] {
            assert!(parse_list(bad).is_err(), "{bad}");
        }
    }
}
