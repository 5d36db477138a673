//! Limits the memory of a system under test: its own control group with a limit. The limit includes the
//! memory that its processes allocate and the kernel's page cache of the files that they read.
//!
//! A control group of version 2 with the controller `memory` is made beside this process's own group, because
//! a group with processes cannot enable a controller for groups below it; with version 1 it is made below it.
//! No other program is needed. If neither can be created, the message states what is missing.

use rustix::fs::Advice;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use touchstone_lab::memory::Size;

/// Executes a command when this process is in the group, which is the first argument. So all memory and
/// processes of the command are in the group.
const WAIT_FOR_GROUP: &str = "until case \"$(cat /proc/$$/cgroup)\" in *\"$0\"*) ;; *) false ;; esac; \
                              do sleep 0.01; done; exec \"$@\"";
/// How long processes may take to leave the group after they were ended.
const EMPTY_TIME_LIMIT: Duration = Duration::from_secs(2);

/// A control group with a limit of memory. Dropping it takes it away.
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
}

/// Where groups can be made, and what their files are called.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// Below it.
    parent: PathBuf,
    /// The file of the limit.
    limit: &'static str,
    /// The files of the limit with swap; absent where the kernel accounts for none.
    swap: (&'static str, SwapLimit),
}

/// What the limit of swap is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SwapLimit {
    /// Of swap alone.
    OfSwap,
    /// Of memory and swap together.
    OfBoth,
}

impl MemoryGroup {
    /// Makes a group of this size; the text of an error states what is missing.
    pub fn make(size: Size) -> Result<MemoryGroup, String> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        MemoryGroup::make_in(&places(&own, &mounts), size)
    }

    /// The same in the first of these places where it can be created.
    fn make_in(places: &[Place], size: Size) -> Result<MemoryGroup, String> {
        /// Groups of this process, so that no two have one name.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut reasons = Vec::new();
        for place in places {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = place.parent.join(format!("touchstone-{}-{number}", std::process::id()));
            match place.make(&path, size) {
                Ok(()) => return Ok(MemoryGroup { path }),
                Err(error) => {
                    // Nothing is in it yet.
                    let _ = fs::remove_dir(&path);
                    reasons.push(format!("{}: {error}", place.parent.display()));
                }
            }
        }
        if reasons.is_empty() {
            reasons.push("this process is in no control group with the controller `memory`".to_owned());
        }
        Err(format!(
            "the memory of a system cannot be limited here ({}). It takes a control group in which this \
             user may make others: run as root, or with systemd as `systemd-run --user --scope touchstone \
             bench ...`",
            reasons.join("; ")
        ))
    }

    /// The command of an executable, still without its arguments. It waits until its process was put into the
    /// group with [`MemoryGroup::add`].
    pub fn command(&self, executable: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(WAIT_FOR_GROUP);
        command.args(self.path.file_name()).arg(executable);
        command
    }

    /// Puts a process into it; what the process starts from now on is in it as well.
    pub fn add(&self, pid: u32) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), pid.to_string())
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // It can be removed a moment after its last process has ended.
        let deadline = Instant::now() + EMPTY_TIME_LIMIT;
        while fs::remove_dir(&self.path).is_err() && self.path.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Place {
    fn make(&self, path: &Path, size: Size) -> io::Result<()> {
        fs::create_dir(path)?;
        fs::write(path.join(self.limit), size.bytes().to_string()).map_err(|error| {
            let lacks =
                error.kind() == io::ErrorKind::NotFound || error.kind() == io::ErrorKind::PermissionDenied;
            let message = format!("a group there has no {} that can be written ({error})", self.limit);
            if lacks { io::Error::new(error.kind(), message) } else { error }
        })?;
        let (file, kind) = self.swap;
        let most = if kind == SwapLimit::OfBoth { size.bytes() } else { 0 };
        // Without swap accounting there is no such file, and usually no swap.
        let _ = fs::write(path.join(file), most.to_string());
        Ok(())
    }
}

