//! Locks: critical sections, condition variables and semaphores.
//!
//! A thread may enter a critical section again while it is in it, as plug-ins expect.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::{Condvar, Mutex, PoisonError};

/// A lock that its owner may take again.
struct Critical {
    state: Mutex<(Option<std::thread::ThreadId>, usize)>,
    freed: Condvar,
}

impl Critical {
    fn enter(&self, times: usize) {
        let me = std::thread::current().id();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0 == Some(me) {
            state.1 += times;
            return;
        }
        while state.0.is_some() {
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        *state = (Some(me), times);
    }

    /// Leaves it once or entirely; returns how many times it was held before.
    fn exit(&self, all: bool) -> usize {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0 != Some(std::thread::current().id()) {
            return 0;
        }
        let held = state.1;
        state.1 = if all { 0 } else { held - 1 };
        if state.1 == 0 {
            state.0 = None;
            self.freed.notify_one();
        }
        held
    }
}

struct Condition {
    critical: *const Critical,
    turns: Mutex<(u64, u64)>,
    changed: Condvar,
}

pub unsafe extern "C" fn crit_init() -> *mut c_void {
    Box::into_raw(Box::new(Critical { state: Mutex::new((None, 0)), freed: Condvar::new() })).cast()
}

pub unsafe extern "C" fn crit_enter(id: *mut c_void) {
    if let Some(critical) = id.cast::<Critical>().as_ref() {
        critical.enter(1);
    }
}

pub unsafe extern "C" fn crit_exit(id: *mut c_void) {
    if let Some(critical) = id.cast::<Critical>().as_ref() {
        critical.exit(false);
    }
}

pub unsafe extern "C" fn crit_terminate(id: *mut c_void) {
    if !id.is_null() {
        drop(Box::from_raw(id.cast::<Critical>()));
    }
}

pub unsafe extern "C" fn condvar_init(id: *mut c_void) -> *mut c_void {
    let condition = Condition { critical: id.cast(), turns: Mutex::new((0, 0)), changed: Condvar::new() };
    Box::into_raw(Box::new(condition)).cast()
}

pub unsafe extern "C" fn condvar_wait(id: *mut c_void) {
    let Some(condition) = id.cast::<Condition>().as_ref() else { return };
    let mut turns = condition.turns.lock().unwrap_or_else(PoisonError::into_inner);
    let mine = turns.0;
    turns.0 += 1;
    let held = condition.critical.as_ref().map_or(0, |critical| critical.exit(true));
    // Waiting threads are woken in the order in which they began to wait.
    while turns.1 <= mine {
        turns = condition.changed.wait(turns).unwrap_or_else(PoisonError::into_inner);
    }
    drop(turns);
    if let (Some(critical), true) = (condition.critical.as_ref(), held > 0) {
        critical.enter(held);
    }
}

pub unsafe extern "C" fn condvar_notify(id: *mut c_void) {
    wake(id, false);
}

pub unsafe extern "C" fn condvar_notify_all(id: *mut c_void) {
    wake(id, true);
}

unsafe fn wake(id: *mut c_void, all: bool) {
    let Some(condition) = id.cast::<Condition>().as_ref() else { return };
    let mut turns = condition.turns.lock().unwrap_or_else(PoisonError::into_inner);
    turns.1 = if all { turns.0 } else { (turns.1 + 1).min(turns.0) };
    condition.changed.notify_all();
}

pub unsafe extern "C" fn condvar_terminate(id: *mut c_void) {
    if !id.is_null() {
        drop(Box::from_raw(id.cast::<Condition>()));
    }
}

struct Semaphore {
    count: Mutex<c_int>,
    raised: Condvar,
}

pub unsafe extern "C" fn cs_init(count: c_int) -> *mut c_void {
    Box::into_raw(Box::new(Semaphore { count: Mutex::new(count), raised: Condvar::new() })).cast()
}

pub unsafe extern "C" fn cs_terminate(id: *mut c_void) {
    if !id.is_null() {
        drop(Box::from_raw(id.cast::<Semaphore>()));
    }
}

pub unsafe extern "C" fn cs_wait(id: *mut c_void) -> c_int {
    let Some(semaphore) = id.cast::<Semaphore>().as_ref() else { return -1 };
    let mut count = semaphore.count.lock().unwrap_or_else(PoisonError::into_inner);
    while *count <= 0 {
        count = semaphore.raised.wait(count).unwrap_or_else(PoisonError::into_inner);
    }
    *count -= 1;
    0
}

pub unsafe extern "C" fn cs_trywait(id: *mut c_void) -> c_int {
    let Some(semaphore) = id.cast::<Semaphore>().as_ref() else { return -1 };
    let mut count = semaphore.count.lock().unwrap_or_else(PoisonError::into_inner);
    if *count <= 0 {
        return -1;
    }
    *count -= 1;
    0
}

pub unsafe extern "C" fn cs_release(id: *mut c_void) -> c_int {
    let Some(semaphore) = id.cast::<Semaphore>().as_ref() else { return -1 };
    *semaphore.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    semaphore.raised.notify_one();
    0
}

/// A lock between the threads of the server; in the original servers, between processes.
pub unsafe extern "C" fn sem_init(_name: *mut c_char, _number: c_int) -> *mut c_void {
    cs_init(1)
}

pub unsafe extern "C" fn sem_terminate(id: *mut c_void) {
    cs_terminate(id);
}

pub unsafe extern "C" fn sem_grab(id: *mut c_void) -> c_int {
    cs_wait(id)
}

pub unsafe extern "C" fn sem_tgrab(id: *mut c_void) -> c_int {
    cs_trywait(id)
}

pub unsafe extern "C" fn sem_release(id: *mut c_void) -> c_int {
    cs_release(id)
}

/// Memory shared by the threads of the server; in the original servers, by processes.
pub unsafe extern "C" fn shmem_alloc(
    name: *mut c_char,
    size: c_int,
    _expose: c_int,
) -> *mut crate::abi::SharedMemory {
    use crate::memory::{allocate_for_good, system_calloc_perm, system_strdup_perm};
    let region = allocate_for_good(size_of::<crate::abi::SharedMemory>()).cast::<crate::abi::SharedMemory>();
    let data = system_calloc_perm(size);
    if region.is_null() || data.is_null() {
        return ptr::null_mut();
    }
    let fd = crate::abi::error_handle();
    region.write(crate::abi::SharedMemory { data, size, name: system_strdup_perm(name), fd });
    region
}

pub unsafe extern "C" fn shmem_free(region: *mut crate::abi::SharedMemory) {
    if let Some(parts) = region.as_ref() {
        crate::memory::free(parts.data.cast());
        crate::memory::free(parts.name.cast());
        crate::memory::free(region.cast());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_critical_section_is_entered_twice_by_its_owner_and_waited_for_by_others() {
        // SAFETY: the locks live until the threads have ended.
        unsafe {
            let critical = crit_init() as usize;
            let condition = condvar_init(critical as *mut c_void) as usize;
            let ready = cs_init(0) as usize;
            crit_enter(critical as *mut c_void);
            crit_enter(critical as *mut c_void);
            let waiter = std::thread::spawn(move || {
                crit_enter(critical as *mut c_void);
                cs_release(ready as *mut c_void);
                condvar_wait(condition as *mut c_void);
                crit_exit(critical as *mut c_void);
            });
            assert_eq!(cs_trywait(ready as *mut c_void), -1);
            crit_exit(critical as *mut c_void);
            crit_exit(critical as *mut c_void);
            cs_wait(ready as *mut c_void);
            // The waiter holds the section until it waits, so this call returns only then.
            crit_enter(critical as *mut c_void);
            condvar_notify(condition as *mut c_void);
            crit_exit(critical as *mut c_void);
            waiter.join().unwrap();
            condvar_terminate(condition as *mut c_void);
            crit_terminate(critical as *mut c_void);
            cs_terminate(ready as *mut c_void);
        }
    }
}
