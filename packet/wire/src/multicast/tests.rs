use super::MulticastGroup;

fn group(address: &str) -> Option<MulticastGroup> {
    MulticastGroup::new(address.parse().unwrap())
}

#[test]
fn has_the_mac_of_its_family() {
    for (address, mac) in [
        ("224.0.1.2", "01:00:5e:00:01:02"),
        ("239.255.255.255", "01:00:5e:7f:ff:ff"),
        ("ff05::1", "33:33:00:00:00:01"),
        ("ff15::8a2e:370", "33:33:8a:2e:03:70"),
    ] {
        assert_eq!(group(address).unwrap().mac().to_string(), mac, "{address}");
    }
}

#[test]
fn is_a_group_and_no_other_address() {
    for address in
        ["10.0.0.1", "240.0.0.1", "255.255.255.255", "fe80::1", "::ffff:239.1.2.3", "ff05::1:0:0:1"]
    {
        assert_eq!(group(address), None, "{address}");
    }
}

#[test]
fn comes_back_from_its_code() {
    for address in ["224.0.0.251", "239.1.2.3", "ff02::1", "ff3e::ffff:ffff"] {
        let group = group(address).unwrap();
        assert!(group.code() != 0 && group.code() < 1 << 48, "{address}");
        assert_eq!(MulticastGroup::from_code(group.code()), Some(group), "{address}");
    }
    for code in [0, 1, 0x0a00_0001, 0xfe80_0000_0001, 1 << 48 | 0xef01_0203] {
        assert_eq!(MulticastGroup::from_code(code), None, "{code:x}");
    }
}

#[test]
fn suits_its_family() {
    let v4 = "10.0.0.1".parse::<core::net::IpAddr>().unwrap().into();
    let v6 = "fd00::1".parse::<core::net::IpAddr>().unwrap().into();
    let (four, six) = (group("239.0.0.1").unwrap(), group("ff05::1").unwrap());
    assert!(four.admits(v4) && six.admits(v6) && !four.admits(v6) && !six.admits(v4));
}
