//! The accelerator's store with its disk: responses are fetched, stored, looked up and purged, while
//! processes are restarted, replaced and killed, the power fails, and the disk has faults.
//!
//! Invariants: a found response is identical to the stored one and has its key; a purged response does not
//! return, and a replaced one does not return after the newer one was written; counts and bytes are
//! consistent; the last stored response on a disk without faults is found.

mod machine;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use touchstone_accelerator::disk::{Disk, Steps, open_stepped};
use touchstone_accelerator::rules::storing::Terms;
use touchstone_accelerator::store::{
    FetchGuard, NewObject, Object, PurgeMode, PurgeScope, Store, Tier, hash_of,
};

use crate::random;
use crate::wire::{is_pattern, pattern};
use machine::{Faults, Machine, Process};

const LIMIT_BYTES: u64 = 400_000;
const SEGMENT_BYTES: u64 = 40_000;
const MOST_BODY_BYTES: usize = 12_000;
const KEYS: u64 = 10;
const VARIANTS: u64 = 2;

/// Runs one simulation.
pub fn run() {
    let mut run = DiskRun::new();
    for _ in 0..random::between(20, 250) {
        run.step();
    }
    run.machine.remove_faults();
    if !run.serving.process.is_dead() {
        run.drain();
    }
    run.restart();
    run.check_everything();
}

/// The name of a response: the numbers of its target and of its variant.
type ResponseName = (u64, u64);

/// A process with its store, its disk and its running operations.
struct ServingProcess {
    process: Process,
    store: Arc<Store>,
    disk: Arc<Disk>,
    steps: Option<Steps>,
    fetches: Vec<(FetchGuard, Arc<Object>, ResponseName, u64)>,
    promotions: Vec<(FetchGuard, Object)>,
}

struct DiskRun {
    machine: Machine,
    serving: ServingProcess,
    /// A process that was replaced and still writes.
    leaving: Option<ServingProcess>,
    /// The last version number.
    last_version: u64,
    /// The lowest version of each response that may be found; lower ones were purged.
    purged_below: BTreeMap<ResponseName, u64>,
    /// The lowest version that may be found without faults; lower ones were replaced.
    replaced_below: BTreeMap<ResponseName, u64>,
    /// The versions that were passed to the disk and are possibly not written.
    queued: BTreeMap<ResponseName, u64>,
    /// Names whose last purge was possibly not written to disk, with their lowest versions before it: the
    /// purged responses may return in another process.
    uncertain: BTreeMap<ResponseName, u64>,
    faults: Faults,
    /// The disk may have faults in this run.
    has_faults: bool,
    /// Processes may be killed in this run, and the power may fail.
    has_kills: bool,
}

fn key(name: ResponseName) -> Vec<u8> {
    let space = 7 + name.0 % 2;
    [&space.to_le_bytes()[..], format!("h{}/{}", name.0 % 3, name.0).as_bytes()].concat()
}

fn tag(name: ResponseName) -> String {
    format!("t{}", name.0 % 4)
}

fn owner(name: ResponseName, version: u64) -> u64 {
    name.0 * 1_000_003 + name.1 * 7919 + version * 31
}

fn object(name: ResponseName, version: u64) -> Arc<Object> {
    let (key, selector) = (key(name), format!("{}", name.1));
    let body = pattern(owner(name, version), random::length(MOST_BODY_BYTES));
    let terms = Terms { lifetime: 600, response_time: version as i64, ..Terms::default() };
    Arc::new(Object::new(NewObject {
        hash: hash_of(&key),
        key: &key,
        selector: selector.as_bytes(),
        status: 200,
        terms,
        fields: format!("Cache-Tag: {}\r\nX-Variant: {}\r\n", tag(name), name.1).as_bytes(),
        part: None,
        trailers: if random::one_in(5) { b"T: 1\r\n" } else { b"" },
        body: &[Bytes::from(body)],
    }))
}

fn name() -> ResponseName {
    (random::below(KEYS), random::below(VARIANTS))
}

