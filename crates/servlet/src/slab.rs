//! Pairs of buffers that Java and the server share, each with the request that uses it.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::exchange::Exchange;
use crate::jvm::{Attached, Memory};

/// Bytes of a request: its head, and pieces of its body. Longer heads get 431.
pub const INPUT_BYTES: usize = 64 * 1024;

/// Bytes of an answer that leave Java at once.
pub const OUTPUT_BYTES: usize = 64 * 1024;

/// A pair of buffers. It is a thread's or, as long as its request goes on by itself, that request's.
pub struct Slab {
    /// Its number.
    pub number: i32,
    /// What the server writes.
    pub input: &'static Memory,
    /// What Java writes.
    pub output: &'static Memory,
    exchange: Mutex<Option<Arc<Exchange>>>,
}

impl Slab {
    /// The request that uses it.
    pub fn exchange(&self) -> Option<Arc<Exchange>> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A request uses it from now on, or none.
    pub fn set_exchange(&self, exchange: Option<Arc<Exchange>>) {
        *self.exchange.lock().unwrap_or_else(PoisonError::into_inner) = exchange;
    }
}

/// All slabs of the process, by number.
#[derive(Default)]
pub struct Slabs {
    all: RwLock<Vec<Arc<Slab>>>,
    /// Those that no request uses, with the route that they are for.
    free: Mutex<Vec<(i32, Arc<Slab>)>>,
}

impl Slabs {
    /// A slab for requests of a route.
    pub fn take(&self, route: i32, java: &Attached<'_>) -> Result<Arc<Slab>, String> {
        {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(position) = free.iter().rposition(|(of, _)| *of == route) {
                return Ok(free.swap_remove(position).1);
            }
        }
        let slab = {
            let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
            let number = i32::try_from(all.len()).map_err(|_| "too many slabs".to_string())?;
            let slab = Arc::new(Slab {
                number,
                input: Memory::new(INPUT_BYTES),
                output: Memory::new(OUTPUT_BYTES),
                exchange: Mutex::default(),
            });
            all.push(slab.clone());
            slab
        };
        java.slab(route, slab.number, slab.input, slab.output)?;
        Ok(slab)
    }

    /// No request uses it any more.
    pub fn give_back(&self, route: i32, slab: Arc<Slab>) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push((route, slab));
    }

    /// A route is closed: its slabs are not used again, because whoever is left in its applications may still
    /// write to them, and no request that uses one will be answered.
    pub fn end_all_of(&self, route: i32) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).retain(|(of, _)| *of != route);
        self.cut(|exchange| exchange.route() == route);
    }

    /// Java stands still: no request that uses one will be answered.
    pub fn end_all(&self) {
        self.cut(|_| true);
    }

    fn cut(&self, which: impl Fn(&Exchange) -> bool) {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .filter_map(|slab| slab.exchange())
            .filter(|exchange| which(exchange))
            .for_each(|exchange| exchange.cut());
    }

    /// The slab of this number.
    pub fn get(&self, number: i32) -> Option<Arc<Slab>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        usize::try_from(number).ok().and_then(|number| all.get(number)).cloned()
    }
}
