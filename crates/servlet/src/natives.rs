//! The functions of the class `Native`, which Java calls for work that does not fit into one call and its
//! return value.

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use jni_sys::{JNIEnv, jboolean, jclass, jint, jstring};
use touchstone_http::field_lines;

use crate::head::{self, Fault, PREFIX_BYTES};
use crate::java_call::{AnswerEnd, ClientDisconnected, JavaCall};
use crate::java_runtime;
use crate::server_log;
use crate::slab::{INPUT_BYTES, Slab};

/// Negative results, as in `Native.java`.
const END: jint = -1;
const GONE: jint = -2;
const REFUSED: jint = -3;

/// The argument of `threads` for the number of threads.
const THREADS: jint = 0;
const BUSY_THREADS: jint = 1;

/// A flag of `drain`: the caller must not wait.
const NO_WAIT: jint = 2;

/// Names, signatures and functions.
pub fn table() -> [(&'static CStr, &'static CStr, *mut c_void); 15] {
    [
        (c"fill", c"(IZ)I", fill as *mut c_void),
        (c"available", c"(I)I", available as *mut c_void),
        (c"wantRead", c"(I)V", want_read as *mut c_void),
        (c"drain", c"(III)I", drain as *mut c_void),
        (c"canWrite", c"(I)Z", can_write as *mut c_void),
        (c"finish", c"(IIZ)V", finish as *mut c_void),
        (c"cut", c"(I)V", cut as *mut c_void),
        (c"complete", c"(II)V", complete as *mut c_void),
        (c"resume", c"(I)V", resume as *mut c_void),
        (c"threads", c"(II)I", threads as *mut c_void),
        (c"acknowledge", c"(I)V", acknowledge as *mut c_void),
        (c"requestTrailers", c"(I)I", request_trailers as *mut c_void),
        (c"trailers", c"(II)V", trailers as *mut c_void),
        (c"earlyHints", c"(II)V", early_hints as *mut c_void),
        (c"log", c"(ILjava/lang/String;)V", log as *mut c_void),
    ]
}

extern "system" fn fill(_env: *mut JNIEnv, _class: jclass, slab: jint, waits: jboolean) -> jint {
    let Some((slab, java_call)) = under_way(slab) else { return GONE };
    // SAFETY: Java calls this under the lock of the slab's Java call, and reads the buffer after it.
    let taken = java_call.read(waits, |piece| unsafe { slab.input.put(piece) });
    match taken {
        Ok(Some(bytes)) => jint::try_from(bytes).unwrap_or(0),
        Ok(None) => END,
        Err(ClientDisconnected) => GONE,
    }
}

extern "system" fn available(_env: *mut JNIEnv, _class: jclass, slab: jint) -> jint {
    let Some((_, java_call)) = under_way(slab) else { return GONE };
    match java_call.readable() {
        Ok(Some(bytes)) => jint::try_from(bytes).unwrap_or(jint::MAX),
        Ok(None) => END,
        Err(ClientDisconnected) => GONE,
    }
}

extern "system" fn want_read(_env: *mut JNIEnv, _class: jclass, slab: jint) {
    if let Some((_, java_call)) = under_way(slab) {
        java_call.request_read_event();
    }
}

extern "system" fn drain(_env: *mut JNIEnv, _class: jclass, slab: jint, length: jint, flags: jint) -> jint {
    let Some((slab, java_call)) = under_way(slab) else { return GONE };
    // SAFETY: Java calls this under the lock of the slab's Java call, and writes to the buffer only after it.
    let written = unsafe { slab.output.get(usize::try_from(length).unwrap_or(0)) };
    match head::read(written) {
        Ok(piece) => match java_call.write(piece, flags & NO_WAIT == 0) {
            Ok(()) => 0,
            Err(ClientDisconnected) => GONE,
        },
        Err(fault) => {
            refuse(&fault);
            REFUSED
        }
    }
}

extern "system" fn can_write(_env: *mut JNIEnv, _class: jclass, slab: jint) -> jboolean {
    under_way(slab).is_none_or(|(_, java_call)| java_call.has_room())
}

