//! Starts a program without copying its parent. Only this file of the CGI module uses `unsafe`.
//!
//! The child shares the parent's memory until it executes the program (`CLONE_VM`), and the parent waits
//! until then (`CLONE_VFORK`), so nothing is copied, however large the parent is. Until then the child may
//! only make system calls: no allocation, no lock, no panic. Therefore everything that it needs is made
//! before.
//!
//! The caller must have blocked signals (see [`prepare_signals`]). Otherwise a signal handler of the parent
//! could run in the child.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// A program to be started, and its properties.
pub struct Plan<'p> {
    /// The file to execute.
    pub program: &'p CStr,
    /// Its arguments, the first being its own name.
    pub arguments: &'p [&'p CStr],
    /// Its environment, `NAME=value`.
    pub environment: &'p [&'p CStr],
    /// Its current directory.
    pub directory: &'p CStr,
    /// Standard input, output and error; none of these descriptors may be 0, 1 or 2.
    pub standard: [BorrowedFd<'p>; 3],
    /// Permissions that are removed from the files that it makes.
    pub umask: u32,
    /// Its niceness, 0 to 19.
    pub niceness: i32,
    /// The user that it runs as; `None`: that of the parent.
    pub identity: Option<Identity<'p>>,
    /// Resource limits: `RLIMIT_*` and its value.
    pub limits: &'p [(u32, u64)],
    /// It cannot gain rights by executing a set-user-ID file.
    pub no_new_privileges: bool,
    /// It is killed when the calling thread ends.
    pub dies_with_parent: bool,
}

/// A user with groups.
#[derive(Debug, Clone, Copy)]
pub struct Identity<'p> {
    /// The number of the user.
    pub user: u32,
    /// The number of the group.
    pub group: u32,
    /// Supplementary groups.
    pub groups: &'p [u32],
}

/// A program that runs.
pub struct StartedProgram {
    /// Its process, which is also the number of its session and process group.
    pub process: i32,
    /// Readable when it has ended.
    pub pidfd: OwnedFd,
}

/// A program that was not started.
#[derive(Debug)]
pub struct NotStarted {
    /// The step that failed.
    pub stage: Stage,
    /// The reason.
    pub error: io::Error,
}

/// The steps to a running program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Making a process.
    Process,
    /// Making a session of its own.
    Session,
    /// Putting the descriptors in their places.
    Descriptors,
    /// Setting limits and niceness.
    Limits,
    /// Becoming the user.
    User,
    /// Going to the directory.
    Directory,
    /// Executing the file.
    Execute,
}

impl Stage {
    const ALL: [Stage; 7] = [
        Stage::Process,
        Stage::Session,
        Stage::Descriptors,
        Stage::Limits,
        Stage::User,
        Stage::Directory,
        Stage::Execute,
    ];

    /// The step with this number.
    pub fn from_number(number: u8) -> Option<Stage> {
        Stage::ALL.get(usize::from(number)).copied()
    }
}

/// The stack on which children run until they execute their programs.
pub struct Launcher {
    stack: Box<[u8]>,
}

/// Far more than the child's system calls need.
const STACK_BYTES: usize = 64 * 1024;

/// The data that the child reads, and the two values that it writes.
struct Job<'j> {
    plan: &'j Plan<'j>,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    parent: c_int,
    stage: AtomicI32,
    errno: AtomicI32,
}

impl Default for Launcher {
    /// Makes a launcher with its own stack.
    fn default() -> Launcher {
        Launcher { stack: vec![0; STACK_BYTES].into_boxed_slice() }
    }
}

impl Launcher {
    /// Starts a program. The calling thread waits until it has been executed.
    ///
    /// # Errors
    /// The step that failed. No process remains.
    pub fn start(&mut self, plan: &Plan<'_>) -> Result<StartedProgram, NotStarted> {
        let arguments = pointers(plan.arguments);
        let environment = pointers(plan.environment);
        let job = Job {
            plan,
            arguments: arguments.as_ptr(),
            environment: environment.as_ptr(),
            parent: rustix::process::getpid().as_raw_nonzero().get(),
            stage: AtomicI32::new(-1),
            errno: AtomicI32::new(0),
        };
        let mut pidfd: c_int = -1;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        // The stack grows downwards on every architecture on which Linux runs Rust. The ABI requires it to be
        // aligned.
        let top = self.stack.as_mut_ptr_range().end.map_addr(|address| address & !0xf);
        // SAFETY: `top` is the end of a live allocation that nothing else uses while this call lasts, because
        // of `&mut self`. CLONE_VFORK holds this thread until the child has executed or ended, so `job`, what
        // it points to and the stack outlive the child's use of them. The child runs `child`, which only
        // makes system calls and writes only to its stack, the errno of this waiting thread, and the two
        // atomics. The kernel writes `pidfd` before the call returns.
        let process = unsafe {
            libc::clone(
                child,
                top.cast::<c_void>(),
                flags,
                (&raw const job).cast_mut().cast::<c_void>(),
                &raw mut pidfd,
            )
        };
        if process < 0 {
            return Err(NotStarted { stage: Stage::Process, error: io::Error::last_os_error() });
        }
        // SAFETY: the kernel has just made this descriptor for this call (CLONE_PIDFD), so it has no other
        // owner.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        let failed = u8::try_from(job.stage.load(Ordering::Relaxed)).ok().and_then(Stage::from_number);
        match failed {
            None => Ok(StartedProgram { process, pidfd }),
            Some(stage) => {
                // It has ended already, or is about to.
                let _ = rustix::process::waitid(
                    rustix::process::WaitId::PidFd(std::os::fd::AsFd::as_fd(&pidfd)),
                    rustix::process::WaitIdOptions::EXITED,
                );
                let error = io::Error::from_raw_os_error(job.errno.load(Ordering::Relaxed));
                Err(NotStarted { stage, error })
            }
        }
    }
}

