//! `systhread_*`: threads that plug-ins start, and thread-local data.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_ulong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use crate::breadcrumb::{Breadcrumb, breadcrumb, set_breadcrumb};

static NEXT_KEY: AtomicI32 = AtomicI32::new(0);

thread_local! {
    static DATA: RefCell<Vec<*mut c_void>> = const { RefCell::new(Vec::new()) };
}

/// The data for a new thread; the plug-in guarantees that its argument may be used there.
struct Start {
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
    plugin: Breadcrumb,
}

// SAFETY: the plug-in gave the argument for the other thread; the names are never freed.
unsafe impl Send for Start {}

/// The smallest stack: the functions of libraries need as much.
const LEAST_STACK_BYTES: usize = 256 * 1024;

pub unsafe extern "C" fn systhread_start(
    _priority: c_int,
    stack_size: c_int,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
) -> *mut c_void {
    let Some(function) = function else { return ptr::null_mut() };
    let start = Start { function, argument, plugin: breadcrumb() };
    let stack = usize::try_from(stack_size).unwrap_or(0);
    let mut builder = std::thread::Builder::new().name("nsapi-plugin".to_string());
    if stack > 0 {
        builder = builder.stack_size(stack.max(LEAST_STACK_BYTES));
    }
    let started = builder.spawn(move || {
        let start = start;
        set_breadcrumb(start.plugin);
        (start.function)(start.argument);
    });
    match started {
        // Any value except null means that it runs.
        Ok(thread) => thread.thread().id().hash_value(),
        Err(_) => ptr::null_mut(),
    }
}

trait HashValue {
    fn hash_value(&self) -> *mut c_void;
}

impl HashValue for std::thread::ThreadId {
    fn hash_value(&self) -> *mut c_void {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        ptr::without_provenance_mut((hasher.finish() | 1) as usize)
    }
}

pub unsafe extern "C" fn systhread_current() -> *mut c_void {
    std::thread::current().id().hash_value()
}

pub unsafe extern "C" fn systhread_yield() {
    std::thread::yield_now();
}

pub unsafe extern "C" fn systhread_attach() -> *mut c_void {
    systhread_current()
}

pub unsafe extern "C" fn systhread_detach(_thread: *mut c_void) {}

pub unsafe extern "C" fn systhread_terminate(_thread: *mut c_void) {
    // A thread that is ended from outside would keep its locks.
    crate::engine::unsupported("systhread_terminate");
}

pub unsafe extern "C" fn systhread_sleep(milliseconds: c_int) {
    std::thread::sleep(Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0)));
}

pub unsafe extern "C" fn systhread_init(_name: *mut c_char) {}

pub unsafe extern "C" fn systhread_timerset(_microseconds: c_int) {}

pub unsafe extern "C" fn systhread_newkey() -> c_int {
    NEXT_KEY.fetch_add(1, Ordering::Relaxed)
}

pub unsafe extern "C" fn systhread_getdata(key: c_int) -> *mut c_void {
    let index = usize::try_from(key).unwrap_or(usize::MAX);
    DATA.with_borrow(|data| data.get(index).copied().unwrap_or(ptr::null_mut()))
}

pub unsafe extern "C" fn systhread_setdata(key: c_int, value: *mut c_void) {
    let Ok(index) = usize::try_from(key) else { return };
    if key >= NEXT_KEY.load(Ordering::Relaxed) {
        return;
    }
    DATA.with_borrow_mut(|data| {
        if data.len() <= index {
            data.resize(index + 1, ptr::null_mut());
        }
        data[index] = value;
    });
}

pub unsafe extern "C" fn systhread_set_default_stacksize(_size: c_ulong) {}
