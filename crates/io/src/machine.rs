//! What a process asks the machine for, other than files of a database.

use std::fs;
use std::path::{Path, PathBuf};

/// The files in which systems keep the number that [`machine_id`] returns.
const MACHINE_ID_FILES: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// The number of digits.
const MACHINE_ID_DIGITS: usize = 32;

/// Returns the number that this installation of the system has drawn at its setup, and that it
/// keeps secret (machine-id(5)). Returns `None` if there is none, as in many containers.
pub fn machine_id() -> Option<String> {
    let is_one =
        |text: &String| text.len() == MACHINE_ID_DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit());
    let read = |path| fs::read_to_string(path).ok().map(|text| text.trim().to_ascii_lowercase());
    MACHINE_ID_FILES.into_iter().filter_map(read).find(is_one)
}

/// Lets every other thread of the machine go first, from now on. If that is refused, the thread
/// continues as before.
pub fn yield_to_others() {
    // On Linux, no process means the calling thread.
    let _refused = rustix::process::setpriority_process(None, 19);
}

/// Returns the bytes of memory that the process may take in its control groups, of either version
/// (cgroups(7)). Returns `None` if they have no limit, or cannot be seen.
pub fn memory_of_groups() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    // Without a limit there is the word "max", or more than any machine has.
    let limit = |file: PathBuf| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    limit_files(&groups, &mounts).into_iter().filter_map(limit).min()
}

/// Returns the files with the limits of the groups that the process is in, and of those above them.
fn limit_files(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let group_of = |is_it: &dyn Fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, group) = (parts.next()?, parts.next()?);
            is_it(controllers).then_some(group)
        })
    };
    let has_memory = |names: &str| names.split(',').any(|name| name == "memory");
    let mut files = Vec::new();
    for mount in mounts.lines() {
        let Some((place, kind)) = mount.split_once(" - ") else { continue };
        let (place, mut kind) = (place.split(' ').skip(3), kind.split(' '));
        let (file, group) = match (kind.next(), kind.next_back()) {
            (Some("cgroup2"), _) => ("memory.max", group_of(&str::is_empty)),
            (Some("cgroup"), Some(options)) if has_memory(options) => {
                ("memory.limit_in_bytes", group_of(&has_memory))
            }
            _ => continue,
        };
        let places: Vec<&str> = place.take(2).collect();
        if let (Some(group), [root, point]) = (group, places.as_slice()) {
            // In a container the group may be outside of what is mounted, which then is the group.
            let below = Path::new(group).strip_prefix(root).unwrap_or(Path::new(""));
            files.extend(below.ancestors().map(|group| Path::new(point).join(group).join(file)));
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(groups: &str, mounts: &str) -> Vec<String> {
        limit_files(groups, mounts).iter().map(|file| file.display().to_string()).collect()
    }

    #[test]
    fn limits_are_looked_for_in_the_groups_of_the_process_and_above() {
        let second = "30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(
            files("0::/user/app\n", second),
            [
                "/sys/fs/cgroup/user/app/memory.max",
                "/sys/fs/cgroup/user/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        let first = "\
            32 31 0:30 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
            35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";
        let groups = "5:devices:/\n4:memory:/app\n3:cpu,cpuacct:/other\n0::/\n";
        let expected = [
            "/sys/fs/cgroup/memory/app/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        ];
        assert_eq!(files(groups, first), expected);
        // A container, of which the group above is not mounted.
        let inside = "35 31 0:32 /docker/1f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        assert_eq!(files("4:memory:/docker/1f\n", inside), expected[1..]);
        assert_eq!(files("4:memory:/\n", inside), expected[1..]);
        assert!(files(groups, "22 27 0:21 / /proc rw - proc proc rw\n").is_empty());
        assert!(files("", first).is_empty() && files("nonsense", "nonsense").is_empty());
    }
}
