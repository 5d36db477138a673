//! Network cards, disks, switch and sponsor as text, for the report and its other forms. Missing facts are
//! named as such.

use crate::{number, words};
use touchstone_lab::hardware::{Disk, NetworkCard};
use touchstone_lab::result::{Disclosure, MachineFacts};

/// The network cards of a machine, with their known facts.
pub(crate) fn network_cards(machine: &MachineFacts) -> String {
    let one = |card: &NetworkCard| {
        let speed = card
            .megabits_per_second
            .map_or_else(|| "speed unknown".to_owned(), |speed| format!("{} Mbit/s", number::count(speed)));
        let duplex = card.duplex.as_ref().map(|duplex| format!("{} duplex", words::line(duplex, 20)));
        let queues = if card.receive_queues == 1 { "queue" } else { "queues" };
        let parts = [
            card.device.as_ref().map(|device| words::line(device, 40)),
            card.driver.as_ref().map(|driver| format!("driver {}", words::line(driver, 40))),
            Some(speed),
            duplex,
            Some(format!("{} receive {queues}", number::count(card.receive_queues))),
            Some(format!("packets of {} bytes", number::count(card.mtu))),
        ];
        format!(
            "{} ({})",
            words::line(&card.name, 40),
            parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
        )
    };
    listed(&machine.network_cards, one)
}

/// The disks of a machine.
pub(crate) fn disks(machine: &MachineFacts) -> String {
    let one = |disk: &Disk| {
        let parts = [
            Some(
                disk.model
                    .as_ref()
                    .map_or_else(|| "model unknown".to_owned(), |model| words::line(model, 60)),
            ),
            disk.driver.as_ref().map(|driver| format!("driver {}", words::line(driver, 40))),
            Some(number::bytes(disk.bytes as f64)),
            disk.rotates.map(|rotates| if rotates { "reported as rotating" } else { "solid" }.to_owned()),
            disk.scheduler.as_ref().map(|name| format!("scheduler {}", words::line(name, 40))),
        ];
        format!(
            "{} ({})",
            words::line(&disk.name, 40),
            parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
        )
    };
    listed(&machine.disks, one)
}

/// The parts of a machine, limited to a readable number.
fn listed<T>(parts: &[T], one: impl Fn(&T) -> String) -> String {
    const SHOWN: usize = 8;
    let mut texts: Vec<String> = parts.iter().take(SHOWN).map(one).collect();
    if parts.len() > SHOWN {
        texts.push(format!("and {} more", number::count((parts.len() - SHOWN) as u64)));
    }
    if texts.is_empty() { "the machine reports none".to_owned() } else { texts.join("; ") }
}

/// What joins the load machines and the server.
pub(crate) fn switch(disclosure: &Disclosure, machine: &MachineFacts) -> String {
    match &disclosure.switch {
        Some(switch) => words::line(switch, words::SENTENCE_LIMIT),
        None if machine.same_host => "none: load and server were on one machine".to_owned(),
        None => "not stated (touchstone bench --switch)".to_owned(),
    }
}

/// The sponsor of the measurement.
pub(crate) fn sponsor(disclosure: &Disclosure) -> String {
    disclosure.sponsor.as_ref().map_or_else(
        || "not stated (touchstone bench --sponsor)".to_owned(),
        |sponsor| words::line(sponsor, words::SENTENCE_LIMIT),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_and_disks_say_what_is_not_told() {
        let hardware = touchstone_lab::sample::hardware(MachineFacts::default());
        assert_eq!(
            network_cards(&hardware),
            "eth0 (PCI 8086:1572, driver i40e, 10,000 Mbit/s, full duplex, 2 receive queues, packets of \
             1,500 bytes)"
        );
        assert_eq!(
            disks(&hardware),
            "nvme0n1 (Fast Disk 1TB, driver nvme, 1\u{a0}TiB, solid, scheduler none)"
        );
        let mut silent = hardware;
        silent.network_cards[0].megabits_per_second = None;
        silent.disks[0].model = None;
        assert!(network_cards(&silent).contains("speed unknown"));
        assert!(disks(&silent).contains("model unknown"));
        assert_eq!(disks(&MachineFacts::default()), "the machine reports none");
    }

    #[test]
    fn a_switch_and_a_sponsor_that_are_not_stated_are_asked_for() {
        let (nothing, mut machine) = (Disclosure::default(), MachineFacts::default());
        assert_eq!(switch(&nothing, &machine), "not stated (touchstone bench --switch)");
        assert_eq!(sponsor(&nothing), "not stated (touchstone bench --sponsor)");
        machine.same_host = true;
        assert_eq!(switch(&nothing, &machine), "none: load and server were on one machine");
        let disclosure = touchstone_lab::sample::disclosure();
        assert_eq!(
            (switch(&disclosure, &machine).as_str(), sponsor(&disclosure).as_str()),
            ("FastSwitch 2800, 10 Gbit/s", "Example Inc.")
        );
    }
}