fn start(machine: &Machine) -> ServingProcess {
    let process = machine.process();
    let opened = open_stepped(Arc::new(process.clone()), LIMIT_BYTES, SEGMENT_BYTES, |_, message| {
        random::note(|| format!("message: {message}"));
    });
    let (disk, steps) = opened.expect("a process starts with any disk");
    let disk = Arc::new(disk);
    let tier: Arc<dyn Tier> = disk.clone();
    let store = Arc::new(Store::new(random::pick(&[20_000, 60_000, 200_000]), Some(tier)));
    ServingProcess { process, store, disk, steps: Some(steps), fetches: Vec::new(), promotions: Vec::new() }
}

impl ServingProcess {
    fn step(&mut self) -> bool {
        self.steps.as_mut().is_some_and(Steps::step)
    }

    /// The responses that a look-up finds in memory, or otherwise on disk.
    fn look_up(&mut self, name: ResponseName) -> Vec<Arc<Object>> {
        let key = key(name);
        let hash = hash_of(&key);
        let mut found = self.store.under(hash, &key);
        if found.is_empty() && self.disk.held(hash) > 0 {
            let fetching = self.store.begin_fetch(hash);
            let mut loaded = self.disk.load(hash, &key);
            // Their order depends on the position in a table and is not significant.
            loaded.sort_by(|one, other| one.selector().cmp(other.selector()));
            for object in loaded {
                let (fields, terms) = (object.fields().to_vec(), object.terms);
                found.push(Arc::new(object.with_head(&fields, terms)));
                if random::percent(70) {
                    self.store.promote(Arc::new(object), fetching.purge_count());
                } else {
                    self.promotions.push((self.store.begin_again(&fetching, &key, 0).unwrap(), object));
                }
            }
        }
        found
    }
}

impl DiskRun {
    fn new() -> DiskRun {
        let machine = Machine::new();
        let serving = start(&machine);
        DiskRun {
            machine,
            serving,
            leaving: None,
            last_version: 0,
            purged_below: BTreeMap::new(),
            replaced_below: BTreeMap::new(),
            queued: BTreeMap::new(),
            uncertain: BTreeMap::new(),
            faults: Faults::default(),
            has_faults: random::percent(50),
            has_kills: random::percent(60),
        }
    }

    fn step(&mut self) {
        match random::below(100) {
            0..=21 => self.begin_fetch(),
            22..=41 => self.end_fetch(),
            42..=56 => self.look_up(name()),
            57..=66 => self.purge(),
            67..=84 => {
                for _ in 0..random::below(4) {
                    self.serving.step();
                }
            }
            85..=88 => self.drain(),
            89 => self.restart(),
            90 => self.replace(),
            91..=93 if self.has_kills => self.kill(),
            94..=97 if self.has_faults => self.change_faults(),
            98 if self.has_faults => self.damage_files(),
            _ => self.end_promotion(),
        }
        if let Some(leaving) = &mut self.leaving {
            let is_done = !leaving.step();
            if is_done || random::one_in(10) {
                self.end_leaving();
            }
        }
        if self.serving.process.is_dead() {
            random::note(|| "a process is started after another was killed".to_string());
            self.start_after_end();
        }
    }

    fn begin_fetch(&mut self) {
        if self.serving.fetches.len() > 4 {
            return;
        }
        let name = name();
        self.last_version += 1;
        let object = object(name, self.last_version);
        let fetching = self.serving.store.begin_fetch(object.hash);
        self.serving.fetches.push((fetching, object, name, self.last_version));
    }

    fn end_fetch(&mut self) {
        if self.serving.fetches.is_empty() {
            return;
        }
        let place = random::size(self.serving.fetches.len());
        let (fetching, object, name, version) = self.serving.fetches.remove(place);
        let bytes = object.bytes();
        let is_stored = self.serving.store.insert(object, fetching.purge_count());
        random::note(|| format!("{name:?} version {version}, {bytes} bytes: stored {is_stored}"));
        random::mix(u64::from(is_stored));
        if is_stored {
            let is_purged = version < self.purged_below.get(&name).copied().unwrap_or(0);
            assert!(
                !is_purged,
                "{name:?}: version {version} was stored although it was purged while it was fetched"
            );
            // An earlier fetch can end later: then its response is the current one.
            self.queued.insert(name, version);
            self.replaced_below.entry(name).and_modify(|least| *least = version.min(*least));
        }
    }

