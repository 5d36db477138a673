//! The facts about the measuring program and the machine that a reader needs to assess and repeat a run.
//!
//! A fact that cannot be read is left empty; this does not stop a run.

use crate::hardware;
use crate::result::{MachineFacts, ToolFacts};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;
use touchstone_http::hexadecimal;

/// The kernel settings that decide how many connections a server can be given, and how fast.
const SYSCTLS: [&str; 13] = [
    "fs.file-max",
    "fs.nr_open",
    "kernel.sched_autogroup_enabled",
    "net.core.busy_poll",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
];

/// The facts of this machine. The caller states whether load and server share it.
pub fn facts(same_host: bool) -> MachineFacts {
    let cpu_info = read("/proc/cpuinfo");
    let hardware = hardware::of_this_machine();
    MachineFacts {
        host: read("/proc/sys/kernel/hostname"),
        os: os_name(&read("/etc/os-release")),
        kernel: read("/proc/sys/kernel/osrelease"),
        cpu_model: cpu_model(&cpu_info),
        cpus: read("/proc/stat").lines().filter(|line| is_cpu_line(line)).count() as u32,
        memory_bytes: memory_bytes(&read("/proc/meminfo")),
        virtualised: hypervisor(&cpu_info),
        sysctls: SYSCTLS.iter().filter_map(|name| sysctl(name)).collect(),
        open_files_limit: open_files_limit(),
        same_host,
        product: hardware.product,
        cpu_caches: hardware.cpu_caches,
        network_cards: hardware.network_cards,
        disks: hardware.disks,
    }
}

/// The facts of this program.
pub fn tool() -> ToolFacts {
    let executable = std::env::current_exe().ok().and_then(|path| fs::read(path).ok());
    ToolFacts {
        name: "touchstone".to_string(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        binary_sha256: executable.map(|bytes| sha256(&bytes)),
    }
}

/// The limit of open files of this process.
pub fn open_files_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// SHA-256 in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal::encode(&Sha256::digest(bytes))
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_string()
}

fn sysctl(name: &str) -> Option<(String, String)> {
    let value = read(format!("/proc/sys/{}", name.replace('.', "/")));
    (!value.is_empty()).then(|| (name.to_string(), value.split_whitespace().collect::<Vec<_>>().join(" ")))
}

fn os_name(os_release: &str) -> String {
    let value = |key: &str| {
        let line = os_release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim_matches('"').to_string())
    };
    value("PRETTY_NAME").or_else(|| value("NAME")).unwrap_or_default()
}

fn is_cpu_line(line: &str) -> bool {
    line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The value of the first line of `/proc/cpuinfo` or `/proc/meminfo` that bears the name.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

fn cpu_model(cpu_info: &str) -> String {
    ["model name", "Model", "Hardware", "cpu model"]
        .into_iter()
        .find_map(|name| field(cpu_info, name))
        .map(str::to_string)
        // 64-bit Arm shows no model name in /proc/cpuinfo.
        .unwrap_or_else(|| std::env::consts::ARCH.to_string())
}

fn memory_bytes(meminfo: &str) -> u64 {
    let kibibytes = field(meminfo, "MemTotal").and_then(|value| value.split_whitespace().next());
    kibibytes.and_then(|value| value.parse::<u64>().ok()).map_or(0, |kibibytes| kibibytes * 1024)
}

/// The evidence that this is a virtual machine, if there is any.
fn hypervisor(cpu_info: &str) -> Option<String> {
    let flagged =
        field(cpu_info, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let named = [read("/sys/hypervisor/type"), dmi("sys_vendor", "product_name")];
    let name = named.into_iter().find(|name| !name.is_empty());
    flagged.then(|| name.unwrap_or_else(|| "a hypervisor that does not name itself".to_string()))
}

fn dmi(vendor: &str, product: &str) -> String {
    let dmi_text = |name: &str| read(format!("/sys/class/dmi/id/{name}"));
    format!("{} {}", dmi_text(vendor), dmi_text(product)).trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_this_machine_are_there() {
        let facts = facts(true);
        assert!(facts.cpus >= 1 && facts.memory_bytes > 1 << 20 && facts.open_files_limit > 0);
        assert!(!facts.kernel.is_empty() && !facts.cpu_model.is_empty() && facts.same_host);
        assert!(facts.sysctls.iter().any(|(name, value)| name == "net.core.somaxconn" && !value.is_empty()));
    }

    #[test]
    fn files_of_the_system_are_read_by_name() {
        assert_eq!(os_name("NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"), "Debian GNU/Linux 12");
        assert_eq!(os_name("NAME=Alpine\n"), "Alpine");
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: A Fast One\nflags\t: fpu\n"), "A Fast One");
        assert_eq!(memory_bytes("MemFree: 1 kB\nMemTotal:       2048 kB\n"), 2_097_152);
        assert_eq!(hypervisor("flags : fpu vme\n"), None);
        assert!(hypervisor("flags : fpu hypervisor\n").is_some());
        assert!(is_cpu_line("cpu0 1 2") && !is_cpu_line("cpu  1 2") && !is_cpu_line("intr 3"));
    }

    #[test]
    fn sha256_is_that_of_fips_180() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