extern "system" fn finish(_env: *mut JNIEnv, _class: jclass, slab: jint, length: jint, is_whole: jboolean) {
    let Some((slab, java_call)) = under_way(slab) else { return };
    // SAFETY: as in `drain`.
    let written = unsafe { slab.output.get(usize::try_from(length).unwrap_or(0)) };
    slab.set_java_call(None);
    let piece = head::read(written).map_err(|fault| refuse(&fault)).ok();
    java_call.finish(piece, if is_whole { AnswerEnd::Whole } else { AnswerEnd::Broken }, true);
    java_runtime::of_process().slabs().release_slab(java_call.route(), slab);
}

extern "system" fn cut(_env: *mut JNIEnv, _class: jclass, slab: jint) {
    if let Some((_, java_call)) = under_way(slab) {
        java_call.cut();
    }
}

extern "system" fn complete(_env: *mut JNIEnv, _class: jclass, slab: jint, length: jint) {
    let Some((slab, java_call)) = under_way(slab) else { return };
    let length = usize::try_from(length).unwrap_or(0);
    // SAFETY: as in `drain`. Java does not change it until the request has ended.
    if let Ok(piece) = head::read(unsafe { slab.output.get(length) }) {
        java_call.complete(piece, length);
    }
}

extern "system" fn resume(_env: *mut JNIEnv, _class: jclass, route: jint) {
    if let Some(pool) = java_runtime::of_process().pool(route) {
        pool.resume();
    }
}

extern "system" fn threads(_env: *mut JNIEnv, _class: jclass, route: jint, what: jint) -> jint {
    let status = java_runtime::of_process().pool(route).map(|pool| pool.status()).unwrap_or_default();
    let number = match what {
        THREADS => status.threads,
        BUSY_THREADS => status.busy,
        _ => status.most_threads,
    };
    jint::try_from(number).unwrap_or(jint::MAX)
}

/// Logs why the output is not an answer; Java logs the request.
fn refuse(fault: &Fault) {
    server_log::log(0, &format!("an answer is refused: {fault}"));
}

extern "system" fn acknowledge(_env: *mut JNIEnv, _class: jclass, slab: jint) {
    if let Some((_, java_call)) = under_way(slab) {
        java_call.acknowledge();
    }
}

extern "system" fn request_trailers(_env: *mut JNIEnv, _class: jclass, slab: jint) -> jint {
    let Some((slab, java_call)) = under_way(slab) else { return 0 };
    let lines = java_call.take_body_trailers();
    // If the lines do not fit, all of them are omitted, so that no line is cut.
    if lines.len() > INPUT_BYTES {
        return 0;
    }
    // SAFETY: as in `fill`.
    let taken = unsafe { slab.input.put(&lines) };
    jint::try_from(taken).unwrap_or(0)
}

extern "system" fn trailers(_env: *mut JNIEnv, _class: jclass, slab: jint, length: jint) {
    with_lines(slab, length, |java_call, lines| java_call.set_trailers(lines));
}

extern "system" fn early_hints(_env: *mut JNIEnv, _class: jclass, slab: jint, length: jint) {
    with_lines(slab, length, |java_call, lines| java_call.hint(lines));
}

/// Calls `take` with the field lines in a slab, which are in the same place as those of a head; not if they
/// are invalid.
fn with_lines(slab: jint, length: jint, take: impl FnOnce(&Arc<JavaCall>, &[u8])) {
    let Some((slab, java_call)) = under_way(slab) else { return };
    // SAFETY: as in `drain`.
    let written = unsafe { slab.output.get(usize::try_from(length).unwrap_or(0)) };
    if let Some(lines) = written.get(PREFIX_BYTES..).filter(|lines| field_lines::are_valid(lines)) {
        take(&java_call, lines);
    }
}

extern "system" fn log(env: *mut JNIEnv, _class: jclass, level: jint, text: jstring) {
    if !text.is_null() {
        // SAFETY: Java has called with its environment and a string.
        let text = unsafe { crate::jvm::text_of(env, text) };
        server_log::log(level, &text);
    }
}

type RunningCall = (Arc<Slab>, Arc<JavaCall>);

/// A slab with its request; `None` if the request has ended.
fn under_way(slab: jint) -> Option<RunningCall> {
    let slab = java_runtime::of_process().slabs().get(slab)?;
    let java_call = slab.java_call()?;
    Some((slab, java_call))
}
