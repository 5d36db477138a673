//! The parts of a machine that decide how fast it serves: its model, the caches of its processors, its
//! network cards and its disks. The reports of 1996 to 2000 list them; here they are read from `/sys`.
//!
//! A fact that the machine does not report is absent. Most virtual machines report neither the speed of their
//! network card nor the model of their disk.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// A network card: an interface of the kernel with a device behind it.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct NetworkCard {
    /// The interface, for example `eth0`.
    pub name: String,
    /// The device, for example `PCI 8086:1572` (vendor and device), or the bus that it is on.
    pub device: Option<String>,
    /// The kernel's driver.
    pub driver: Option<String>,
    /// The speed of the link, 10^6 bits a second.
    pub megabits_per_second: Option<u64>,
    /// `full` or `half`.
    pub duplex: Option<String>,
    /// Queues for what is received.
    pub receive_queues: u64,
    /// The longest packet, bytes.
    pub mtu: u64,
}

/// A disk: a block device with a device behind it.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct Disk {
    /// The block device, for example `nvme0n1`.
    pub name: String,
    /// Its vendor and model.
    pub model: Option<String>,
    /// The kernel's driver.
    pub driver: Option<String>,
    /// Its size, bytes.
    pub bytes: u64,
    /// Whether it rotates; absent if the kernel does not report it.
    pub rotates: Option<bool>,
    /// The scheduler of its requests.
    pub scheduler: Option<String>,
}

/// All devices of this kind that the machine reports.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hardware {
    /// Vendor and product of the machine.
    pub product: Option<String>,
    /// The caches of the first processor, for example `L1d 32K, L1i 32K, L2 1024K, L3 36608K`.
    pub cpu_caches: Option<String>,
    /// Its network cards.
    pub network_cards: Vec<NetworkCard>,
    /// Its disks.
    pub disks: Vec<Disk>,
}

/// The hardware of this machine.
pub fn of_this_machine() -> Hardware {
    read_below(Path::new("/sys"))
}

/// The hardware in a tree like `/sys`.
fn read_below(sys: &Path) -> Hardware {
    let dmi = sys.join("class/dmi/id");
    let product = [text(&dmi.join("sys_vendor")), text(&dmi.join("product_name"))];
    Hardware {
        product: joined(product),
        cpu_caches: cpu_caches(&sys.join("devices/system/cpu/cpu0/cache")),
        network_cards: children(&sys.join("class/net")).iter().filter_map(|path| card(path)).collect(),
        disks: children(&sys.join("block")).iter().filter_map(|path| disk(path)).collect(),
    }
}

fn card(path: &Path) -> Option<NetworkCard> {
    let device = path.join("device");
    // Loopback, bridges and tunnels have no device.
    if !device.exists() {
        return None;
    }
    // An interface that is down, and most virtual ones, report no speed: an error, -1 or 2^32-1.
    let speed = number(&path.join("speed")).filter(|speed| (1..u64::from(u32::MAX)).contains(speed));
    let is_receive_queue = |queue: &PathBuf| name_of(queue).is_some_and(|name| name.starts_with("rx-"));
    Some(NetworkCard {
        name: name_of(path)?,
        device: device_name(&device),
        driver: link_name(&device.join("driver")),
        megabits_per_second: speed,
        duplex: text(&path.join("duplex")).filter(|duplex| duplex != "unknown"),
        receive_queues: children(&path.join("queues")).iter().filter(|it| is_receive_queue(it)).count()
            as u64,
        mtu: number(&path.join("mtu")).unwrap_or(0),
    })
}

fn disk(path: &Path) -> Option<Disk> {
    const SECTOR_BYTES: u64 = 512;
    let device = path.join("device");
    let bytes = number(&path.join("size"))?.saturating_mul(SECTOR_BYTES);
    // Loop devices, memory and logical volumes have no device; a drive without a medium has no size.
    if !device.exists() || bytes == 0 {
        return None;
    }
    let schedulers = text(&path.join("queue/scheduler"));
    let chosen = schedulers.as_deref().and_then(|all| all.split_once('[')?.1.split_once(']'));
    Some(Disk {
        name: name_of(path)?,
        model: joined([
            text(&device.join("vendor")).filter(|it| !it.starts_with("0x")),
            text(&device.join("model")),
        ]),
        driver: link_name(&device.join("driver")).or_else(|| link_name(&device.join("device/driver"))),
        bytes,
        rotates: text(&path.join("queue/rotational")).map(|flag| flag == "1"),
        scheduler: chosen.map(|(name, _)| name.to_owned()),
    })
}

