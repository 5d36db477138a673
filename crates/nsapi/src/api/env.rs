//! `util_env_*`: environments of programs, as lists of `NAME=value` with a null at the end.

use std::ffi::{c_char, c_int};
use std::ptr;

use crate::abi::Pblock;
use crate::memory::{self, allocate, bytes, free, reallocate};
use crate::pblock;

/// Spare places of a new environment.
const SPARE_PLACES: usize = 1;

/// A new environment with these texts.
///
/// # Safety
/// The list is new, so only memory is needed.
pub unsafe fn list_of(texts: &[Vec<u8>]) -> *mut *mut c_char {
    let list = allocate((texts.len() + 1) * size_of::<*mut c_char>()).cast::<*mut c_char>();
    if !list.is_null() {
        for (index, text) in texts.iter().enumerate() {
            *list.add(index) = memory::text(text);
        }
        *list.add(texts.len()) = ptr::null_mut();
    }
    list
}

unsafe fn length(env: *mut *mut c_char) -> usize {
    let mut count = 0;
    while !env.is_null() && !(*env.add(count)).is_null() {
        count += 1;
    }
    count
}

/// Makes room for `count` more entries; `*position` is the index of the next one.
pub unsafe extern "C" fn util_env_create(
    env: *mut *mut c_char,
    count: c_int,
    position: *mut c_int,
) -> *mut *mut c_char {
    let used = length(env);
    let places = used + usize::try_from(count).unwrap_or(0) + SPARE_PLACES;
    let list = reallocate(env.cast(), places * size_of::<*mut c_char>()).cast::<*mut c_char>();
    if !list.is_null() {
        for index in used..places {
            *list.add(index) = ptr::null_mut();
        }
        if !position.is_null() {
            *position = used as c_int;
        }
    }
    list
}

pub unsafe extern "C" fn util_env_str(name: *const c_char, value: *const c_char) -> *mut c_char {
    memory::text(&[bytes(name), b"=", bytes(value)].concat())
}

pub unsafe extern "C" fn util_env_replace(env: *mut *mut c_char, name: *const c_char, value: *const c_char) {
    for index in 0..length(env) {
        if value_of(bytes(*env.add(index)), bytes(name)).is_some() {
            free((*env.add(index)).cast());
            *env.add(index) = util_env_str(name, value);
            return;
        }
    }
}

pub unsafe extern "C" fn util_env_free(env: *mut *mut c_char) {
    for index in 0..length(env) {
        free((*env.add(index)).cast());
    }
    free(env.cast());
}

pub unsafe extern "C" fn util_env_copy(from: *mut *mut c_char, to: *mut *mut c_char) -> *mut *mut c_char {
    let mut position = 0;
    let list = util_env_create(to, length(from) as c_int, &mut position);
    if !list.is_null() {
        for index in 0..length(from) {
            *list.add(position as usize + index) = memory::text(bytes(*from.add(index)));
        }
    }
    list
}

pub unsafe extern "C" fn util_env_find(env: *mut *mut c_char, name: *const c_char) -> *mut c_char {
    for index in 0..length(env) {
        let entry = *env.add(index);
        if value_of(bytes(entry), bytes(name)).is_some() {
            return entry.add(bytes(name).len() + 1);
        }
    }
    ptr::null_mut()
}

fn value_of<'a>(entry: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    entry.strip_prefix(name)?.strip_prefix(b"=")
}

/// Adds all names and values of a block to an environment.
pub unsafe extern "C" fn pblock_pb2env(block: *const Pblock, env: *mut *mut c_char) -> *mut *mut c_char {
    let mut texts = Vec::new();
    pblock::for_each(block, |name, value| texts.push([name, b"=", value].concat()));
    let mut position = 0;
    let list = util_env_create(env, texts.len() as c_int, &mut position);
    if !list.is_null() {
        for (index, text) in texts.iter().enumerate() {
            *list.add(position as usize + index) = memory::text(text);
        }
    }
    list
}