    fn end_promotion(&mut self) {
        if let Some((fetching, object)) = self.serving.promotions.pop() {
            self.serving.store.promote(Arc::new(object), fetching.purge_count());
        }
    }

    fn look_up(&mut self, name: ResponseName) {
        let found = self.serving.look_up(name);
        let mut variants = Vec::new();
        for object in &found {
            let variant: u64 = std::str::from_utf8(object.selector()).unwrap().parse().unwrap();
            let name = (name.0, variant);
            let version = object.terms.response_time as u64;
            assert_eq!(object.key(), key(name), "a response of another key");
            assert!(!variants.contains(&variant), "{name:?} is found twice");
            variants.push(variant);
            assert!(
                is_pattern(owner(name, version), 0, object.body()),
                "{name:?} {version}: the body is corrupt"
            );
            let fields = format!("Cache-Tag: {}\r\nX-Variant: {variant}\r\n", tag(name));
            assert_eq!(object.fields(), fields.as_bytes(), "{name:?}: other fields");
            let purged = self.purged_below.get(&name).copied().unwrap_or(0);
            assert!(version >= purged, "{name:?}: version {version} was purged, below {purged}");
            let replaced = self.replaced_below.get(&name).copied().unwrap_or(0);
            assert!(version >= replaced, "{name:?}: version {version} was replaced by {replaced}");
            random::mix(version);
        }
        random::note(|| format!("look up {name:?}: {} found", found.len()));
    }

    fn purge(&mut self) {
        let name = name();
        let key = key(name);
        let (purge, matches_purge): (PurgeScope, Box<dyn Fn(ResponseName) -> bool>) = match random::below(12)
        {
            0..=5 => (PurgeScope::Key(key), Box::new(move |other| other.0 == name.0)),
            6 | 7 => {
                (PurgeScope::Tag(tag(name).into_bytes()), Box::new(move |other| tag(other) == tag(name)))
            }
            8 => {
                let prefix = key[..10].to_vec();
                let beginning = prefix.clone();
                (PurgeScope::Prefix(prefix), Box::new(move |other| self::key(other).starts_with(&beginning)))
            }
            9 => (PurgeScope::Space(7 + name.0 % 2), Box::new(move |other| other.0 % 2 == name.0 % 2)),
            10 => {
                let path = format!("/{}", name.0).into_bytes();
                (PurgeScope::Path { path, is_prefix: false }, Box::new(move |other| other.0 == name.0))
            }
            _ => (PurgeScope::All, Box::new(|_| true)),
        };
        random::note(|| format!("purge {purge:?}"));
        self.serving.store.purge(&purge, PurgeMode::Remove);
        if self.serving.process.is_dead() {
            // The process was killed before it reported the purge.
            return;
        }
        self.last_version += 1;
        // A read-only disk cannot store the purge, a disk whose syncs fail can lose it, and the process that
        // still has the directory does not receive it.
        let is_certain =
            !self.faults.is_read_only && self.faults.failing_syncs == 0 && self.leaving.is_none();
        for purged in all_names().filter(|other| matches_purge(*other)) {
            let before = self.purged_below.insert(purged, self.last_version);
            self.queued.remove(&purged);
            match is_certain {
                true => _ = self.uncertain.remove(&purged),
                false => _ = self.uncertain.entry(purged).or_insert(before.unwrap_or(0)),
            }
        }
    }

    /// Writes all queued responses.
    fn drain(&mut self) {
        while self.serving.step() {}
        self.check_counters();
        if self.serving.process.is_dead() || self.leaving.is_some() {
            return;
        }
        let queued = std::mem::take(&mut self.queued);
        if !self.has_faults {
            let last = queued.iter().max_by_key(|(_, version)| **version).map(|(name, _)| *name);
            self.replaced_below.extend(queued);
            if let Some(name) = last
                && random::percent(50)
            {
                let found = self.serving.look_up(name);
                assert!(!found.is_empty(), "{name:?} was stored last, and is not found");
            }
        }
    }

