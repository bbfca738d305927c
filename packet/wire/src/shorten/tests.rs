use super::*;
use crate::frame::{Address, Frame, Mac, Net, VlanTags};
use crate::header::{Element, Header, Kind};
use crate::template::{Path, Template};

/// A frame with a datagram of this payload, from one address to another of a family.
fn frame(v6: bool, payload: &[u8]) -> Vec<u8> {
    let address = |last| if v6 { Address::from_v6([last; 16]) } else { Address::from_v4([10, 0, 0, last]) };
    let template = Template::new(&Path {
        dst_mac: Mac([2; 6]),
        src_mac: Mac([4; 6]),
        vlan: VlanTags::NONE,
        dst: address(1),
        src: address(2),
        dst_port: 16420,
        src_port: 5000,
        class: 0,
    });
    let mut bytes = vec![0; template.len()];
    template.write(&mut bytes, &Header::about(Kind::Gradient, Element::F32_SUM, 1, 1), payload).unwrap();
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn a_shorter_datagram_is_one_that_was_never_longer() {
    for v6 in [false, true] {
        let (long, short) = (frame(v6, &[7; 128]), frame(v6, &[7; 100]));
        let Ok(Frame { net: Net::Ip(ip), .. }) = Frame::parse(&long) else { panic!("no IP") };
        let mut cut = long.clone();
        let end = shorten(&mut cut, &ip, crate::header::LEN + 100).unwrap();
        cut.truncate(end);
        let mut expected = short;
        // Of the appliance's own, over IPv6; what comes was checked before.
        expected[at(ip.l4, udp::CHECKSUM)].fill(0);
        assert_eq!(cut, expected);
        assert!(Frame::parse(&cut).is_ok());
        let mut same = long.clone();
        assert_eq!(shorten(&mut same, &ip, crate::header::LEN + 129), None);
        assert_eq!(same, long);
    }
}
