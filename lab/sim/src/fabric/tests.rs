//! Links against arithmetic, DCTCP against two flows on one link.

use super::{Clos, Dctcp, Fabric, Frame, Link};

#[derive(Debug, Clone, Copy, PartialEq)]
struct Packet {
    flow: usize,
    marked: bool,
    ack: bool,
}

impl Frame for Packet {
    fn mark(&mut self) {
        self.marked = true;
    }
}

const fn packet(flow: usize) -> Packet {
    Packet { flow, marked: false, ack: false }
}

/// 10 Gbit/s: 1,250 bytes take a microsecond. The third of a burst finds two packets before it.
#[test]
fn a_link_takes_its_time_and_marks_from_its_threshold_on() {
    let mut fabric = Fabric::new(vec![Link::new(10, 500, 2500)]);
    (0..4).for_each(|flow| fabric.send(0, 1250, packet(flow)));
    fabric.send(9, 1250, packet(4));
    let mut seen = Vec::new();
    while let Some(packet) = fabric.next() {
        seen.push((fabric.now(), packet.flow, packet.marked));
    }
    assert_eq!(seen, [(1500, 0, false), (2500, 1, false), (3500, 2, true), (4500, 3, true)]);
    assert_eq!(fabric.counts(), (4, 2));
}

/// Two senders share a link: it is busy, its queue stays short, and each has its half.
#[test]
fn two_dctcp_flows_share_a_link() {
    const BYTES: u64 = 1500;
    let mut fabric = Fabric::new(vec![Link::new(10, 10_000, 85 * BYTES)]);
    let mut flows = [(Dctcp::default(), 0u32, 0u64); 2];
    let ends = 50_000_000;
    for flow in 0..2 {
        fabric.after(flow as u64 * 3_000_000, Packet { ack: true, ..packet(flow) });
    }
    while let Some(got) = fabric.next() {
        if fabric.now() > ends {
            break;
        }
        let (control, in_flight, done) = &mut flows[got.flow];
        if !got.ack {
            fabric.after(10_000, Packet { ack: true, ..got });
            continue;
        }
        if *in_flight > 0 {
            *in_flight -= 1;
            control.on_ack(got.marked, *in_flight);
            *done += u64::from(fabric.now() > ends / 2);
        }
        while *in_flight < control.window() {
            *in_flight += 1;
            fabric.send(0, BYTES, packet(got.flow));
        }
    }
    let [one, other] = [flows[0].2, flows[1].2];
    let possible = ends / 2 * 10 / 8 / BYTES;
    assert!(one + other > possible * 97 / 100, "{one} + {other} of {possible}");
    assert!(one.abs_diff(other) < possible / 10, "{one} and {other}");
}

/// Every way ends at its server, over links that no way in the other direction uses.
#[test]
fn ways_through_a_clos_are_up_and_down() {
    let clos = Clos::square(4);
    let links = clos.links(Link::new(10, 1, 1)).len();
    for (from, to) in [(0, 1), (0, 15), (15, 0), (5, 9)] {
        let way: Vec<usize> = (0..).map_while(|hop| clos.hop(from, to, 2, hop)).collect();
        assert_eq!(way.len(), if clos.leaf(from) == clos.leaf(to) { 2 } else { 4 });
        assert_eq!((way[0], way[way.len() - 1]), (clos.up(from), clos.down(to)));
        assert!(way.iter().all(|&link| link < links));
        let back: Vec<usize> = (0..).map_while(|hop| clos.hop(to, from, 2, hop)).collect();
        assert!(way.iter().all(|link| !back.contains(link)));
    }
}