    fn check_counters(&self) {
        let (memory, disk) = (self.serving.store.counters(), self.serving.disk.counters());
        let under = |name| self.serving.store.under(hash_of(&key((name, 0))), &key((name, 0)));
        let objects: Vec<Arc<Object>> = (0..KEYS).flat_map(under).collect();
        let bytes: u64 = objects.iter().map(|object| object.bytes()).sum();
        assert_eq!(memory.objects, objects.len() as u64, "responses in memory");
        assert_eq!(memory.bytes, bytes, "bytes in memory");
        assert!(memory.bytes <= memory.budget_bytes, "{memory:?}");
        if !self.has_faults && !self.has_kills && self.leaving.is_none() {
            assert_eq!(disk.bytes, self.machine.segment_bytes(), "bytes on disk");
            assert_eq!(disk.corrupt, 0, "{disk:?}");
            assert!(disk.bytes <= LIMIT_BYTES, "{disk:?}");
        }
        random::mix(memory.bytes ^ disk.bytes << 20 ^ disk.objects << 40);
    }

    /// Ends the process regularly, and starts another.
    fn restart(&mut self) {
        self.end_leaving();
        if let Some(steps) = self.serving.steps.take() {
            steps.leave();
        }
        random::note(|| "a process has ended regularly".to_string());
        let was_killed = self.serving.process.is_dead();
        self.serving.process.kill();
        if random::one_in(4) && self.has_kills {
            self.machine.lose_power();
        }
        if !was_killed && !self.has_faults && self.leaving.is_none() {
            self.replaced_below.append(&mut self.queued);
        }
        self.start_after_end();
    }

    /// Starts another process while this one still writes.
    fn replace(&mut self) {
        self.end_leaving();
        random::note(|| "a process replaces another".to_string());
        self.serving.fetches.clear();
        self.serving.promotions.clear();
        let next = start(&self.machine);
        self.leaving = Some(std::mem::replace(&mut self.serving, next));
        self.purged_below.append(&mut self.uncertain);
        self.queued.clear();
        self.replaced_below.clear();
    }

    fn end_leaving(&mut self) {
        if let Some(mut leaving) = self.leaving.take() {
            if let Some(steps) = leaving.steps.take() {
                steps.leave();
            }
            leaving.process.kill();
            random::note(|| "the process that was replaced has ended".to_string());
            // The other process can use the directory now.
            self.serving.step();
        }
    }

    fn kill(&mut self) {
        match random::below(3) {
            0 => self.serving.process.kill_within(12),
            1 => self.serving.process.kill(),
            _ => {
                self.serving.process.kill();
                if let Some(leaving) = self.leaving.take() {
                    leaving.process.kill();
                }
                self.machine.lose_power();
            }
        }
    }

    fn start_after_end(&mut self) {
        self.queued.clear();
        self.purged_below.append(&mut self.uncertain);
        if self.has_kills || self.has_faults {
            self.replaced_below.clear();
        }
        self.serving.process.kill();
        self.serving = start(&self.machine);
    }

    fn change_faults(&mut self) {
        let faults = match random::below(6) {
            0 => Faults { most_bytes: random::between(1, 300_000) as usize, ..Faults::default() },
            1 => Faults { is_read_only: true, ..Faults::default() },
            2 => Faults { failing_writes: 30, ..Faults::default() },
            3 => Faults { failing_reads: 30, failing_syncs: 30, ..Faults::default() },
            _ => Faults::default(),
        };
        random::note(|| format!("machine: {faults:?}"));
        self.machine.set_faults(faults);
        self.faults = faults;
    }

    fn damage_files(&mut self) {
        random::note(|| "another program damages files".to_string());
        match random::below(8) {
            0 => self.machine.remove_externally(None),
            1 => self.machine.remove_externally(Some("purges")),
            _ => self.machine.flip_bit(),
        }
    }

    fn check_everything(&mut self) {
        for name in all_names() {
            self.look_up(name);
        }
        self.check_counters();
    }
}

fn all_names() -> impl Iterator<Item = ResponseName> {
    (0..KEYS).flat_map(|key| (0..VARIANTS).map(move |variant| (key, variant)))
}
