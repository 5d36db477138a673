//! `netbuf_*`: buffered reading of a request's body, and `filebuf_*`: buffered reading of files.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use crate::abi::{Filebuffer, IO_EOF, IO_ERROR, NETBUF_EOF, NETBUF_ERROR, Netbuf};
use crate::handle::{self, descriptor};
use crate::memory::{allocate, allocate_for_good, free};
use crate::plugin_request::of_handle;

/// The longest file that a buffer accepts: its length is an `int`.
const LONGEST_FILE_BYTES: u64 = i32::MAX as u64;

pub unsafe extern "C" fn netbuf_open(sd: *mut c_void, size: c_int) -> *mut Netbuf {
    let buffer = allocate(size_of::<Netbuf>()).cast::<Netbuf>();
    if !buffer.is_null() {
        let mut new: Netbuf = std::mem::zeroed();
        new.sd = sd;
        new.maxsize = size.clamp(1, 1 << 20);
        new.rdtimeout = 30;
        buffer.write(new);
    }
    buffer
}

pub unsafe extern "C" fn netbuf_close(buffer: *mut Netbuf) {
    if buffer.is_null() {
        return;
    }
    free((*buffer).inbuf);
    (*buffer).inbuf = ptr::null_mut();
    // The body of a request is part of its plug-in request.
    if of_handle((*buffer).sd).is_none_or(|plugin_request| &raw mut plugin_request.inbuf != buffer) {
        free(buffer.cast());
    }
}

pub unsafe extern "C" fn netbuf_next(buffer: *mut Netbuf, advance: c_int) -> c_int {
    if buffer.is_null() {
        return NETBUF_ERROR;
    }
    match netbuf_grab(buffer, (*buffer).maxsize) {
        IO_EOF => NETBUF_EOF,
        IO_ERROR => NETBUF_ERROR,
        read => {
            (*buffer).pos = advance.clamp(0, read);
            c_int::from(*(*buffer).inbuf)
        }
    }
}

pub unsafe extern "C" fn netbuf_grab(buffer: *mut Netbuf, size: c_int) -> c_int {
    if buffer.is_null() || size < 0 {
        return IO_ERROR;
    }
    let buffer = &mut *buffer;
    if buffer.inbuf.is_null() || size > buffer.maxsize {
        buffer.maxsize = buffer.maxsize.max(size).max(1);
        buffer.inbuf = allocate(buffer.maxsize as usize);
        if buffer.inbuf.is_null() {
            return IO_ERROR;
        }
    }
    buffer.pos = 0;
    buffer.cursize = 0;
    let room = std::slice::from_raw_parts_mut(buffer.inbuf, size as usize);
    let read = super::net::read(buffer.sd, room, buffer.rdtimeout);
    buffer.cursize = read.max(0);
    if read == IO_ERROR {
        buffer.errmsg = c"the client cannot be read from".as_ptr().cast_mut();
    }
    read
}

pub unsafe extern "C" fn netbuf_getbytes(buffer: *mut Netbuf, to: *mut c_char, size: c_int) -> c_int {
    if buffer.is_null() || to.is_null() || size < 0 {
        return NETBUF_ERROR;
    }
    let held = ((*buffer).cursize - (*buffer).pos).clamp(0, size);
    if held > 0 {
        ptr::copy_nonoverlapping((*buffer).inbuf.add((*buffer).pos as usize), to.cast(), held as usize);
        (*buffer).pos += held;
        return held;
    }
    if size == 0 {
        return 0;
    }
    let room = std::slice::from_raw_parts_mut(to.cast::<u8>(), size as usize);
    match super::net::read((*buffer).sd, room, (*buffer).rdtimeout) {
        IO_EOF => NETBUF_EOF,
        IO_ERROR => NETBUF_ERROR,
        read => read,
    }
}

pub unsafe extern "C" fn netbuf_buf2sd(buffer: *mut Netbuf, sd: *mut c_void, length: c_int) -> c_int {
    let mut sent = 0;
    while length < 0 || sent < length {
        let held = (*buffer).cursize - (*buffer).pos;
        if held <= 0 {
            match netbuf_grab(buffer, (*buffer).maxsize) {
                IO_EOF => return sent,
                IO_ERROR => return IO_ERROR,
                _ => continue,
            }
        }
        let piece = if length < 0 { held } else { held.min(length - sent) };
        let bytes = std::slice::from_raw_parts((*buffer).inbuf.add((*buffer).pos as usize), piece as usize);
        // With a handle of -1, the bytes are discarded.
        if sd != crate::abi::error_handle() && super::net::write(sd, bytes) == IO_ERROR {
            return IO_ERROR;
        }
        (*buffer).pos += piece;
        sent += piece;
    }
    sent
}

pub unsafe extern "C" fn filebuf_open(fd: *mut c_void, _size: c_int) -> *mut Filebuffer {
    let Some(number) = descriptor(fd) else { return ptr::null_mut() };
    let mut facts: libc::stat = std::mem::zeroed();
    if libc::fstat(number, &mut facts) != 0 {
        return ptr::null_mut();
    }
    filebuf_open_nostat(fd, 0, &mut facts)
}

