//! Groups the mixes of a result: those of one system, and of one interface if several were measured
//! separately. If mixes were run several times, the run with the median rate represents each.

use crate::loads;
use crate::peaks::peak_of;
use crate::result::{InterfaceRecord, MixResult, ResultFile, SystemResult};

/// The mixes of one system with one interface.
#[derive(Debug, Clone)]
pub struct Series<'a> {
    /// The system.
    pub system: &'a SystemResult,
    /// The interface, where the suite compares several.
    pub interface: Option<&'a InterfaceRecord>,
    /// Its name for people: the system's, and the interface's where there are several.
    pub title: String,
    /// Its mixes, in the order of the result: of each the run with the median rate.
    pub mixes: Vec<&'a MixResult>,
    /// Every run of its mixes, in the order of the result.
    pub runs: Vec<&'a MixResult>,
}

impl<'a> Series<'a> {
    /// The mix with the highest rate.
    pub fn peak(&self) -> Option<&'a MixResult> {
        peak_of(self.mixes.iter().copied())
    }
}

/// Every series of a result: the systems in their order, and for each its interfaces in the order of the
/// suite. A system without measurements has one series without mixes.
pub fn from_result(result: &ResultFile) -> Vec<Series<'_>> {
    result.systems.iter().flat_map(|system| of_system(result, system)).collect()
}

/// The series of one system.
pub fn of_system<'a>(result: &'a ResultFile, system: &'a SystemResult) -> Vec<Series<'a>> {
    let mut names: Vec<&str> =
        result.suite.interfaces.iter().map(|interface| interface.name.as_str()).collect();
    // A damaged file can name an interface that its suite does not have.
    for mix in &system.mixes {
        if !names.contains(&mix.interface.as_str()) {
            names.push(&mix.interface);
        }
    }
    let standing = loads::representatives(&system.mixes);
    let mut series: Vec<Series<'_>> = Vec::new();
    for name in names {
        let of_interface = |mix: &&MixResult| mix.interface == name;
        let runs: Vec<&MixResult> = system.mixes.iter().filter(of_interface).collect();
        if !runs.is_empty() {
            let mixes = standing.iter().copied().filter(of_interface).collect();
            let interface = interface(result, name);
            series.push(Series { system, interface, title: title(result, system, name), mixes, runs });
        }
    }
    if series.is_empty() {
        series.push(Series {
            system,
            interface: None,
            title: system.title.clone(),
            mixes: Vec::new(),
            runs: Vec::new(),
        });
    }
    series
}

/// The interface of a name.
pub fn interface<'a>(result: &'a ResultFile, name: &str) -> Option<&'a InterfaceRecord> {
    result.suite.interfaces.iter().find(|interface| interface.name == name)
}

/// The name for people of an interface of a system.
pub fn title(result: &ResultFile, system: &SystemResult, interface_name: &str) -> String {
    if interface_name.is_empty() {
        return system.title.clone();
    }
    let interface = interface(result, interface_name).map_or(interface_name, |interface| &interface.title);
    format!("{}, {interface}", system.title)
}
