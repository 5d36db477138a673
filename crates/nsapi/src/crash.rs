//! Reports when a plug-in crashes: the plug-in, the function and the signal.
//!
//! The process cannot continue: it ends as it would without this module. But the last line of the log names
//! the plug-in. The thread's memory may be overwritten, including its record of the running function: the
//! record is used only if it names an existing function. (If the kernel's own part of that memory is
//! overwritten, no handler runs at all.) Otherwise the address of the instruction identifies the plug-in, and
//! if it is in none of them, all plug-ins are named.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::breadcrumb::{Breadcrumb, breadcrumb};

const SIGNALS: [(c_int, &CStr); 5] = [
    (libc::SIGSEGV, c"SIGSEGV (invalid memory reference)"),
    (libc::SIGBUS, c"SIGBUS (invalid memory reference)"),
    (libc::SIGFPE, c"SIGFPE (a division by zero)"),
    (libc::SIGILL, c"SIGILL (no instruction)"),
    (libc::SIGABRT, c"SIGABRT (abort)"),
];

/// The previous signal actions, which are used afterwards.
static mut BEFORE: [MaybeUninit<libc::sigaction>; SIGNALS.len()] =
    [const { MaybeUninit::uninit() }; SIGNALS.len()];

/// Names of functions and their plug-ins, which are never freed. Further functions have no entry.
static FUNCTIONS: [(AtomicPtr<c_char>, AtomicPtr<c_char>); 512] =
    [const { (AtomicPtr::new(ptr::null_mut()), AtomicPtr::new(ptr::null_mut())) }; 512];
static FUNCTION_COUNT: AtomicUsize = AtomicUsize::new(0);

/// The address range of a plug-in's code.
struct CodeRange {
    begin: AtomicUsize,
    end: AtomicUsize,
    plugin: AtomicPtr<c_char>,
}

static CODE_RANGES: [CodeRange; 128] = [const {
    CodeRange {
        begin: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        plugin: AtomicPtr::new(ptr::null_mut()),
    }
}; 128];
static CODE_RANGE_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Registers a function. Both texts must never be freed.
pub fn register_function(function: &'static CStr, plugin: &'static CStr) {
    let index = FUNCTION_COUNT.fetch_add(1, Ordering::AcqRel);
    if let Some((name, of)) = FUNCTIONS.get(index) {
        of.store(plugin.as_ptr().cast_mut(), Ordering::Release);
        name.store(function.as_ptr().cast_mut(), Ordering::Release);
    }
}

/// Registers the address ranges of the code of a plug-in and of its libraries.
pub fn register_code_ranges(ranges: &[(usize, usize)], plugin: &CStr) {
    let name: &'static CStr = Box::leak(plugin.into());
    for (begin, end) in ranges {
        let index = CODE_RANGE_COUNT.fetch_add(1, Ordering::AcqRel);
        if let Some(range) = CODE_RANGES.get(index) {
            range.plugin.store(name.as_ptr().cast_mut(), Ordering::Release);
            range.end.store(*end, Ordering::Release);
            range.begin.store(*begin, Ordering::Release);
        }
    }
}

/// The address ranges of the segments of all loaded libraries.
pub fn loaded_code_ranges() -> Vec<(usize, usize)> {
    unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _size: usize, to: *mut c_void) -> c_int {
        let (info, ranges) = (&*info, &mut *to.cast::<Vec<(usize, usize)>>());
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
            let begin = info.dlpi_addr as usize + header.p_vaddr as usize;
            ranges.push((begin, begin + header.p_memsz as usize));
        }
        0
    }
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    // SAFETY: the function gets the list that it expects, and the loader's own structures.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut ranges).cast()) };
    ranges
}