/// Where a group can be made, by `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn places(own: &str, mounts: &str) -> Vec<Place> {
    let of_version_1 = own.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == "memory").then_some(path)
    });
    if let Some(path) = of_version_1 {
        let parent = below_mount(mounts, "cgroup", Some("memory"), path);
        let swap = ("memory.memsw.limit_in_bytes", SwapLimit::OfBoth);
        return parent
            .map(|parent| Place { parent, limit: "memory.limit_in_bytes", swap })
            .into_iter()
            .collect();
    }
    let Some(path) = own.lines().find_map(|line| line.strip_prefix("0::")) else { return Vec::new() };
    let Some(group) = below_mount(mounts, "cgroup2", None, path) else { return Vec::new() };
    let swap = ("memory.swap.max", SwapLimit::OfSwap);
    let beside = group.parent().filter(|_| path != "/").map(Path::to_path_buf);
    [beside, Some(group)]
        .into_iter()
        .flatten()
        .map(|parent| Place { parent, limit: "memory.max", swap })
        .collect()
}

/// The directory of a group: where its hierarchy is mounted, and the group's path below what is mounted.
fn below_mount(mounts: &str, kind: &str, controller: Option<&str>, path: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (place, source) = line.split_once(" - ")?;
        let fields: Vec<&str> = place.split(' ').collect();
        let (root, point) = (*fields.get(3)?, *fields.get(4)?);
        let source: Vec<&str> = source.split(' ').collect();
        let options = source.get(2).copied().unwrap_or_default();
        let has_it = controller.is_none_or(|name| options.split(',').any(|option| option == name));
        if *source.first()? != kind || !has_it {
            return None;
        }
        // In a container the root of the mount may be the group itself.
        let inside = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path);
        Some(Path::new(point).join(inside.trim_start_matches('/')))
    })
}

/// Makes the kernel drop its page cache of the files below a directory, so that they are counted in the
/// memory of the process that reads them next.
pub fn forget_files(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            forget_files(&path)?;
        } else {
            let file = File::open(&path)?;
            // What is not yet on the disk cannot be forgotten.
            file.sync_data()?;
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "4:memory:/box/a1\n1:cpu:/\n0::/\n";
    const V1_MOUNTS: &str = "30 20 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                             31 20 0:31 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n";
    const V2_MOUNTS: &str = "29 20 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn groups_are_made_below_one_of_version_1_and_beside_one_of_version_2() {
        let parents = |own: &str, mounts: &str| -> Vec<String> {
            places(own, mounts).iter().map(|place| place.parent.display().to_string()).collect()
        };
        assert_eq!(parents(V1, V1_MOUNTS), ["/sys/fs/cgroup/memory/box/a1"]);
        assert_eq!(places(V1, V1_MOUNTS)[0].limit, "memory.limit_in_bytes");
        let session = "0::/user.slice/app.slice/run-1.scope\n";
        assert_eq!(
            parents(session, V2_MOUNTS),
            ["/sys/fs/cgroup/user.slice/app.slice", "/sys/fs/cgroup/user.slice/app.slice/run-1.scope"]
        );
        assert_eq!(parents("0::/\n", V2_MOUNTS), ["/sys/fs/cgroup/"]);
        // The mount shows a part of the hierarchy.
        let inside = "29 20 0:26 /docker/c1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        assert_eq!(parents("0::/docker/c1/x/y\n", inside)[0], "/sys/fs/cgroup/x");
        assert!(parents("", "").is_empty() && parents("0::/a\n", "").is_empty());
    }

    #[test]
    fn what_is_missing_is_said() {
        let missing = MemoryGroup::make_in(&[], Size::parse("64MiB").unwrap()).unwrap_err();
        assert!(missing.contains("no control group with the controller `memory`"), "{missing}");
        let place = tempfile::tempdir().unwrap();
        let swap = ("memory.swap.max", SwapLimit::OfSwap);
        let nowhere = Place { parent: place.path().join("none"), limit: "memory.max", swap };
        let refused = MemoryGroup::make_in(&[nowhere], Size::parse("64MiB").unwrap()).unwrap_err();
        assert!(refused.contains("none: No such file") && refused.contains("systemd-run"), "{refused}");
    }

    #[test]
    fn files_can_be_forgotten() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("below")).unwrap();
        fs::write(place.path().join("below/file"), "text").unwrap();
        forget_files(place.path()).unwrap();
        assert_eq!(fs::read_to_string(place.path().join("below/file")).unwrap(), "text");
    }
}
