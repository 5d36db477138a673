//! The network's counters: links, TCP, sockets, and packets that the kernel dropped or delayed.

use super::text::{paired_value, worded_value};
use serde::{Deserialize, Serialize};
use std::fs;

/// The network at one moment; except for the sockets, counters since boot. What the kernel does not report is
/// absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkReading {
    /// One row a link.
    pub links: Vec<LinkReading>,
    /// Segments sent again.
    pub segments_sent_again: Option<u64>,
    /// All segments sent.
    pub segments_sent: Option<u64>,
    /// Connections that were opened from here.
    pub active_opens: Option<u64>,
    /// Connections accepted here.
    pub passive_opens: Option<u64>,
    /// Attempts that failed.
    pub failed_attempts: Option<u64>,
    /// Established connections that were reset.
    pub resets: Option<u64>,
    /// Connections that found the accept queue full.
    pub listen_overflows: Option<u64>,
    /// Connections dropped by a listening socket, for any reason.
    pub listen_drops: Option<u64>,
    /// Retransmission timeouts.
    pub timeouts: Option<u64>,
    /// SYN cookies sent because the queue of half-open connections was full.
    pub syn_cookies: Option<u64>,
    /// Packets dropped because a processor's queue was full (softnet_stat).
    pub backlog_drops: Option<u64>,
    /// Times a softirq ended with packets left, for lack of time.
    pub softirq_squeezed: Option<u64>,
    /// TCP sockets in use.
    pub sockets: Option<u64>,
    /// Of them, without a process.
    pub orphans: Option<u64>,
    /// Waiting after their end (TIME_WAIT).
    pub time_wait: Option<u64>,
    /// Memory of TCP, pages.
    pub memory_pages: Option<u64>,
}

/// One link at one moment; counters since boot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkReading {
    /// Its name.
    pub name: String,
    /// Its speed, 10^6 bits a second; absent of links that have none (loopback, most virtual ones).
    pub megabits_per_second: Option<u64>,
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets with errors, both ways.
    pub errors: u64,
    /// Packets dropped, both ways.
    pub drops: u64,
}

impl NetworkReading {
    /// Reads the counters of the network namespace of a process; of our own if it has ended or none is given.
    pub fn take(pid: Option<u32>) -> NetworkReading {
        let of_process = pid.map(|pid| format!("/proc/{pid}/net"));
        let place =
            of_process.filter(|place| fs::metadata(place).is_ok()).unwrap_or_else(|| "/proc/net".to_owned());
        let file = |name: &str| fs::read_to_string(format!("{place}/{name}")).unwrap_or_default();
        let mut reading = parse(&file("snmp"), &file("netstat"), &file("sockstat"));
        reading.links = links(&file("dev"));
        for link in &mut reading.links {
            let speed = fs::read_to_string(format!("/sys/class/net/{}/speed", link.name)).unwrap_or_default();
            // -1 where the link has none.
            link.megabits_per_second = speed.trim().parse().ok().filter(|speed| *speed > 0);
        }
        (reading.backlog_drops, reading.softirq_squeezed) = softnet(&file("softnet_stat"));
        reading
    }
}

fn parse(snmp: &str, netstat: &str, sockstat: &str) -> NetworkReading {
    let tcp = |name| paired_value(snmp, "Tcp", name);
    let extended = |name| paired_value(netstat, "TcpExt", name);
    let socket = |name| worded_value(sockstat, "TCP", name);
    NetworkReading {
        segments_sent_again: tcp("RetransSegs"),
        segments_sent: tcp("OutSegs"),
        active_opens: tcp("ActiveOpens"),
        passive_opens: tcp("PassiveOpens"),
        failed_attempts: tcp("AttemptFails"),
        resets: tcp("EstabResets"),
        listen_overflows: extended("ListenOverflows"),
        listen_drops: extended("ListenDrops"),
        timeouts: extended("TCPTimeouts"),
        syn_cookies: extended("SyncookiesSent"),
        sockets: socket("inuse"),
        orphans: socket("orphan"),
        time_wait: socket("tw"),
        memory_pages: socket("mem"),
        ..NetworkReading::default()
    }
}

/// The lines `name: bytes packets errs drop fifo frame compressed multicast bytes packets errs drop ...`.
fn links(dev: &str) -> Vec<LinkReading> {
    let line = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let columns: Vec<u64> = rest.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let column = |index: usize| columns.get(index).copied().unwrap_or(0);
        (columns.len() >= 12).then(|| LinkReading {
            name: name.trim().to_owned(),
            megabits_per_second: None,
            received_bytes: column(0),
            received_packets: column(1),
            sent_bytes: column(8),
            sent_packets: column(9),
            errors: column(2).saturating_add(column(10)),
            drops: column(3).saturating_add(column(11)),
        })
    };
    dev.lines().filter_map(line).collect()
}

/// Dropped and squeezed of all processors: the second and third column, hexadecimal.
fn softnet(text: &str) -> (Option<u64>, Option<u64>) {
    let column = |line: &str, index: usize| u64::from_str_radix(line.split_whitespace().nth(index)?, 16).ok();
    let sum = |index: usize| text.lines().map(|line| column(line, index)).sum::<Option<u64>>();
    if text.is_empty() { (None, None) } else { (sum(1), sum(2)) }
}

/// The range of local ports, as a number of them.
pub fn local_ports() -> Option<u64> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ends = text.split_whitespace().map_while(|word| word.parse::<u64>().ok());
    let (first, last) = (ends.next()?, ends.next()?);
    (last >= first).then(|| last - first + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_files_of_proc_net_are_read() {
        let snmp = "Tcp: ActiveOpens PassiveOpens OutSegs RetransSegs\nTcp: 5 6 100 3\n";
        let netstat = "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPTimeouts\nTcpExt: 1 20 21 4\n";
        let found = parse(snmp, netstat, "sockets: used 9\nTCP: inuse 2 orphan 1 tw 7 alloc 2 mem 57\n");
        assert_eq!(
            (found.listen_overflows, found.segments_sent_again, found.time_wait),
            (Some(20), Some(3), Some(7))
        );
        assert_eq!((found.resets, found.passive_opens, found.memory_pages), (None, Some(6), Some(57)));
        let dev = "Inter-| Receive |\n face |bytes\n  lo: 10 1 2 3 0 0 0 0 20 4 5 6 0 0 0 0\neth0:1 2\n";
        let expected = LinkReading {
            name: "lo".into(),
            megabits_per_second: None,
            received_bytes: 10,
            received_packets: 1,
            sent_bytes: 20,
            sent_packets: 4,
            errors: 7,
            drops: 9,
        };
        assert_eq!(links(dev), [expected]);
        assert_eq!(softnet("0000ff 00000002 00000010\n000001 00000001 00000001 0\n"), (Some(3), Some(17)));
        assert_eq!(softnet(""), (None, None));
    }

    #[test]
    fn this_machine_can_be_read() {
        let reading = NetworkReading::take(Some(std::process::id()));
        assert!(
            reading.segments_sent.is_some()
                && reading.listen_overflows.is_some()
                && !reading.links.is_empty()
        );
        assert_eq!(NetworkReading::take(Some(u32::MAX)).links.len(), reading.links.len());
        assert!(local_ports().unwrap() > 0);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(Tcp: |TCP: |lo:|[0-9a-f]{1,18}| |\\n|\\PC){0,30}") {
            let _ = (parse(&text, &text, &text), links(&text), softnet(&text));
        }
    }
}
