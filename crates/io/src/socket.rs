//! Asks the kernel about a socket.

use rustix::ioctl::{Getter, Opcode, ioctl};
use std::ffi::c_int;
use std::os::fd::AsFd;

/// `SIOCOUTQNSD` of `linux/sockios.h`.
const UNSENT: Opcode = 0x894B;

/// Returns the bytes of a TCP connection that the kernel has accepted and not yet sent for the
/// first time. Returns `None` if it does not tell.
pub fn unsent_bytes(socket: impl AsFd) -> Option<u64> {
    // SAFETY: this request writes one `int` to the address in its argument, and nothing else; other
    // descriptors refuse it.
    let unsent = unsafe { ioctl(socket, Getter::<UNSENT, c_int>::new()) };
    unsent.ok()?.try_into().ok()
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
    }
}
