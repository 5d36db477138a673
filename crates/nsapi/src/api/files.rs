//! `system_*` and `file_*`: files.

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use crate::abi::{IO_ERROR, IO_OKAY, error_handle};
use crate::handle::{self, Handle, descriptor};
use crate::memory::{self, bytes};

unsafe fn open(path: *const c_char, flags: c_int) -> *mut c_void {
    if path.is_null() {
        return error_handle();
    }
    match libc::open(path, flags | libc::O_CLOEXEC, 0o666) {
        number if number < 0 => error_handle(),
        number => Handle::open(OwnedFd::from_raw_fd(number)),
    }
}

pub unsafe extern "C" fn system_fopen_ro(path: *const c_char) -> *mut c_void {
    open(path, libc::O_RDONLY)
}

pub unsafe extern "C" fn system_fopen_wa(path: *const c_char) -> *mut c_void {
    open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND)
}

pub unsafe extern "C" fn system_fopen_rw(path: *const c_char) -> *mut c_void {
    open(path, libc::O_RDWR | libc::O_CREAT)
}

pub unsafe extern "C" fn system_fopen_wt(path: *const c_char) -> *mut c_void {
    open(path, libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC)
}

pub unsafe extern "C" fn system_fread(fd: *mut c_void, to: *mut c_void, size: c_int) -> c_int {
    let Some(number) = descriptor(fd) else { return IO_ERROR };
    match libc::read(number, to, size.max(0) as usize) {
        read if read < 0 => IO_ERROR,
        read => read as c_int,
    }
}

pub unsafe extern "C" fn system_fwrite(fd: *mut c_void, data: *const c_void, size: c_int) -> c_int {
    let Some(number) = descriptor(fd) else { return IO_ERROR };
    let mut left = std::slice::from_raw_parts(data.cast::<u8>(), size.max(0) as usize);
    while !left.is_empty() {
        match libc::write(number, left.as_ptr().cast(), left.len()) {
            written if written > 0 => left = &left[written as usize..],
            _ if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            _ => return IO_ERROR,
        }
    }
    IO_OKAY
}

/// Like `system_fwrite`, but locks the file during the write.
pub unsafe extern "C" fn system_fwrite_atomic(fd: *mut c_void, data: *const c_void, size: c_int) -> c_int {
    if system_flock(fd) == IO_ERROR {
        return IO_ERROR;
    }
    let answer = system_fwrite(fd, data, size);
    if system_ulock(fd) == IO_ERROR { IO_ERROR } else { answer }
}

pub unsafe extern "C" fn system_lseek(fd: *mut c_void, offset: c_int, whence: c_int) -> c_int {
    descriptor(fd).map_or(IO_ERROR, |number| libc::lseek(number, offset as libc::off_t, whence) as c_int)
}

pub unsafe extern "C" fn system_fclose(fd: *mut c_void) -> c_int {
    if handle::close(fd) { IO_OKAY } else { IO_ERROR }
}

pub unsafe extern "C" fn system_stat(path: *const c_char, facts: *mut libc::stat) -> c_int {
    if path.is_null() || facts.is_null() { -1 } else { libc::stat(path, facts) }
}

pub unsafe extern "C" fn system_rename(from: *const c_char, to: *const c_char) -> c_int {
    libc::rename(from, to)
}

pub unsafe extern "C" fn system_unlink(path: *const c_char) -> c_int {
    libc::unlink(path)
}

unsafe fn lock(fd: *mut c_void, operation: c_int) -> c_int {
    match descriptor(fd) {
        Some(number) if libc::flock(number, operation) == 0 => IO_OKAY,
        _ => IO_ERROR,
    }
}

pub unsafe extern "C" fn system_tlock(fd: *mut c_void) -> c_int {
    lock(fd, libc::LOCK_EX | libc::LOCK_NB)
}

pub unsafe extern "C" fn system_flock(fd: *mut c_void) -> c_int {
    lock(fd, libc::LOCK_EX)
}

pub unsafe extern "C" fn system_ulock(fd: *mut c_void) -> c_int {
    lock(fd, libc::LOCK_UN)
}

