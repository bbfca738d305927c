//! A network namespace of a test's own.
#![allow(unsafe_code, reason = "system calls the standard library does not have")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::thread;

use pascaline_testkit::skipped;

/// Runs `body` in a thread that has a network namespace for itself; the kernel removes that with everything
/// in it when the thread has ended. Without the right to do so, the test counts as skipped.
pub(crate) fn in_namespace(body: impl FnOnce() + Send + 'static) {
    let name = thread::current().name().unwrap_or("unnamed").to_owned();
    let thread = thread::Builder::new().name(name).spawn(move || {
        // SAFETY: changes the namespace of this thread only.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            let error = io::Error::last_os_error();
            return skipped(&format!("no network namespace ({error}): needs root"));
        }
        // No router solicitations among the test's frames. Where there is no IPv6 there is nothing to turn
        // off.
        for which in ["all", "default"] {
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1");
        }
        body();
    });
    if let Err(panic) = thread.expect("a thread").join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs `ip` in the namespace of the calling thread.
pub(crate) fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("iproute2 is installed");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Two connected interfaces that are up.
pub(crate) fn veth(left: &str, right: &str) {
    ip(&format!("link add {left} type veth peer name {right}"));
    ip(&format!("link set {left} up"));
    ip(&format!("link set {right} up"));
}

/// A raw socket on an interface of the calling thread's namespace: the kernel's side of a device.
pub(crate) struct RawSocket(OwnedFd);

impl RawSocket {
    pub(crate) fn on(interface: &str) -> Self {
        let name = std::ffi::CString::new(interface).unwrap();
        let all = u16::try_from(libc::ETH_P_ALL).unwrap().to_be();
        // SAFETY: plain system calls; the address is a live, zeroed structure of the size given.
        unsafe {
            let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, i32::from(all));
            assert!(socket >= 0, "raw socket: {}", io::Error::last_os_error());
            let socket = OwnedFd::from_raw_fd(socket);
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = u16::try_from(libc::AF_PACKET).unwrap();
            address.sll_protocol = all;
            address.sll_ifindex = libc::if_nametoindex(name.as_ptr()).cast_signed();
            let length = u32::try_from(size_of::<libc::sockaddr_ll>()).unwrap();
            let bound = libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length);
            assert_eq!(bound, 0, "bind to {interface}: {}", io::Error::last_os_error());
            Self(socket)
        }
    }

    pub(crate) fn send(&self, bytes: &[u8]) {
        // SAFETY: the buffer is live.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
        assert_eq!(usize::try_from(sent), Ok(bytes.len()), "send: {}", io::Error::last_os_error());
    }

    /// The next frame, if there is one.
    pub(crate) fn receive(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; 4096];
        // SAFETY: the buffer is live and of this length.
        let got = unsafe { libc::recv(self.0.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        bytes.truncate(usize::try_from(got).ok()?);
        Some(bytes)
    }
}
