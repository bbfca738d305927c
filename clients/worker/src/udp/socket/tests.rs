use rustix::net::sockopt as sockopt_of;

use super::*;

const ROUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 2));
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 2, 0, 1));

fn queued(origin: u8, errno: i32, code: u8) -> libc::sock_extended_err {
    libc::sock_extended_err {
        ee_errno: errno.unsigned_abs(),
        ee_origin: origin,
        ee_type: 3,
        ee_code: code,
        ee_pad: 0,
        ee_info: 0,
        ee_data: 0,
    }
}

fn obstacle(errno: i32, code: u8, by: IpAddr) -> Option<Unreachable> {
    reported(queued(libc::SO_EE_ORIGIN_ICMP, errno, code), Some(by), Some(PEER))
}

#[test]
fn who_refuses_is_named() {
    let said = |obstacle, by| Some(Unreachable { obstacle, by: Some(by) });
    assert_eq!(obstacle(libc::ECONNREFUSED, 3, PEER), said(Obstacle::NothingListens, PEER));
    assert_eq!(
        obstacle(libc::ECONNREFUSED, 3, ROUTER),
        said(Obstacle::Filtered, ROUTER),
        "no port of its own"
    );
    assert_eq!(obstacle(libc::ENOPROTOOPT, 2, ROUTER), said(Obstacle::Filtered, ROUTER));
    for (errno, code) in [(libc::ENETUNREACH, 9), (libc::EHOSTUNREACH, 10), (libc::EHOSTUNREACH, 13)] {
        assert_eq!(obstacle(errno, code, ROUTER), said(Obstacle::Filtered, ROUTER), "code {code}");
    }
    for (errno, code) in [(libc::ENETUNREACH, 0), (libc::EHOSTUNREACH, 1), (libc::ENONET, 8)] {
        assert_eq!(obstacle(errno, code, ROUTER), said(Obstacle::NoHost, ROUTER), "code {code}");
    }
    assert_eq!(obstacle(libc::EMSGSIZE, 4, ROUTER), None);
    assert_eq!(obstacle(libc::EPROTO, 0, ROUTER), None);
}

#[test]
fn over_ipv6_likewise() {
    let peer = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let router = IpAddr::V6(Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 2));
    let obstacle = |errno, code, by| {
        let entry = queued(libc::SO_EE_ORIGIN_ICMP6, errno, code);
        reported(entry, Some(by), Some(peer)).map(|report| report.obstacle)
    };
    assert_eq!(obstacle(libc::EACCES, 1, router), Some(Obstacle::Filtered));
    assert_eq!(obstacle(libc::ECONNREFUSED, 4, peer), Some(Obstacle::NothingListens));
    assert_eq!(obstacle(libc::ECONNREFUSED, 4, router), Some(Obstacle::Filtered));
    assert_eq!(obstacle(libc::EHOSTUNREACH, 3, router), Some(Obstacle::NoHost));
}

/// Holds R14.6 of protocol.md.
#[test]
fn what_this_host_refuses_is_in_no_queue() {
    let socket = Socket::open(None, SocketAddr::from(([127, 0, 0, 1], 9))).unwrap();
    socket.note(0, Errno::EACCES);
    assert_eq!(socket.report(), Some(Unreachable { obstacle: Obstacle::Filtered, by: None }));
    socket.note(0, Errno::EPROTO);
    assert_eq!(socket.report(), None, "it says nothing of the way");
}

#[test]
fn who_refuses_is_told_beside_marks() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(peer) = UdpSocket::bind(address).and_then(|closed| closed.local_addr()) else { continue };
        let socket = Socket::open(None, peer).unwrap();
        socket.read_marks(true);
        socket.send(&[0]).unwrap();
        socket.wait(PollFlags::POLLIN, Duration::from_secs(10)).unwrap();
        assert_eq!(socket.report().map(|report| report.obstacle), Some(Obstacle::NothingListens), "{peer}");
    }
}

#[test]
fn more_room_than_the_kernel_can_count_is_as_much_as_it_can() {
    let socket = Socket::open(None, "127.0.0.1:9".parse().unwrap()).unwrap();
    let granted = |bytes| {
        socket.make_room(bytes);
        nix::sys::socket::getsockopt(&socket.udp, sockopt::RcvBuf).unwrap()
    };
    let usual = granted(1 << 16);
    for bytes in [1 << 31, 1 << 32, usize::MAX] {
        assert!(granted(bytes) >= usual, "{bytes}");
    }
}

/// Holds R14.5 of protocol.md.
#[test]
fn what_others_say_of_the_paths_mtu_is_not_believed() {
    let open = |peer: &str| Socket::open(None, peer.parse().unwrap());
    let v4 = open("127.0.0.1:9").unwrap();
    assert_eq!(sockopt_of::ip_mtu_discover(&v4.udp), Ok(Ipv4PathMtuDiscovery::PROBE));
    let Ok(v6) = open("[::1]:9") else { return };
    assert_eq!(sockopt_of::ipv6_mtu_discover(&v6.udp), Ok(Ipv6PathMtuDiscovery::PROBE));
}
