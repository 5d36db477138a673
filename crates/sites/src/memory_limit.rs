//! The memory limit of this process: that of its control group, or the memory of the machine. The caches
//! derive their sizes from it if the configuration states none, so that a server in a small container is not
//! killed because its caches are too large.

use std::fs;
use std::path::{Path, PathBuf};

/// The memory of a cache if there is enough.
const CACHE_BYTES: u64 = 256 << 20;

/// The most memory of a cache: the stated size, or 256 MiB, but at most a quarter of the memory limit.
pub fn cache_bytes(stated: Option<u64>) -> u64 {
    stated.unwrap_or_else(|| share(allowed(Path::new("/proc"), Path::new("/sys/fs/cgroup"))))
}

fn share(allowed: Option<u64>) -> u64 {
    allowed.map_or(CACHE_BYTES, |bytes| CACHE_BYTES.min(bytes / 4))
}

/// The least of the limits that apply to this process.
fn allowed(proc: &Path, groups: &Path) -> Option<u64> {
    let own = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    let of_groups =
        own.lines().flat_map(|line| limit_files(line, groups)).filter_map(|file| number_in(&file));
    of_groups.chain(memory_of_machine(proc)).min()
}

/// The files that may limit the group in a line of `/proc/self/cgroup` (`0::/a/b`, `4:memory:/a/b`): its own
/// and those of its parent groups.
fn limit_files(line: &str, groups: &Path) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (root, file) = match controllers {
        "" => (groups.to_path_buf(), "memory.max"),
        "memory" => (groups.join("memory"), "memory.limit_in_bytes"),
        _ => return Vec::new(),
    };
    let group = root.join(path.trim_start_matches('/'));
    group.ancestors().take_while(|around| around.starts_with(&root)).map(|around| around.join(file)).collect()
}

/// A limit; `max` means none.
fn number_in(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn memory_of_machine(proc: &Path) -> Option<u64> {
    let text = fs::read_to_string(proc.join("meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = place.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        place
    }

    fn allowed_in(files: &[(&str, &str)]) -> Option<u64> {
        let place = tree(files);
        allowed(&place.path().join("proc"), &place.path().join("cgroup"))
    }

    #[test]
    fn the_least_limit_holds() {
        let machine = ("proc/meminfo", "MemTotal:       16000 kB\nMemFree: 1 kB\n");
        let version_2 = ("proc/self/cgroup", "0::/a/b\n");
        assert_eq!(allowed_in(&[]), None);
        assert_eq!(allowed_in(&[machine]), Some(16_384_000));
        assert_eq!(allowed_in(&[machine, version_2, ("cgroup/a/b/memory.max", "max\n")]), Some(16_384_000));
        let own = ("cgroup/a/b/memory.max", "9000\n");
        assert_eq!(allowed_in(&[machine, version_2, own]), Some(9000));
        assert_eq!(allowed_in(&[machine, version_2, own, ("cgroup/a/memory.max", "8000\n")]), Some(8000));
        // In a container the group is seen as the root of its hierarchy.
        let root = ("proc/self/cgroup", "0::/\n");
        assert_eq!(allowed_in(&[machine, root, ("cgroup/memory.max", "7000\n")]), Some(7000));
        let version_1 = ("proc/self/cgroup", "5:cpu:/a\n4:memory:/a\n");
        let limit = ("cgroup/memory/a/memory.limit_in_bytes", "6000\n");
        assert_eq!(allowed_in(&[machine, version_1, limit, ("cgroup/cpu/a/memory.max", "1")]), Some(6000));
    }

    #[test]
    fn a_cache_gets_a_quarter_and_no_more_than_is_useful() {
        assert_eq!(share(None), 256 << 20);
        assert_eq!(share(Some(64 << 30)), 256 << 20);
        assert_eq!(share(Some(96 << 20)), 24 << 20);
    }
}
