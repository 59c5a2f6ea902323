//! What a process asks the machine for that is no file of a database.

use std::fs;

/// Where systems keep the number that [`machine_id`] gives.
const MACHINE_ID_FILES: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// Digits of that number.
const MACHINE_ID_DIGITS: usize = 32;

/// The number that this installation of the system drew when it was set up, and tells nobody
/// outside (machine-id(5)); `None` where there is none, as in many containers.
pub fn machine_id() -> Option<String> {
    let is_one =
        |text: &String| text.len() == MACHINE_ID_DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit());
    let read = |path| fs::read_to_string(path).ok().map(|text| text.trim().to_ascii_lowercase());
    MACHINE_ID_FILES.into_iter().filter_map(read).find(is_one)
}

/// Lets every other thread of the machine go first, from now on. Where that is refused, the thread
/// goes on as before.
pub fn yield_to_others() {
    // On Linux, no process means the thread that asks.
    let _refused = rustix::process::setpriority_process(None, 19);
}