/// The plug-in whose code contains an address, or null. May be called in a signal handler.
pub fn plugin_at(address: usize) -> *const c_char {
    let count = CODE_RANGE_COUNT.load(Ordering::Acquire).min(CODE_RANGES.len());
    let is_there = |range: &&CodeRange| {
        let begin = range.begin.load(Ordering::Acquire);
        begin != 0 && address >= begin && address < range.end.load(Ordering::Acquire)
    };
    CODE_RANGES[..count]
        .iter()
        .find(is_there)
        .map_or(ptr::null(), |range| range.plugin.load(Ordering::Acquire))
}

/// The function in the thread's record, if it is a registered one.
fn known(here: Breadcrumb) -> Option<(*const c_char, *const c_char)> {
    let count = FUNCTION_COUNT.load(Ordering::Acquire).min(FUNCTIONS.len());
    FUNCTIONS[..count]
        .iter()
        .map(|(function, plugin)| (function.load(Ordering::Acquire), plugin.load(Ordering::Acquire)))
        .find(|(function, _)| !function.is_null() && ptr::eq(*function, here.function))
        .map(|(function, plugin)| (function.cast_const(), plugin.cast_const()))
}

/// Reports crashes from now on. Signals in other code are passed to the previous action.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (index, (signal, _)) in SIGNALS.iter().enumerate() {
            // SAFETY: the handler calls only async-signal-safe functions; nothing else uses BEFORE.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction =
                    on_signal as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
                // The stack may have overflowed: Rust's threads have another stack for handlers.
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
                libc::sigaction(*signal, &action, (&raw mut BEFORE[index]).cast());
            }
        }
    });
}

extern "C" fn on_signal(signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    let index = SIGNALS.iter().position(|(known, _)| *known == signal).unwrap_or(0);
    // SAFETY: `install` has filled BEFORE. With the previous action restored, the instruction runs again and
    // fails again, or abort raises the signal again. This is done first: if this handler fails, the process
    // still ends.
    unsafe {
        libc::sigaction(signal, (&raw const BEFORE[index]).cast(), ptr::null_mut());
    }
    let what = SIGNALS[index].1.as_ptr();
    let of_plugin = plugin_at(instruction(context));
    let here = if has_thread_memory() { breadcrumb() } else { Breadcrumb::NONE };
    if let Some((function, plugin)) = known(here) {
        report(&[
            c"touchstone: the function ".as_ptr(),
            function,
            c" of the plug-in ".as_ptr(),
            plugin,
            c" has crashed with ".as_ptr(),
            what,
            c"\n".as_ptr(),
        ]);
    } else if !of_plugin.is_null() {
        report(&[
            c"touchstone: a thread of the plug-in ".as_ptr(),
            of_plugin,
            c" has crashed with ".as_ptr(),
            what,
            c"\n".as_ptr(),
        ]);
    } else if continues_process(index) {
        report_all(what);
    }
}

/// Whether thread-local variables can be accessed. On x86-64 this needs a pointer in memory, which the thread
/// may have overwritten; the kernel has its original value.
fn has_thread_memory() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        const ARCH_GET_FS: c_int = 0x1003;
        let (mut wanted, found): (usize, usize);
        wanted = 0;
        // SAFETY: the call writes one word; the segment register points to the memory of the thread, which
        // exists.
        unsafe {
            libc::syscall(libc::SYS_arch_prctl, ARCH_GET_FS, &raw mut wanted);
            std::arch::asm!("mov {}, fs:[0]", out(reg) found, options(nostack, readonly, preserves_flags));
        }
        wanted == found
    }
    #[cfg(not(target_arch = "x86_64"))]
    true
}

/// Whether the previous action is that of the system or of Rust's library: then the process ends now. A Java
/// virtual machine uses such signals itself, and they are no crashes.
fn continues_process(index: usize) -> bool {
    // SAFETY: `install` has filled BEFORE.
    let before = unsafe { BEFORE[index].assume_init_ref() };
    let own = touchstone_code();
    matches!(before.sa_sigaction, libc::SIG_DFL) || (own.0..own.1).contains(&before.sa_sigaction)
}

