use super::*;

#[test]
fn psns_go_round_and_nobody_elses_port_is_among_them() {
    for count in [1, 2, 4, 64] {
        let ports = UdpPorts::new(16_448, count).unwrap();
        assert_eq!((ports.first(), ports.count()), (16_448, count));
        for port in 0..=u16::MAX {
            assert_eq!(ports.has(port), (16_448..16_448 + count).contains(&port), "{port} of {count}");
        }
        for psn in (0..200).chain(u32::MAX - 200..=u32::MAX) {
            assert_eq!(u32::from(ports.of(psn)), 16_448 + psn % u32::from(count), "{psn} of {count}");
        }
    }
    assert_eq!(UdpPorts::new(7, 1), Ok(UdpPorts::single(7)));
}

#[test]
fn what_masking_cannot_decide_is_refused() {
    for count in [0, 3, 6, 65, 128, 0x8000] {
        assert_eq!(UdpPorts::new(0x8000, count), Err(UdpPortsError::Count { count }));
    }
    assert_eq!(UdpPorts::new(16_420, 8), Err(UdpPortsError::First { first: 16_420, count: 8 }));
    // The last possible ports.
    assert!(UdpPorts::new(65_472, 64).unwrap().has(u16::MAX));
}
