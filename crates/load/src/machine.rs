//! The resources of the machine: processors, the limit of open files, local ports.

use crate::plan::PlanError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::IpAddr;

/// The processors that this process may run on.
pub fn allowed_cores() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return vec![0] };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
}

pub(crate) fn check_cores(cores: &[usize]) -> Result<(), PlanError> {
    let allowed = allowed_cores();
    for (position, core) in cores.iter().enumerate() {
        if !allowed.contains(core) {
            return refuse(format!(
                "processor {core} does not exist or is not allowed for this process; allowed processors: {}",
                list(&allowed)
            ));
        }
        if cores[..position].contains(core) {
            return refuse(format!(
                "processor {core} is listed twice: one engine thread runs on each processor"
            ));
        }
    }
    Ok(())
}

fn list(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// Ensures that `needed` files can be open; raises the soft limit if necessary.
pub(crate) fn provide_open_files(needed: u64) -> Result<(), PlanError> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        return refuse(format!(
            "the clients need {needed} open files, and the limit of this process is {}: use fewer clients or \
             raise the limit (ulimit -n {needed}, or LimitNOFILE in systemd)",
            limit.maximum.unwrap_or_default()
        ));
    }
    let raised = Rlimit { current: limit.maximum.or(Some(needed)), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).map_err(|error| {
        PlanError(format!("the limit of open files could not be raised to {needed}: {error}"))
    })
}

/// The range of the ports of outgoing connections.
pub(crate) fn local_port_range() -> Option<(u16, u16)> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut numbers = text.split_ascii_whitespace();
    let (first, last): (u16, u16) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    (first <= last).then_some((first, last))
}

/// Whether the kernel reuses a port in TIME_WAIT for a connection to this address: 1 means always, 2 means on
/// the loopback interface.
pub(crate) fn reuses_waiting_ports(address: IpAddr) -> bool {
    let setting = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_tw_reuse").unwrap_or_default();
    match setting.trim() {
        "1" => true,
        "2" => address.is_loopback(),
        _ => false,
    }
}

fn refuse<T>(text: String) -> Result<T, PlanError> {
    Err(PlanError(text))
}
