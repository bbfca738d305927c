use pascaline_wire::frame::Mac;

use super::*;

const SECOND: u64 = 1 << TICK;
const AGE: u64 = 300;

fn mac(last: u16) -> Station {
    in_vlan(last, 0)
}

fn in_vlan(last: u16, vlan: u16) -> Station {
    let [high, low] = last.to_be_bytes();
    Station { mac: Mac([2, 0, 0, 0, high, low]), vlan }
}

/// Stations of one set.
fn neighbours(bridge: &Bridge) -> impl Iterator<Item = Station> + '_ {
    let set = |station| bridge.set(station).as_ptr();
    (0..u16::MAX).map(mac).filter(move |&station| set(station) == set(mac(0)))
}

fn three() -> (Bridge, Ports) {
    (Bridge::new(64, Duration::from_nanos(AGE * SECOND)), Ports::of([0, 1, 2]))
}

#[test]
fn what_is_heard_is_found_until_it_is_old_and_moves_at_once() {
    let (bridge, all) = three();
    let at = |tick: u64| 5000 * SECOND + tick * SECOND;
    assert_eq!(bridge.find(mac(1), all, at(0)), None);
    assert_eq!(bridge.hear(mac(1), 2, all, at(0)), Heard::Learned);
    assert_eq!(bridge.find(mac(1), all, at(AGE)), Some(2));
    assert_eq!(bridge.find(mac(1), all, at(AGE + 1)), None);
    assert_eq!(bridge.hear(mac(1), 2, all, at(AGE)), Heard::Known);
    assert_eq!(bridge.find(mac(1), all, at(2 * AGE)), Some(2), "heard again");
    assert_eq!(bridge.hear(mac(1), 0, all, at(2 * AGE)), Heard::Moved);
    assert_eq!(bridge.find(mac(1), all, at(2 * AGE)), Some(0));
    assert_eq!(bridge.find(mac(1), all, at(2 * AGE) - SECOND), Some(0), "a clock that is behind");
}

#[test]
fn an_old_entry_is_swept_and_its_place_is_taken() {
    let bridge = Bridge::new(8, Duration::from_secs(300));
    let all = Ports::of([0, 1, 2]);
    let nine: Vec<_> = neighbours(&bridge).take(9).collect();
    let heard: Vec<_> = nine.iter().map(|&station| bridge.hear(station, 1, all, 0)).collect();
    assert_eq!((heard[7], heard[8]), (Heard::Learned, Heard::Full));
    assert_eq!(bridge.hear(nine[8], 1, all, 400 * SECOND), Heard::Learned, "in the place of an old one");
    let left = |now| nine.iter().filter(|&&station| bridge.find(station, all, now).is_some()).count();
    assert_eq!(left(400 * SECOND), 1);
    (0..SETS).for_each(|_| bridge.sweep(400 * SECOND));
    // When the clock has gone around, what was swept does not come back.
    assert_eq!(left(2048 * SECOND), 0);
    assert_eq!(left(400 * SECOND), 1, "what is young stays");
}

#[test]
fn bridges_do_not_hear_each_other() {
    let bridge = Bridge::new(64, Duration::from_secs(300));
    let (one, other) = (Ports::of([0, 1, 2]), Ports::of([3, 4, 31]));
    assert_eq!(bridge.hear(mac(7), 1, one, 0), Heard::Learned);
    assert_eq!(bridge.hear(mac(7), 31, other, 0), Heard::Learned);
    assert_eq!((bridge.find(mac(7), one, 0), bridge.find(mac(7), other, 0)), (Some(1), Some(31)));
}