/// The array of pointers that `execve` takes, with its null at the end.
fn pointers(strings: &[&CStr]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain(std::iter::once(std::ptr::null())).collect()
}

/// The function that the child runs.
extern "C" fn child(job: *mut c_void) -> c_int {
    // SAFETY: `start` passes a pointer to a Job that lives until the parent continues, after this function.
    let job = unsafe { &*job.cast::<Job<'_>>() };
    let Err(stage) = become_program(job) else { return 0 };
    // SAFETY: the address of this thread's errno is always valid to read.
    let errno = unsafe { *libc::__errno_location() };
    job.errno.store(errno, Ordering::Relaxed);
    job.stage.store(stage as i32, Ordering::Relaxed);
    127
}

/// Takes all steps. Returns only if one of them fails, and errno is then that of the failed step.
fn become_program(job: &Job<'_>) -> Result<(), Stage> {
    let plan = job.plan;
    let done = |result: c_int, stage: Stage| if result < 0 { Err(stage) } else { Ok(()) };
    // SAFETY: only system calls are made, with numbers or with pointers to memory of `job`, which lives and
    // does not change until execve has replaced this image. The user and groups are set by raw system calls,
    // because the C library's functions would also signal the parent's other threads, which the child does
    // not have.
    unsafe {
        done(libc::setsid(), Stage::Session)?;
        for (place, descriptor) in plan.standard.iter().enumerate() {
            done(libc::dup2(descriptor.as_raw_fd(), place as c_int), Stage::Descriptors)?;
        }
        done(libc::syscall(libc::SYS_close_range, 3, c_int::MAX, 0) as c_int, Stage::Descriptors)
            .or_else(|stage| mark_close_on_exec().map_err(|()| stage))?;
        for &(resource, most) in plan.limits {
            let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
            done(libc::setrlimit(resource as _, &raw const limit), Stage::Limits)?;
        }
        if plan.niceness != 0 {
            done(libc::setpriority(libc::PRIO_PROCESS, 0, plan.niceness), Stage::Limits)?;
        }
        libc::umask(plan.umask as libc::mode_t);
        if let Some(Identity { user, group, groups }) = plan.identity {
            let set_groups = libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr());
            done(set_groups as c_int, Stage::User)?;
            done(libc::syscall(libc::SYS_setresgid, group, group, group) as c_int, Stage::User)?;
            done(libc::syscall(libc::SYS_setresuid, user, user, user) as c_int, Stage::User)?;
        }
        if plan.no_new_privileges {
            done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), Stage::User)?;
        }
        if plan.dies_with_parent {
            // After the change of user, which resets this setting.
            done(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0), Stage::User)?;
            // The parent may have ended before that.
            done(if libc::getppid() == job.parent { 0 } else { -1 }, Stage::Process)?;
        }
        done(libc::chdir(plan.directory.as_ptr()), Stage::Directory)?;
        let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
        libc::execve(plan.program.as_ptr(), job.arguments, job.environment);
    }
    Err(Stage::Execute)
}

/// Checks whether close_range failed because the kernel lacks it (before Linux 5.9) or forbids it. This is
/// not an error: execve closes all of the spawner's own descriptors anyway.
fn mark_close_on_exec() -> Result<(), ()> {
    // SAFETY: reads this thread's errno.
    match unsafe { *libc::__errno_location() } {
        libc::ENOSYS | libc::EPERM => Ok(()),
        _ => Err(()),
    }
}

/// Gives every signal its default action and blocks all signals for this thread. Programs that it starts
/// later have the same actions, and no blocked signals.
pub fn prepare_signals() {
    // The kernel's structure. For the default action (SIG_DFL) all of its fields are zero, and on every
    // architecture it is shorter than this array. The C library's function refuses to change the signals that
    // the library itself uses, but these may have been inherited as ignored too.
    let default_action = [0u64; 8];
    // SAFETY: the kernel only reads the structure. A handler is not called after its action was replaced. If
    // an action cannot be set, the call fails without effect. The library fills the set before it is read.
    unsafe {
        for signal in 1..=64 {
            let none = std::ptr::null_mut::<c_void>();
            libc::syscall(libc::SYS_rt_sigaction, signal, default_action.as_ptr(), none, 8);
        }
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
    }
}

/// Schedules this thread as a batch job (SCHED_BATCH): it does not preempt others when it has something to
/// do. Programs that it starts are scheduled as usual.
pub fn schedule_as_batch() {
    // The kernel's parameter is one integer, the priority. The call is made directly, because musl's function
    // of this name always fails, and its structure has other fields.
    let priority: libc::c_int = 0;
    let policy = libc::SCHED_BATCH | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the kernel only reads the parameter. If it refuses, scheduling stays as it was.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
}

/// Returns a descriptor that becomes readable when a child has ended. All signals must be blocked.
///
/// # Errors
/// No descriptor is free.
pub fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: the library fills the set before it is read. The descriptor is new and has no other owner.
    unsafe {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        match libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            ..0 => Err(io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor)),
        }
    }
}
