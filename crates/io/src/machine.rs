//! What a process asks the machine for, other than files of a database.

use std::fs;

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
