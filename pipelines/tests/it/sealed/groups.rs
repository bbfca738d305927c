//! Sealed results to a multicast group.

use pascaline_seal::{Fault, Protection};
use pascaline_telemetry::Counter;
use pascaline_testkit::{Heard, contents};
use pascaline_wire::MulticastGroup;
use pascaline_wire::control::{Action, Control};
use pascaline_wire::header::Kind;
use pascaline_wire::multicast::Hearing;

use super::{Rank, fed, join, spec};
use crate::common::appliance::{Bench, Plan};

/// The answers to a Join of a member that says so much about the group.
fn answers(bench: &mut Bench, rank: &mut Rank, hearing: Hearing) -> Vec<Vec<u8>> {
    rank.number += 1;
    let control = Control {
        number: rank.number,
        hearing,
        payload: rank.worker.payload,
        window: 64,
        ..Control::request(Action::Join, rank.worker.session)
    };
    let header = rank.worker.header(Kind::Control, 0, 0);
    let header = pascaline_wire::Header { element: pascaline_wire::Element::F32_SUM, ..header };
    let asked = rank.sealed(&header, &control.to_bytes());
    fed(bench, [&asked])
}

/// One sealed packet stands for all who hear, and what finds out whether they do is sealed, too.
#[test]
fn a_group_gets_one_sealed_result() {
    for protection in Protection::ALL {
        let group = MulticastGroup::new("239.1.2.3".parse().unwrap()).unwrap();
        let mut job = spec(protection);
        job.multicast = Some(group);
        let mut bench = Bench::new(&Plan { jobs: vec![job], ..Plan::one_armed() });
        let mut ranks = Rank::all(protection, false);
        join(&mut bench, &mut ranks, 0);
        for at in 0..ranks.len() {
            let sent = answers(&mut bench, &mut ranks[at], Hearing::Listens);
            let [answer, probe] = &sent[..] else { panic!("{}", sent.len()) };
            assert_eq!(Heard::parse(probe).to.0, group.address());
            for (number, rank) in ranks.iter_mut().enumerate() {
                let opened = [answer, probe].map(|frame| rank.open(frame).map(|(header, _)| header.kind));
                let expected = if number == at { Ok(Kind::Control) } else { Err(Fault::Elsewhere) };
                assert_eq!(opened, [expected; 2]);
            }
            answers(&mut bench, &mut ranks[at], Hearing::Hears);
        }
        let all: Vec<Vec<u8>> = ranks.iter_mut().map(|rank| rank.gradient(0, &[3; 64])).collect();
        let sent = fed(&mut bench, &all);
        let [result] = &sent[..] else { panic!("{}", sent.len()) };
        assert_eq!(Heard::parse(result).to.0, group.address());
        for rank in &mut ranks {
            let (header, body) = rank.open(result).unwrap();
            assert_eq!((header.kind, contents(&header, &body).0), (Kind::Result, vec![9; 64]));
        }
        assert_eq!(bench.appliance.get(Counter::ResultsSpared), 2);
        bench.end();
    }
}