/// Vendor and device of a PCI device; of another the bus that it is on.
fn device_name(device: &Path) -> Option<String> {
    let bus = link_name(&device.join("subsystem"))?;
    let id = |name: &str| text(&device.join(name)).map(|id| id.trim_start_matches("0x").to_owned());
    Some(match (bus.as_str(), id("vendor"), id("device")) {
        ("pci", Some(vendor), Some(product)) => format!("PCI {vendor}:{product}"),
        _ => bus,
    })
}

fn cpu_caches(directory: &Path) -> Option<String> {
    let one = |path: &PathBuf| {
        let (level, size) = (text(&path.join("level"))?, text(&path.join("size"))?);
        let kind = match text(&path.join("type"))?.as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        Some(format!("L{level}{kind} {size}"))
    };
    let mut caches: Vec<String> = children(directory).iter().filter_map(one).collect();
    caches.sort();
    (!caches.is_empty()).then(|| caches.join(", "))
}

/// The entries of a directory, sorted by name; empty if the directory does not exist.
fn children(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

fn name_of(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}

/// The file name of a link's target.
fn link_name(path: &Path) -> Option<String> {
    name_of(&fs::read_link(path).ok()?)
}

/// The text of a file of `/sys`; absent where it is empty or cannot be read.
fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

fn joined(parts: [Option<String>; 2]) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A tree like that of a server with one card of 10 Gbit/s and one disk, and with other devices.
    fn tree() -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = place.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        };
        let link = |to: &str, path: &str| {
            fs::create_dir_all(place.path().join(path).parent().unwrap()).unwrap();
            symlink(to, place.path().join(path)).unwrap();
        };
        write("class/dmi/id/sys_vendor", "Example Inc.");
        write("class/dmi/id/product_name", "Server 5/133");
        for (index, (level, kind, size)) in
            [("1", "Data", "32K"), ("1", "Instruction", "32K"), ("2", "Unified", "1024K")].iter().enumerate()
        {
            let cache = format!("devices/system/cpu/cpu0/cache/index{index}");
            write(&format!("{cache}/level"), level);
            write(&format!("{cache}/type"), kind);
            write(&format!("{cache}/size"), size);
        }
        write("class/net/eth0/device/vendor", "0x8086");
        write("class/net/eth0/device/device", "0x1572");
        link("../../bus/pci", "class/net/eth0/device/subsystem");
        link("../../drivers/i40e", "class/net/eth0/device/driver");
        write("class/net/eth0/speed", "10000");
        write("class/net/eth0/duplex", "full");
        write("class/net/eth0/mtu", "1500");
        write("class/net/eth0/queues/rx-0/rps_cpus", "0");
        write("class/net/eth0/queues/rx-1/rps_cpus", "0");
        write("class/net/eth0/queues/tx-0/xps_cpus", "0");
        write("class/net/lo/mtu", "65536");
        write("block/nvme0n1/size", "2048");
        write("block/nvme0n1/device/model", "Fast Disk 1TB");
        link("../../drivers/nvme", "block/nvme0n1/device/driver");
        write("block/nvme0n1/queue/rotational", "0");
        write("block/nvme0n1/queue/scheduler", "none [mq-deadline] bfq");
        write("block/loop0/size", "2048");
        place
    }

    #[test]
    fn cards_and_disks_are_read_and_nothing_without_a_device() {
        let place = tree();
        let found = read_below(place.path());
        let expected = Hardware {
            product: Some("Example Inc. Server 5/133".into()),
            cpu_caches: Some("L1d 32K, L1i 32K, L2 1024K".into()),
            network_cards: vec![NetworkCard {
                name: "eth0".into(),
                device: Some("PCI 8086:1572".into()),
                driver: Some("i40e".into()),
                megabits_per_second: Some(10_000),
                duplex: Some("full".into()),
                receive_queues: 2,
                mtu: 1500,
            }],
            disks: vec![Disk {
                name: "nvme0n1".into(),
                model: Some("Fast Disk 1TB".into()),
                driver: Some("nvme".into()),
                bytes: 1 << 20,
                rotates: Some(false),
                scheduler: Some("mq-deadline".into()),
            }],
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn what_a_virtual_card_does_not_tell_is_absent() {
        let place = tree();
        fs::write(place.path().join("class/net/eth0/speed"), "-1\n").unwrap();
        fs::write(place.path().join("class/net/eth0/duplex"), "unknown\n").unwrap();
        let card = &read_below(place.path()).network_cards[0];
        assert_eq!((card.megabits_per_second, &card.duplex), (None, &None));
        assert_eq!(read_below(Path::new("/nonexistent")), Hardware::default());
    }
}
