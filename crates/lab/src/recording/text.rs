//! The shapes of text that /proc has, read without trust: missing and invalid values are absent.

/// The value of the line `name value` (vmstat, cpu.stat) or `name: value kB` (meminfo, status).
pub(super) fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        let rest = rest.strip_prefix(':').unwrap_or(rest);
        // The name must end here: `pgfault` is not `pgfault_extra`.
        rest.starts_with([' ', '\t']).then(|| rest.split_whitespace().next()?.parse().ok()).flatten()
    })
}

/// The value of a column of the two lines that /proc/net/snmp and netstat have for each group: names, then
/// values.
pub(super) fn paired_value(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group)?.strip_prefix(':'));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|it| it == name)?;
    // MaxConn is -1: what is not a count is absent.
    values.split_whitespace().nth(at)?.parse().ok()
}

/// The value after a word on a line of words and values: `TCP: inuse 2 orphan 0 tw 0`.
pub(super) fn worded_value(text: &str, group: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(group)?.strip_prefix(':'))?;
    let mut words = line.split_whitespace();
    words.find(|word| *word == name)?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_found_by_their_whole_names() {
        let text = "pgfault_extra 1\npgfault 7\nMemFree:   12 kB\nbad x\n";
        assert_eq!(value(text, "pgfault"), Some(7));
        assert_eq!(value(text, "MemFree"), Some(12));
        assert_eq!((value(text, "bad"), value(text, "none")), (None, None));
        let snmp = "Ip: A\nIp: 1\nTcp: MaxConn RetransSegs\nTcp: -1 3\nTcpExt: X\nTcpExt: 9\n";
        assert_eq!(paired_value(snmp, "Tcp", "RetransSegs"), Some(3));
        assert_eq!(paired_value(snmp, "TcpExt", "X"), Some(9));
        assert_eq!((paired_value(snmp, "Tcp", "MaxConn"), paired_value(snmp, "Udp", "X")), (None, None));
        assert_eq!(worded_value("TCP: inuse 2 orphan 0 tw 5 alloc 2\n", "TCP", "tw"), Some(5));
        assert_eq!(worded_value("TCP: inuse\n", "TCP", "inuse"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(Tcp: ?|a |\\n|[0-9]{1,30}|\\PC){0,20}") {
            let _ = (value(&text, "a"), paired_value(&text, "Tcp", "a"), worded_value(&text, "Tcp", "a"));
        }
    }
}
