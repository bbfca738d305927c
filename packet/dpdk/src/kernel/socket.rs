//! Packet sockets, and queries about an interface.

use core::ffi::{CStr, c_int, c_ulong, c_void};
use core::mem::{MaybeUninit, size_of};
use core::ptr;
use core::time::Duration;
use std::ffi::CString;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use crate::error::Errno;

/// Room for what arrives while its lcore is not scheduled. A packet in one piece counts for a few hundred
/// bytes more than its length.
const ROOM: c_int = 32 << 20;
/// `PACKET_FANOUT_HASH`: by flow.
const FANOUT_HASH: c_int = 0;

/// A raw socket. All its calls are made without waiting.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

fn errno() -> Errno {
    Errno::from_raw(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

impl Socket {
    /// A socket that receives nothing.
    pub(super) fn unbound() -> Result<Self, Errno> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(errno());
        }
        // SAFETY: just opened, and owned by no one else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// A socket that sends to an interface and receives nothing.
    pub(super) fn sending(index: i32) -> Result<Self, Errno> {
        let socket = Self::unbound()?;
        socket.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
        socket.enlarge();
        socket.bind(index, 0)?;
        Ok(socket)
    }

    /// One of `queues` sockets on an interface, among which the kernel spreads flows.
    pub(super) fn on(index: i32, queues: u16, promiscuous: bool) -> Result<Self, Errno> {
        let socket = Self::unbound()?;
        socket.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1)?;
        // A wire would not bring the host's own frames.
        socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
        // The host's traffic control is not bypassed (PACKET_QDISC_BYPASS): then the kernel would drop frames
        // that it has to cut because the interface does not.
        socket.enlarge();
        socket.bind(index, libc::ETH_P_ALL)?;
        if queues > 1 {
            // Queues of one interface and process belong together.
            let group = (index ^ std::process::id().cast_signed()) & 0xffff;
            socket.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &(group | FANOUT_HASH << 16))?;
        }
        // Neighbour solicitations for an IPv6 address go to a group of its own.
        socket.join(index, libc::PACKET_MR_ALLMULTI, &[])?;
        if promiscuous {
            socket.join(index, libc::PACKET_MR_PROMISC, &[])?;
        }
        Ok(socket)
    }

    /// Makes the interface accept frames for another address.
    pub(super) fn accept_mac(&self, index: i32, mac: [u8; 6]) -> Result<(), Errno> {
        self.join(index, libc::PACKET_MR_UNICAST, &mac)
    }

    /// Makes the interface accept more than frames for its own address.
    fn join(&self, index: i32, kind: c_int, address: &[u8]) -> Result<(), Errno> {
        let (kind, length) = (u16::try_from(kind), u16::try_from(address.len()));
        let (mr_type, mr_alen) = (kind.unwrap_or_default(), length.unwrap_or_default());
        let mut mr_address = [0; 8];
        mr_address.iter_mut().zip(address).for_each(|(place, &byte)| *place = byte);
        let wanted = libc::packet_mreq { mr_ifindex: index, mr_type, mr_alen, mr_address };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &wanted)
    }

    /// Binds a socket that receives nothing to an interface.
    pub(super) fn attach(&self, index: i32) -> Result<(), Errno> {
        self.bind(index, 0)
    }

    /// The interface that it is bound to; none once that has left the namespace.
    pub(super) fn attached_to(&self) -> Result<Option<i32>, Errno> {
        // SAFETY: a structure of numbers, for which zero is valid.
        let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut length = u32::try_from(size_of::<libc::sockaddr_ll>()).unwrap_or_default();
        // SAFETY: the address lives, and is as long as it says.
        let status = unsafe { libc::getsockname(self.fd(), (&raw mut address).cast(), &raw mut length) };
        if status == 0 { Ok((address.sll_ifindex > 0).then_some(address.sll_ifindex)) } else { Err(errno()) }
    }

    /// Puts another socket in the place of this one, whose number stays as it is: a call in progress ends
    /// with the old one, and the next call uses the new one.
    pub(super) fn replace_by(&self, other: &Self) -> Result<(), Errno> {
        // SAFETY: both are open, and ours.
        let status = unsafe { libc::dup3(other.fd(), self.fd(), libc::O_CLOEXEC) };
        if status >= 0 { Ok(()) } else { Err(errno()) }
    }

    /// Only root may exceed the system's limits; any size granted is accepted.
    fn enlarge(&self) {
        for (forced, plain) in
            [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            if self.set(libc::SOL_SOCKET, forced, &ROOM).is_err() {
                let _ = self.set(libc::SOL_SOCKET, plain, &ROOM);
            }
        }
    }

    /// To an interface, for frames of a protocol; 0: none.
    fn bind(&self, index: i32, protocol: c_int) -> Result<(), Errno> {
        // SAFETY: a structure of numbers, for which zero is valid.
        let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
        address.sll_family = u16::try_from(libc::AF_PACKET).unwrap_or_default();
        address.sll_protocol = u16::try_from(protocol).unwrap_or_default().to_be();
        address.sll_ifindex = index;
        let length = u32::try_from(size_of::<libc::sockaddr_ll>()).unwrap_or_default();
        // SAFETY: the address lives, and is as long as it says.
        let status = unsafe { libc::bind(self.fd(), (&raw const address).cast(), length) };
        if status == 0 { Ok(()) } else { Err(errno()) }
    }

    pub(super) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    fn set<T>(&self, level: c_int, option: c_int, value: &T) -> Result<(), Errno> {
        let length = u32::try_from(size_of::<T>()).unwrap_or_default();
        let value: *const c_void = ptr::from_ref(value).cast();
        // SAFETY: the value lives, and is as long as it says.
        if unsafe { libc::setsockopt(self.fd(), level, option, value, length) } == 0 {
            Ok(())
        } else {
            Err(errno())
        }
    }

    /// Packets that found no room since the last call.
    pub(super) fn missed(&self) -> u64 {
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = u32::try_from(size_of::<libc::tpacket_stats>()).unwrap_or_default();
        let place: *mut c_void = (&raw mut stats).cast();
        // SAFETY: the place lives, and is as long as it says.
        let status = unsafe {
            libc::getsockopt(self.fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, place, &raw mut length)
        };
        if status == 0 { stats.tp_drops.into() } else { 0 }
    }

    /// Receives into the places of `messages`, without waiting. Returns how many were filled.
    ///
    /// # Errors
    /// Why not even the first one was.
    ///
    /// # Safety
    /// Every pointer in `messages` leads to memory that lives, is as long as it says, and is not used
    /// elsewhere during the call.
    pub(super) unsafe fn receive(&self, messages: &mut [libc::mmsghdr]) -> Result<usize, Errno> {
        let count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
        // SAFETY: by contract.
        let got = unsafe {
            libc::recvmmsg(self.fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT, ptr::null_mut())
        };
        usize::try_from(got).map_err(|_| errno())
    }

    /// Sends messages from the front, without waiting. Returns how many were taken.
    ///
    /// # Errors
    /// Why not even the first one was taken.
    ///
    /// # Safety
    /// Every pointer in `messages` leads to memory that lives, is as long as it says, and is not written
    /// during the call.
    pub(super) unsafe fn send(&self, messages: &mut [libc::mmsghdr]) -> Result<usize, Errno> {
        let count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
        // SAFETY: by contract.
        let sent = unsafe { libc::sendmmsg(self.fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT) };
        usize::try_from(sent).map_err(|_| errno())
    }

    /// True if the driver has a carrier at this moment: the flags say so up to a second later.
    pub(super) fn has_carrier(&self, name: &CStr) -> Result<bool, Errno> {
        // `struct ethtool_value`: ETHTOOL_GLINK, and room for the answer.
        let mut value = [0x0a_u32, 0];
        self.ask_with(name, libc::SIOCETHTOOL, |request| {
            request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        })?;
        Ok(value[1] != 0)
    }

    fn ask(&self, name: &CStr, what: c_ulong) -> Result<libc::ifreq, Errno> {
        self.ask_with(name, what, |_| ())
    }

    fn ask_with(
        &self,
        name: &CStr,
        what: c_ulong,
        fill: impl FnOnce(&mut libc::ifreq),
    ) -> Result<libc::ifreq, Errno> {
        // SAFETY: numbers and arrays of them, for which zero is valid.
        let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
        fill(&mut request);
        if name.count_bytes() >= request.ifr_name.len() {
            return Err(Errno::NODEV);
        }
        for (place, &byte) in request.ifr_name.iter_mut().zip(name.to_bytes()) {
            *place = byte.cast_signed();
        }
        // SAFETY: the request lives, and so does what it points to; its name is terminated.
        if unsafe { libc::ioctl(self.fd(), what, &raw mut request) } == 0 {
            Ok(request)
        } else {
            Err(errno())
        }
    }

    pub(super) fn index(&self, name: &CStr) -> Result<i32, Errno> {
        // SAFETY: the kernel has filled in this member for this request.
        self.ask(name, libc::SIOCGIFINDEX).map(|said| unsafe { said.ifr_ifru.ifru_ifindex })
    }

    pub(super) fn mtu(&self, name: &CStr) -> Result<u16, Errno> {
        // SAFETY: as above.
        let mtu = self.ask(name, libc::SIOCGIFMTU).map(|said| unsafe { said.ifr_ifru.ifru_mtu })?;
        Ok(u16::try_from(mtu).unwrap_or(u16::MAX))
    }

    pub(super) fn mac(&self, name: &CStr) -> Result<[u8; 6], Errno> {
        // SAFETY: as above.
        let address = self.ask(name, libc::SIOCGIFHWADDR).map(|said| unsafe { said.ifr_ifru.ifru_hwaddr })?;
        let mut mac = [0; 6];
        for (byte, said) in mac.iter_mut().zip(address.sa_data) {
            *byte = said.cast_unsigned();
        }
        Ok(mac)
    }

    /// Switches the interface on or off.
    pub(super) fn set_up(&self, name: &CStr, up: bool) -> Result<(), Errno> {
        let mut request = self.ask(name, libc::SIOCGIFFLAGS)?;
        let bit = libc::c_short::try_from(libc::IFF_UP).unwrap_or_default();
        // SAFETY: the kernel has filled in this member for the request before; the request lives, and its
        // name is terminated.
        let status = unsafe {
            let flags = &mut request.ifr_ifru.ifru_flags;
            *flags = if up { *flags | bit } else { *flags & !bit };
            libc::ioctl(self.fd(), libc::SIOCSIFFLAGS, &raw mut request)
        };
        if status == 0 { Ok(()) } else { Err(errno()) }
    }

    /// An interface's flags: `IFF_UP` and so on.
    pub(super) fn flags(&self, name: &CStr) -> Result<c_int, Errno> {
        // SAFETY: as above.
        self.ask(name, libc::SIOCGIFFLAGS).map(|said| unsafe { said.ifr_ifru.ifru_flags }.into())
    }

    /// The name of the interface of this number.
    pub(super) fn name_of(&self, index: i32) -> Result<CString, Errno> {
        // SAFETY: numbers and arrays of them, for which zero is valid.
        let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
        request.ifr_ifru.ifru_ifindex = index;
        // SAFETY: the request lives.
        if unsafe { libc::ioctl(self.fd(), libc::SIOCGIFNAME, &raw mut request) } != 0 {
            return Err(errno());
        }
        let name = request.ifr_name.iter().map(|byte| byte.cast_unsigned()).take_while(|&byte| byte != 0);
        CString::new(name.collect::<Vec<u8>>()).map_err(|_| Errno::INVAL)
    }
}

/// Waits until one of the sockets is ready, or for `longest`.
pub(super) fn wait(sockets: &mut [libc::pollfd], longest: Duration) {
    let nanoseconds = libc::c_long::from(longest.subsec_nanos().cast_signed());
    let seconds = libc::time_t::try_from(longest.as_secs()).unwrap_or(libc::time_t::MAX);
    let longest = libc::timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let count = sockets.len() as libc::nfds_t;
    // SAFETY: both live; the array is as long as it says. No mask of signals.
    unsafe { libc::ppoll(sockets.as_mut_ptr(), count, &raw const longest, ptr::null()) };
}
