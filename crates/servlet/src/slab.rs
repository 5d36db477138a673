//! Pairs of buffers that Java and the server share, each with the request that uses it.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::java_call::JavaCall;
use crate::jvm::{AttachedThread, Memory};

/// The buffer for a request: its head, and pieces of its body. A request with a longer head gets 431.
pub const INPUT_BYTES: usize = 64 * 1024;

/// The buffer for the bytes of an answer that Java passes on at once.
pub const OUTPUT_BYTES: usize = 64 * 1024;

/// A pair of buffers. It belongs to a thread or, while a request is asynchronous, to that request.
pub struct Slab {
    /// Its number.
    pub number: i32,
    /// The server writes to this buffer.
    pub input: &'static Memory,
    /// Java writes to this buffer.
    pub output: &'static Memory,
    java_call: Mutex<Option<Arc<JavaCall>>>,
}

impl Slab {
    /// The request that uses it.
    pub fn java_call(&self) -> Option<Arc<JavaCall>> {
        self.java_call.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the request that uses it; `None`: no request.
    pub fn set_java_call(&self, java_call: Option<Arc<JavaCall>>) {
        *self.java_call.lock().unwrap_or_else(PoisonError::into_inner) = java_call;
    }
}

/// All slabs of the process, by number.
#[derive(Default)]
pub struct Slabs {
    all: RwLock<Vec<Arc<Slab>>>,
    /// The slabs that no request uses, each with its route.
    free: Mutex<Vec<(i32, Arc<Slab>)>>,
}

impl Slabs {
    /// A slab for requests of a route.
    pub fn take(&self, route: i32, java: &AttachedThread<'_>) -> Result<Arc<Slab>, String> {
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
                java_call: Mutex::default(),
            });
            all.push(slab.clone());
            slab
        };
        java.slab(route, slab.number, slab.input, slab.output)?;
        Ok(slab)
    }

    /// Returns a slab that no request uses any more.
    pub fn release_slab(&self, route: i32, slab: Arc<Slab>) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push((route, slab));
    }

    /// Called when a route is closed. Its slabs are not used again, because threads that remain in its
    /// applications may still write to them. Requests that use one of them get no answer.
    pub fn end_all_of(&self, route: i32) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).retain(|(of, _)| *of != route);
        self.cut(|java_call| java_call.route() == route);
    }

    /// Called when Java has stopped. Requests that use a slab get no answer.
    pub fn end_all(&self) {
        self.cut(|_| true);
    }

    fn cut(&self, which: impl Fn(&JavaCall) -> bool) {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .filter_map(|slab| slab.java_call())
            .filter(|java_call| which(java_call))
            .for_each(|java_call| java_call.cut());
    }

    /// The slab of this number.
    pub fn get(&self, number: i32) -> Option<Arc<Slab>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        usize::try_from(number).ok().and_then(|number| all.get(number)).cloned()
    }
}