/// Makes a directory and its missing parents.
pub unsafe extern "C" fn dir_create_all(path: *mut c_char) -> c_int {
    use std::os::unix::ffi::OsStrExt;
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(bytes(path)));
    if std::fs::create_dir_all(path).is_ok() { 0 } else { -1 }
}

pub unsafe extern "C" fn system_nocoredumps() -> c_int {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    libc::setrlimit(libc::RLIMIT_CORE, &none)
}

pub unsafe extern "C" fn file_setinherit(fd: *mut c_void, inherit: c_int) -> c_int {
    let flags = if inherit == 0 { libc::FD_CLOEXEC } else { 0 };
    descriptor(fd).map_or(IO_ERROR, |number| libc::fcntl(number, libc::F_SETFD, flags))
}

/// Whether the last call failed because a file does not exist.
pub unsafe extern "C" fn file_notfound() -> c_int {
    let error = std::io::Error::last_os_error().raw_os_error();
    c_int::from(matches!(error, Some(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG)))
}

pub unsafe extern "C" fn system_errmsg() -> *mut c_char {
    memory::text(std::io::Error::last_os_error().to_string().as_bytes())
}

pub unsafe extern "C" fn system_errmsg_fn(to: *mut *mut c_char, size: usize) -> c_int {
    let text = std::io::Error::last_os_error().to_string();
    let text = &text.as_bytes()[..text.len().min(size.saturating_sub(1))];
    if to.is_null() {
        return 0;
    }
    if (*to).is_null() {
        *to = memory::text(text);
    } else if size > 0 {
        ptr::copy_nonoverlapping(text.as_ptr(), (*to).cast(), text.len());
        *(*to).add(text.len()) = 0;
    }
    text.len() as c_int
}

pub unsafe extern "C" fn file_is_path_abs(path: *const c_char) -> c_int {
    c_int::from(bytes(path).first() == Some(&b'/'))
}

pub unsafe extern "C" fn file_canonicalize_path(path: *const c_char) -> *mut c_char {
    let copy = memory::text(bytes(path));
    super::escape::util_uri_parse(copy);
    copy
}

pub unsafe extern "C" fn file_are_files_distinct(one: *mut c_void, other: *mut c_void) -> c_int {
    let facts = |fd: *mut c_void| {
        let mut facts: libc::stat = std::mem::zeroed();
        let number = descriptor(fd)?;
        (libc::fstat(number, &mut facts) == 0).then_some((facts.st_dev, facts.st_ino))
    };
    match (facts(one), facts(other)) {
        (Some(one), Some(other)) => c_int::from(one != other),
        _ => -1,
    }
}

pub unsafe extern "C" fn util_can_exec(
    facts: *mut libc::stat,
    user: libc::uid_t,
    group: libc::gid_t,
) -> c_int {
    let Some(facts) = facts.as_ref() else { return 0 };
    let bit = match () {
        () if user == 0 => 0o111,
        () if facts.st_uid == user => 0o100,
        () if facts.st_gid == group => 0o010,
        () => 0o001,
    };
    c_int::from(facts.st_mode & bit != 0)
}

pub unsafe extern "C" fn util_getpwnam(
    name: *const c_char,
    result: *mut libc::passwd,
    buffer: *mut c_char,
    size: c_int,
) -> *mut libc::passwd {
    let mut found = ptr::null_mut();
    if libc::getpwnam_r(name, result, buffer, size.max(0) as usize, &mut found) != 0 {
        return ptr::null_mut();
    }
    found
}

pub unsafe extern "C" fn util_waitpid(pid: libc::pid_t, status: *mut c_int, options: c_int) -> libc::pid_t {
    loop {
        let answer = libc::waitpid(pid, status, options);
        if answer >= 0 || std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return answer;
        }
    }
}

/// The server writes the error log: there is no handle for it.
pub unsafe extern "C" fn ereport_getfd() -> *mut c_void {
    error_handle()
}

pub unsafe extern "C" fn ereport_init(
    _file: *const c_char,
    _email: *const c_char,
    _user: *mut libc::passwd,
    _version: *const c_char,
    _restart: c_int,
) -> *mut c_char {
    ptr::null_mut()
}
