use pascaline_pipelines::membership::{JobStatus, ServerState};
use pascaline_wire::trailer::RankReports;

use super::super::tests::{RUNNING, counted, kinds};
use super::super::{Terms, diagnose};
use super::*;

fn port(state: LinkState) -> PortHealth {
    let device = Device::Vdev("net_kernel0,iface=eth1".to_owned());
    PortHealth { link: Some(state.into()), ..PortHealth::new("p0", Some(&device)) }
}

#[test]
fn a_port_that_carries_nothing_comes_before_what_follows_from_it() {
    let ports = [port(LinkState::Up), port(LinkState::Missing)];
    let told = diagnose(&Evidence {
        status: &JobStatus { server: ServerState::Gone, ..RUNNING },
        name: "",
        counted: &counted(&[], &[]),
        late: &[],
        terms: Terms::default(),
        neighbours: &[],
        missing: &RankReports::EMPTY,
        stalled: &[],
        ports: &ports,
        now_ns: 0,
    });
    assert_eq!(kinds(&told), ["port-down", "server-gone"]);
    assert_eq!(told.reasons[0].text, "Port p0: interface eth1 does not exist any more.");
    assert!(told.summary.ends_with(&told.reasons[0].text), "{}", told.summary);
}

#[test]
fn each_state_of_a_port_has_words_and_a_remedy() {
    let says = |port: &PortHealth| (port.to_string(), port.remedy());
    for (port, text, remedy) in [
        (port(LinkState::Down), "port p0: interface eth1 has no link", "cable"),
        (port(LinkState::Off), "port p0: interface eth1 is switched off", "`ip link set eth1 up`"),
        (port(LinkState::Missing), "port p0: interface eth1 does not exist any more", "make eth1 again"),
        (
            PortHealth { hindrance: Some("its MTU is 1500".to_owned()), ..port(LinkState::Replaced) },
            "port p0: interface eth1 was made anew, and the port is not open on it yet: its MTU is 1500",
            "what the text says",
        ),
        (
            PortHealth { held: true, ..port(LinkState::Off) },
            "port p0 is held down, since its peer has no link",
            "peer",
        ),
        (
            PortHealth { link: Some(LinkState::Down.into()), ..PortHealth::new("p1", None) },
            "port p1 has no link",
            "switch port",
        ),
    ] {
        let (told, advice) = says(&port);
        assert_eq!(told, text);
        assert!(advice.contains(remedy), "{advice}");
        assert!(port.is_in_trouble());
    }
    let memif = Device::Vdev("net_memif0,role=server".to_owned());
    let waits = PortHealth { link: Some(LinkState::Down.into()), ..PortHealth::new("p0", Some(&memif)) };
    assert!(!waits.is_in_trouble(), "it waits for its peer");
    assert!(!PortHealth::new("p0", None).is_in_trouble(), "its driver does not tell");
}
