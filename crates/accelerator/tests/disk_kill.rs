//! The copies on disk of a process that is killed, fifty times, in the middle of its writing: the copies
//! found afterwards are right, and removed ones do not return.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use touchstone_accelerator::disk::Disk;
use touchstone_accelerator::rules::storing::Terms;
use touchstone_accelerator::store::{NewObject, Object, PurgeScope, Tier, hash_of};

const PATIENCE: Duration = Duration::from_secs(60);

/// Where the child finds the directory and its first number.
const DIRECTORY: &str = "TOUCHSTONE_TEST_DISK_DIRECTORY";
const FIRST: &str = "TOUCHSTONE_TEST_DISK_FIRST";

const KEYS: u64 = 200;
const ROUNDS: u64 = 50;

/// Small enough that segments are created and removed.
const SIZE_BYTES: u64 = 8 << 20;

fn open(directory: &Path) -> Disk {
    Disk::open(directory, SIZE_BYTES, |_, _| {}).unwrap()
}

/// The key at a position; a tenth of them have the same beginning.
fn key(position: u64) -> String {
    format!("{}/key-{position}", position % 10)
}

/// A mixture of bits, the same for the same number.
fn mixed(number: u64) -> u64 {
    let mut state = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// A body that contains its key and version at every place.
fn body(key: &str, version: u64) -> Vec<u8> {
    let length = mixed(version) % 20_000;
    // The same in each process, which `hash_of` is not.
    let seed = key.bytes().fold(version, |state, byte| mixed(state ^ u64::from(byte)));
    (0..length.div_ceil(8)).flat_map(|at| mixed(seed ^ at << 32).to_le_bytes()).collect()
}

fn object(key: &str, version: u64) -> Arc<Object> {
    Arc::new(Object::new(NewObject {
        hash: hash_of(key.as_bytes()),
        key: key.as_bytes(),
        selector: b"",
        status: 200,
        terms: Terms { response_time: version as i64, lifetime: 60, ..Terms::default() },
        fields: format!("ETag: \"{version}\"\r\n").as_bytes(),
        part: None,
        trailers: b"",
        body: &[body(key, version).into()],
    }))
}

/// Writes, removes and purges until it is killed, and prints what must hold from then on.
#[test]
#[ignore = "the other test starts it, and kills it"]
fn a_process_that_writes() {
    let directory = std::env::var(DIRECTORY).unwrap();
    let first: u64 = std::env::var(FIRST).unwrap().parse().unwrap();
    let disk = open(Path::new(&directory));
    let mut output = std::io::stdout();
    for version in first.. {
        let position = mixed(version) % KEYS;
        disk.keep(&object(&key(position), version));
        match version % 40 {
            // The copy that it replaces must not return.
            0 | 20 => {
                disk.flush();
                writeln!(output, "\nkept {position} {version}").unwrap();
            }
            5 | 15 | 25 => {
                let position = mixed(version ^ 1) % KEYS;
                disk.purge(&PurgeScope::Key(key(position).into_bytes()));
                writeln!(output, "\nforgot {position} {version}").unwrap();
            }
            35 => {
                let beginning = version / 40 % 10;
                disk.purge(&PurgeScope::Prefix(format!("{beginning}/").into_bytes()));
                writeln!(output, "\npurged {beginning} {version}").unwrap();
            }
            _ => continue,
        }
        output.flush().unwrap();
    }
}

#[test]
fn fifty_killed_processes_leave_what_is_right() {
    let place = tempfile::tempdir().unwrap();
    // The least version that each key may have.
    let mut least: HashMap<u64, u64> = HashMap::new();
    let mut next = 1;
    let mut found_in_all = 0;
    for round in 0..ROUNDS {
        next = write_and_kill(place.path(), next, round, &mut least);
        let disk = open(place.path());
        let mut found = 0;
        for position in 0..KEYS {
            let key = key(position);
            let objects = disk.load(hash_of(key.as_bytes()), key.as_bytes());
            assert!(objects.len() <= 1, "{key}: {} versions", objects.len());
            let Some(object) = objects.first() else { continue };
            let version = object.terms.response_time as u64;
            assert!(object.body() == body(&key, version), "round {round}: {key} {version} has another body");
            assert_eq!(object.fields(), format!("ETag: \"{version}\"\r\n").as_bytes());
            let least = least.get(&position).copied().unwrap_or(0);
            assert!(version >= least, "round {round}: {key} {version} came back, and was gone at {least}");
            assert!(version < next, "round {round}: {key} {version} was never kept");
            found += 1;
        }
        let counters = disk.counters();
        assert!(found > 0, "round {round}: nothing is found, {counters:?}");
        found_in_all += found;
    }
    assert!(found_in_all > ROUNDS * KEYS / 4, "the cache is warm: {found_in_all}");
}

/// Starts a process, kills it after a while, and records what it printed; returns the first number that it
/// cannot have used.
fn write_and_kill(directory: &Path, first: u64, round: u64, least: &mut HashMap<u64, u64>) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["a_process_that_writes", "--exact", "--ignored", "--nocapture", "--quiet"])
        .env(DIRECTORY, directory)
        .env(FIRST, first.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (sender, receiver) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    // It has begun; then it continues for a while that is another one each time.
    let mut lines: Vec<String> = (0..8).map(|_| receiver.recv_timeout(PATIENCE).unwrap()).collect();
    std::thread::sleep(Duration::from_micros(mixed(round) % 40_000));
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    lines.extend(receiver.iter());
    let mut last = first;
    for line in &lines {
        let words: Vec<&str> = line.split(' ').collect();
        let [what, at, version] = words[..] else { continue };
        let (Ok(at), Ok(version)) = (at.parse::<u64>(), version.parse::<u64>()) else { continue };
        last = last.max(version);
        match what {
            "kept" => _ = least.insert(at, version),
            "forgot" => _ = least.insert(at, version + 1),
            // The copy that was kept with the same number was earlier.
            _ => (0..KEYS).filter(|position| position % 10 == at).for_each(|position| {
                least.insert(position, version + 1);
            }),
        }
    }
    // It may have continued after its last line, until its next one.
    last + 1000
}