pub unsafe extern "C" fn filebuf_open_nostat(
    fd: *mut c_void,
    _size: c_int,
    facts: *mut libc::stat,
) -> *mut Filebuffer {
    let Some(number) = descriptor(fd) else { return ptr::null_mut() };
    let length = if facts.is_null() { 0 } else { u64::try_from((*facts).st_size).unwrap_or(0) };
    if length > LONGEST_FILE_BYTES {
        return ptr::null_mut();
    }
    // The file is read, not mapped: if a mapped file were truncated, the process would crash.
    let bytes = allocate_for_good(length as usize + 1);
    let buffer = allocate_for_good(size_of::<Filebuffer>()).cast::<Filebuffer>();
    if bytes.is_null() || buffer.is_null() {
        return ptr::null_mut();
    }
    let mut filled = 0usize;
    while filled < length as usize {
        let read =
            libc::pread(number, bytes.add(filled).cast(), length as usize - filled, filled as libc::off_t);
        if read <= 0 {
            break;
        }
        filled += read as usize;
    }
    *bytes.add(filled) = 0;
    buffer.write(Filebuffer {
        fd,
        fp: bytes.cast(),
        len: filled as c_int,
        inbuf: bytes,
        cursize: filled as c_int,
        pos: 0,
        errmsg: ptr::null(),
    });
    buffer
}

pub unsafe extern "C" fn filebuf_create(
    fd: *mut c_void,
    mapped: *mut c_char,
    length: c_int,
    size: c_int,
) -> *mut Filebuffer {
    if mapped.is_null() {
        return filebuf_open(fd, size);
    }
    let buffer = allocate_for_good(size_of::<Filebuffer>()).cast::<Filebuffer>();
    if !buffer.is_null() {
        // Memory that the plug-in has mapped must not be freed here: `inbuf` stays null.
        let inbuf = ptr::null_mut();
        buffer.write(Filebuffer {
            fd,
            fp: mapped,
            len: length,
            inbuf,
            cursize: 0,
            pos: 0,
            errmsg: ptr::null(),
        });
    }
    buffer
}

pub unsafe extern "C" fn filebuf_close_buffer(buffer: *mut Filebuffer, unmap: c_int) {
    if buffer.is_null() {
        return;
    }
    if (*buffer).inbuf.is_null() {
        if unmap != 0 && !(*buffer).fp.is_null() {
            libc::munmap((*buffer).fp.cast(), (*buffer).len as usize);
        }
    } else {
        free((*buffer).inbuf);
    }
    free(buffer.cast());
}

pub unsafe extern "C" fn filebuf_close(buffer: *mut Filebuffer) {
    if !buffer.is_null() {
        handle::close((*buffer).fd);
        filebuf_close_buffer(buffer, 1);
    }
}

pub unsafe extern "C" fn filebuf_next(buffer: *mut Filebuffer, advance: c_int) -> c_int {
    if buffer.is_null() || (*buffer).pos >= (*buffer).len {
        return IO_EOF;
    }
    let byte = c_int::from(*(*buffer).fp.add((*buffer).pos as usize).cast::<u8>());
    (*buffer).pos = ((*buffer).pos + advance).clamp(0, (*buffer).len);
    byte
}

pub unsafe extern "C" fn filebuf_grab(buffer: *mut Filebuffer, size: c_int) -> c_int {
    if buffer.is_null() || (*buffer).pos >= (*buffer).len {
        return IO_EOF;
    }
    let piece = ((*buffer).len - (*buffer).pos).min(size.max(0));
    (*buffer).pos += piece;
    piece
}

pub unsafe extern "C" fn filebuf_buf2sd(buffer: *mut Filebuffer, sd: *mut c_void) -> c_int {
    if buffer.is_null() {
        return IO_ERROR;
    }
    let bytes = std::slice::from_raw_parts((*buffer).fp.cast::<u8>(), (*buffer).len as usize);
    super::net::write(sd, bytes)
}

/// Reads a line of a file without its end. Returns 1: it was the last, 0: there are more, -1: it is too long.
pub unsafe extern "C" fn util_getline(
    buffer: *mut Filebuffer,
    _line_number: c_int,
    size: c_int,
    line: *mut c_char,
) -> c_int {
    let mut length = 0;
    loop {
        if (*buffer).pos >= (*buffer).len {
            *line.add(length) = 0;
            return 1;
        }
        let byte = *(*buffer).fp.add((*buffer).pos as usize).cast::<u8>();
        (*buffer).pos += 1;
        match byte {
            b'\n' => {
                *line.add(length) = 0;
                return 0;
            }
            b'\r'
                if (*buffer).pos < (*buffer).len
                    && *(*buffer).fp.add((*buffer).pos as usize) == b'\n' as c_char => {}
            _ if length + 1 >= size.max(1) as usize => {
                *line.add(length) = 0;
                return -1;
            }
            _ => {
                *line.add(length) = byte as c_char;
                length += 1;
            }
        }
    }
}
