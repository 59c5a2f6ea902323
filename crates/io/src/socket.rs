//! Asks the kernel about a socket.

use rustix::ioctl::{Getter, Opcode, ioctl};
use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// `SIOCOUTQNSD` of `linux/sockios.h`.
const UNSENT: Opcode = 0x894B;

/// `IPPROTO_TCP` and `TCP_INFO` of `linux/tcp.h`.
const TCP: c_int = 6;
const INFO: c_int = 11;

/// The beginning of `struct tcp_info`, which each kernel has: four bytes, of which the third is how often the
/// oldest bytes on their way were sent again, and the fourth how often the other end was asked in vain if it
/// is there; nine counts; and four times in milliseconds, the last of which is since when nothing was
/// acknowledged.
type Info = [u32; 15];

/// So many questions may get no answer: the other end's system answers few of them in one second.
const IN_VAIN_MAX: u8 = 2;

unsafe extern "C" {
    /// POSIX. Writes at most `length` bytes to `value`, and to `length` how many.
    fn getsockopt(socket: c_int, level: c_int, option: c_int, value: *mut c_void, length: *mut u32) -> c_int;
}

/// Returns the bytes of a TCP connection that the kernel has accepted and not yet sent for the
/// first time. Returns `None` if it does not tell.
pub fn unsent_bytes(socket: impl AsFd) -> Option<u64> {
    // SAFETY: this request writes one `int` to the address in its argument, and nothing else; other
    // descriptors refuse it.
    let unsent = unsafe { ioctl(socket, Getter::<UNSENT, c_int>::new()) };
    unsent.ok()?.try_into().ok()
}

/// Returns for how long the system at the other end of a TCP connection has acknowledged nothing, if bytes or
/// questions go to it again for want of an answer. Returns `None` if it answers, however little its program
/// takes of what was sent, and if the kernel does not tell.
pub fn unanswered_for(socket: impl AsFd) -> Option<Duration> {
    let mut info: Info = [0; 15];
    let size = size_of::<Info>() as u32;
    let mut length = size;
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: whoever owns the descriptor is there, so it is open; the kernel writes at most `length` bytes,
    // which `info` has.
    let failed = unsafe { getsockopt(descriptor, TCP, INFO, info.as_mut_ptr().cast(), &raw mut length) };
    let [_, _, sent_again, asked_in_vain] = info[0].to_ne_bytes();
    if failed != 0 || length < size || (sent_again == 0 && asked_in_vain <= IN_VAIN_MAX) {
        return None;
    }
    Some(Duration::from_millis(info[14].into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    #[test]
    fn of_what_nobody_reads_some_is_unsent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_other, _) = listener.accept().unwrap();
        assert_eq!(unsent_bytes(&one), Some(0));
        one.set_nonblocking(true).unwrap();
        while one.write(&[0; 1 << 16]).is_ok() {}
        assert!(unsent_bytes(&one).unwrap() > 0);
        let (unix, _peer) = UnixStream::pair().unwrap();
        assert_eq!(unsent_bytes(&unix), None);
        // The other end's system answers, although nobody reads there.
        assert_eq!(unanswered_for(&one), None);
        assert_eq!(unanswered_for(&unix), None);
    }
}