/// A firewall with one MAC in two VLANs; and a MAC in all of them.
#[test]
fn each_vlan_has_entries_of_its_own() {
    for addresses in [8, 1 << 20] {
        let bridge = Bridge::new(addresses, Duration::from_secs(300));
        let all = Ports::of([0, 1, 2]);
        let port = |vlan: u16| usize::from(vlan % 3);
        for last in [1, 2] {
            for vlan in 0..4096 {
                assert_eq!(bridge.hear(in_vlan(last, vlan), port(vlan), all, 0), Heard::Learned);
            }
        }
        for vlan in 0..4096 {
            assert_eq!(bridge.find(in_vlan(1, vlan), all, 0), Some(port(vlan)));
            assert_eq!(bridge.hear(in_vlan(1, vlan), port(vlan), all, 0), Heard::Known);
            assert_eq!(bridge.find(in_vlan(3, vlan), all, 0), None);
        }
    }
}

#[test]
fn what_is_behind_a_port_without_a_link_is_forgotten() {
    let (bridge, all) = three();
    for number in 0..300 {
        bridge.hear(mac(number), usize::from(number % 3), all, 0);
    }
    bridge.forget(1);
    for number in 0..300 {
        let port = Some(usize::from(number % 3)).filter(|&port| port != 1);
        assert_eq!(bridge.find(mac(number), all, 0), port);
    }
    assert_eq!(bridge.hear(mac(1), 2, all, 0), Heard::Learned, "behind another port");
    Bridge::none().forget(0);
}

#[test]
fn a_station_is_named_by_the_outermost_tag() {
    let macs = [[2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 7]].concat();
    for (tags, vlan) in [
        (&[8, 0, 0x45, 0][..], 0),
        (&[0x81, 0, 0, 5, 8, 0], 5),
        (&[0x81, 0, 0xef, 0xff, 8, 0], 0xfff),
        (&[0x81, 0, 0xe0, 0, 8, 0], 0),
        (&[0x88, 0xa8, 0, 6, 0x81, 0, 0, 5, 8, 0], 6),
        (&[0x81, 0, 0], 0),
    ] {
        let frame = [&macs[..], tags].concat();
        assert_eq!(receiver(&frame), Some(in_vlan(9, vlan)), "{tags:x?}");
        assert_eq!(sender(&frame), Some(in_vlan(7, vlan)), "{tags:x?}");
    }
    assert_eq!((sender(&[0; 13]), receiver(&[0; 13])), (None, None));
}

#[test]
fn groups_and_nobody_are_not_learned() {
    let (bridge, all) = three();
    for mac in [Mac::BROADCAST, Mac([1, 0, 0x5e, 0, 0, 1]), Mac([0; 6])] {
        let odd = Station { mac, vlan: 0 };
        assert_eq!(bridge.hear(odd, 1, all, 0), Heard::Known);
        assert_eq!(bridge.find(odd, all, 0), None, "{mac}");
    }
    let none = Bridge::none();
    assert_eq!((none.hear(mac(1), 1, all, 0), none.find(mac(1), all, 0)), (Heard::Full, None));
    none.sweep(0);
}

#[test]
fn reserved_addresses_end_here_but_for_lldp() {
    let head = |last: u8, ethertype: [u8; 2]| {
        let mut head = [0; ETH_LEN];
        head[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, last]);
        head[12..].copy_from_slice(&ethertype);
        head
    };
    for last in 0..0x10 {
        assert!(is_reserved(&head(last, [0x88, 0x08])), "{last:x}");
        assert_eq!(is_reserved(&head(last, LLDP)), last != 0x0e, "{last:x}");
    }
    assert!(!is_reserved(&head(0x10, [0x88, 0x08])) && !is_reserved(&[0xff; ETH_LEN]));
}

#[test]
fn ports_are_a_set() {
    let ports = Ports::of([3, 0, 31, 32]);
    assert_eq!(ports.iter().collect::<Vec<_>>(), [0, 3, 31]);
    assert_eq!((ports.first(), ports.only()), (Some(0), None));
    assert_eq!(ports.without(0).without(31).only(), Some(3));
    assert!(Ports::NONE.is_empty() && Ports::NONE.first().is_none() && !ports.has(32));
}
