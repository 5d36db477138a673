//! A deterministic simulator: one thread, virtual time, a network and a disk with faults, all decided by a
//! seed. A run can be repeated exactly, so a fault that was found can be examined, fixed and kept as a test.
//!
//! A run of a [`Part`] has one seed, and checks the invariants of the part all the time; a panic in any
//! code is a fault.
//!
//! What each part simulates, its events and its invariants are in
//! `docs/contributing/simulation.md`, with how to use it.

#![allow(clippy::unwrap_used, reason = "a fault of a run is a panic, which `run` catches")]

pub mod chance;
mod disk;
mod fleet;
mod http1;
mod http2;
mod http3;
mod wire;

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// A part of the product that is simulated.
#[derive(Clone, Copy)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// Of a thousand seeds over all parts, how many are this part's.
    pub share: u64,
    run: fn(),
}

/// All parts.
pub const PARTS: &[Part] = &[
    Part { name: "http1", share: 480, run: http1::run },
    Part { name: "http2", share: 150, run: http2::run },
    Part { name: "http3", share: 80, run: http3::run },
    Part { name: "disk", share: 270, run: disk::run },
    Part { name: "fleet", share: 20, run: fleet::run },
];

/// A fault that a run has found.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The part.
    pub part: &'static str,
    /// The seed.
    pub seed: u64,
    /// The fault, and its place in the sources.
    pub message: String,
    /// The last lines of the trace.
    pub trace: Vec<String>,
}

/// The part with this name.
pub fn part(name: &str) -> Option<Part> {
    PARTS.iter().copied().find(|part| part.name == name)
}

/// The part that a seed is for where all parts take turns by their shares.
pub fn part_of(seed: u64) -> Part {
    let mut place = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    place %= PARTS.iter().map(|part| part.share).sum::<u64>();
    for part in PARTS {
        if place < part.share {
            return *part;
        }
        place -= part.share;
    }
    PARTS[0]
}

/// Runs a part once; returns its fingerprint, or the fault that it found with the trace of a second run.
pub fn run(part: Part, seed: u64) -> Result<u64, Fault> {
    let Err(message) = attempt(part, seed, false) else { return Ok(chance::fingerprint()) };
    let repeated = attempt(part, seed, true);
    let message = match repeated {
        Err(again) if again == message => message,
        Err(again) => format!("{message}\nIt is not repeated exactly; the second time: {again}"),
        Ok(()) => format!("{message}\nIt is not repeated: the second run found nothing"),
    };
    Err(Fault { part: part.name, seed, message, trace: chance::trace() })
}

fn attempt(part: Part, seed: u64, is_traced: bool) -> Result<(), String> {
    capture_panics();
    chance::begin(seed, is_traced);
    MESSAGE.with_borrow_mut(|message| *message = Some(String::new()));
    let outcome = catch_unwind(AssertUnwindSafe(part.run));
    let place = MESSAGE.with_borrow_mut(Option::take).unwrap_or_default();
    outcome.map_err(|panic| format!("{}{place}", words(&*panic)))
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_string())
}

thread_local! {
    /// Where the last panic of a run was; `None`: this thread runs no simulation.
    static MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Notes panics of runs, and does not print them.
fn capture_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        touchstone_accelerator::store::hash_without_secret();
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let is_ours = MESSAGE.with_borrow_mut(|message| match message {
                Some(place) => {
                    *place = panic.location().map(|at| format!(" ({at})")).unwrap_or_default();
                    true
                }
                None => false,
            });
            if !is_ours {
                others(panic);
            }
        }));
    });
}
