//! `util_*` functions for times.

use std::ffi::{c_char, c_int};
use std::ptr;

use touchstone_http::date::parse_http_date;

use crate::memory::bytes;

/// The size of the buffer for `util_ctime` and `util_asctime`, as in POSIX.
const TIME_TEXT_BYTES: c_int = 26;

unsafe fn now() -> i64 {
    libc::time(ptr::null_mut())
}

/// Seconds since 1970 of a time in UTC.
unsafe fn seconds(time: *const libc::tm) -> i64 {
    let mut copy = *time;
    libc::timegm(&mut copy)
}

/// Returns 1 if the file is not newer than the date, which is an HTTP date.
pub unsafe extern "C" fn util_later_than(modified: *const libc::tm, since: *const c_char) -> c_int {
    compare(modified, since, |modified, since| modified <= since)
}

pub unsafe extern "C" fn util_time_equal(modified: *const libc::tm, since: *const c_char) -> c_int {
    compare(modified, since, |modified, since| modified == since)
}

unsafe fn compare(
    modified: *const libc::tm,
    since: *const c_char,
    is_so: impl Fn(i64, i64) -> bool,
) -> c_int {
    if modified.is_null() {
        return 0;
    }
    // "; length=" may follow, as old browsers wrote it.
    let date = bytes(since).split(|byte| *byte == b';').next().unwrap_or_default();
    parse_http_date(date.trim_ascii(), now()).map_or(0, |since| c_int::from(is_so(seconds(modified), since)))
}

/// Returns 0 if two HTTP dates are equal.
pub unsafe extern "C" fn util_str_time_equal(one: *const c_char, other: *const c_char) -> c_int {
    let now = now();
    match (parse_http_date(bytes(one), now), parse_http_date(bytes(other), now)) {
        (Some(one), Some(other)) if one == other => 0,
        (None, None) if bytes(one) == bytes(other) => 0,
        _ => -1,
    }
}

pub unsafe extern "C" fn util_strftime(
    str: *mut c_char,
    format: *const c_char,
    time: *const libc::tm,
) -> c_int {
    // The function gets no length: plug-ins pass a buffer for at least a line of a log.
    libc::strftime(str, 1_024, format, time) as c_int
}

pub unsafe extern "C" fn util_localtime(clock: *const libc::time_t, result: *mut libc::tm) -> *mut libc::tm {
    libc::localtime_r(clock, result)
}

pub unsafe extern "C" fn util_gmtime(clock: *const libc::time_t, result: *mut libc::tm) -> *mut libc::tm {
    libc::gmtime_r(clock, result)
}

pub unsafe extern "C" fn util_ctime(clock: *const libc::time_t, to: *mut c_char, size: c_int) -> *mut c_char {
    let mut time: libc::tm = std::mem::zeroed();
    if libc::localtime_r(clock, &mut time).is_null() {
        return ptr::null_mut();
    }
    util_asctime(&time, to, size)
}

pub unsafe extern "C" fn util_asctime(time: *const libc::tm, to: *mut c_char, size: c_int) -> *mut c_char {
    if to.is_null() || size < TIME_TEXT_BYTES || time.is_null() {
        return ptr::null_mut();
    }
    match libc::strftime(to, size as usize, c"%a %b %e %H:%M:%S %Y\n".as_ptr(), time) {
        0 => ptr::null_mut(),
        _ => to,
    }
}

pub unsafe extern "C" fn util_strerror(number: c_int, to: *mut c_char, size: c_int) -> *mut c_char {
    if to.is_null() || size <= 0 {
        return ptr::null_mut();
    }
    let text = std::io::Error::from_raw_os_error(number).to_string();
    let text = &text.as_bytes()[..text.len().min(size as usize - 1)];
    ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), text.len());
    *to.add(text.len()) = 0;
    to
}
