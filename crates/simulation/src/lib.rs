//! A deterministic simulator: one thread, virtual time, and a network and a disk with faults. A seed
//! determines every event. A run can be repeated exactly, so a fault can be examined, fixed and made a test.
//!
//! A run of a [`Part`] has one seed and checks the invariants of the part continuously. A panic in any code
//! is a fault.
//!
//! `docs/contributing/simulation.md` describes how to use it, and the events and invariants of each part.

#![allow(clippy::unwrap_used, reason = "a fault of a run is a panic, which `run` catches")]

mod disk;
mod fleet;
mod http1;
mod http2;
mod http3;
pub mod random;
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
    /// The number of seeds of this part among a thousand of all parts.
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

/// The part of a seed in a run of all parts by their shares.
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

/// Runs a part once; returns its fingerprint, or the fault with the trace of a second run.
pub fn run(part: Part, seed: u64) -> Result<u64, Fault> {
    let Err(message) = attempt(part, seed, false) else { return Ok(random::fingerprint()) };
    let repeated = attempt(part, seed, true);
    let message = match repeated {
        Err(again) if again == message => message,
        Err(again) => format!("{message}\nThe second run found another fault: {again}"),
        Ok(()) => format!("{message}\nThe second run found no fault"),
    };
    Err(Fault { part: part.name, seed, message, trace: random::trace() })
}

fn attempt(part: Part, seed: u64, is_traced: bool) -> Result<(), String> {
    capture_panics();
    random::begin(seed, is_traced);
    MESSAGE.with_borrow_mut(|message| *message = Some(String::new()));
    let outcome = catch_unwind(AssertUnwindSafe(part.run));
    let place = MESSAGE.with_borrow_mut(Option::take).unwrap_or_default();
    outcome.map_err(|panic| format!("{}{place}", panic_text(&*panic)))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_string())
}

thread_local! {
    /// The position of the last panic of a run; `None`: this thread runs no simulation.
    static MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Stores panics of runs instead of printing them.
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