/// The address range of the program's own code, from the linker.
fn touchstone_code() -> (usize, usize) {
    unsafe extern "C" {
        static __executable_start: c_char;
        static etext: c_char;
    }
    (&raw const __executable_start as usize, &raw const etext as usize)
}

/// Names all plug-ins, because the faulty one is not known.
fn report_all(what: *const c_char) {
    let mut texts = [c"".as_ptr(); 24];
    texts[0] = c"touchstone: the process has crashed with ".as_ptr();
    texts[1] = what;
    texts[2] = c" outside of its plug-ins, or one has overwritten the memory of the thread; loaded:".as_ptr();
    let mut length = 3;
    let count = CODE_RANGE_COUNT.load(Ordering::Acquire).min(CODE_RANGES.len());
    for range in &CODE_RANGES[..count] {
        let plugin = range.plugin.load(Ordering::Acquire).cast_const();
        if length + 2 < texts.len() && !texts[..length].contains(&plugin) {
            texts[length] = c" ".as_ptr();
            texts[length + 1] = plugin;
            length += 2;
        }
    }
    texts[length] = c"\n".as_ptr();
    report(&texts[..=length]);
}

/// The instruction of a thread at the time of the signal; 0 if unknown.
fn instruction(context: *mut c_void) -> usize {
    // SAFETY: the kernel gives the context to a handler with SA_SIGINFO.
    let Some(context) = (unsafe { context.cast::<libc::ucontext_t>().as_ref() }) else { return 0 };
    #[cfg(target_arch = "x86_64")]
    return context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    return context.uc_mcontext.pc as usize;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return 0;
}

/// Writes texts to standard error as one unbroken line. It may be called in a handler: it makes the system
/// call directly, because the C library's function uses thread memory.
pub fn report(texts: &[*const c_char]) {
    let mut line = [0u8; 1024];
    let mut length = 0;
    for text in texts {
        let mut at = *text;
        // SAFETY: each is a C text that is never freed.
        unsafe {
            while !at.is_null() && *at != 0 && length < line.len() {
                line[length] = *at as u8;
                length += 1;
                at = at.add(1);
            }
        }
    }
    // SAFETY: the buffer holds that many bytes.
    unsafe {
        libc::syscall(libc::SYS_write, libc::STDERR_FILENO, line.as_ptr(), length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_that_there_are_are_believed() {
        let (function, plugin) = (c"a-function", c"a.so");
        let own = Breadcrumb { plugin: c"another.so".as_ptr(), function: function.as_ptr() };
        assert_eq!(known(own), None);
        register_function(function, plugin);
        assert_eq!(known(own), Some((function.as_ptr(), plugin.as_ptr())));
        // The record of an overwritten thread.
        let wrong =
            Breadcrumb { plugin: ptr::without_provenance(8), function: ptr::without_provenance(0x4141) };
        assert_eq!(known(wrong), None);
        assert_eq!(known(Breadcrumb::NONE), None);
    }

    #[test]
    fn the_memory_of_a_thread_is_there() {
        assert!(has_thread_memory());
        assert!(std::thread::spawn(has_thread_memory).join().unwrap());
    }

    #[test]
    fn an_address_identifies_the_plugin() {
        let name = c"place.so";
        register_code_ranges(&[(0x10, 0x20), (0x40, 0x50)], name);
        let text = |address| match plugin_at(address) {
            plugin if plugin.is_null() => None,
            // SAFETY: the names are never freed.
            plugin => Some(unsafe { CStr::from_ptr(plugin) }),
        };
        assert_eq!([text(0x0f), text(0x20), text(0x3f), text(0x50)], [None; 4]);
        assert_eq!([text(0x10), text(0x1f), text(0x4f)], [Some(name); 3]);
        let own = only_functions_that_there_are_are_believed as fn() as usize;
        assert!(loaded_code_ranges().iter().any(|(begin, end)| (*begin..*end).contains(&own)));
        assert!((touchstone_code().0..touchstone_code().1).contains(&own));
    }
}
