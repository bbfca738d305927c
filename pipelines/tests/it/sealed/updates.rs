//! Sealed updates on their way to a server, and its answers.

use pascaline_pipelines::PortQueue;
use pascaline_pipelines::membership::{JobKind, JobSpec};
use pascaline_seal::Protection;
use pascaline_telemetry::{Counter, DropReason};
use pascaline_testkit::{Worker, bytes, values};
use pascaline_wire::header::{Flags, Header, Kind};
use pascaline_wire::trailer::{self, Trailer, Update};

use super::server::{host, outside, serve};
use super::{RANKS, Rank, fed, join, secret, spec};
use crate::common::appliance::{Bench, Plan};

fn about(reward: f32) -> Vec<u8> {
    let update = Update { reward, generated_ns: 0 };
    let mut bytes = [0; trailer::MAX_LEN];
    let length = Trailer { update: Some(update), ..Trailer::default() }.emit(&mut bytes).unwrap();
    bytes[..length].to_vec()
}

/// Opened, combined where they wait, and sealed for the server; its answer is sealed once for all ranks.
#[test]
fn updates_and_their_answers_are_sealed() {
    for protection in Protection::ALL {
        let job = JobSpec { kind: JobKind::Updates { server: outside() }, ..spec(protection) };
        let queue = PortQueue::default();
        let mut bench = Bench::new(&Plan { jobs: vec![job], queue, ..Plan::one_armed() });
        let mut ranks = Rank::all(protection, false);
        join(&mut bench, &mut ranks, 0);
        let mut server = Rank::of(host(), &secret(1), protection);
        let (header, _) = serve(&mut bench, &mut server, 0).unwrap();
        (server.worker.epoch, server.worker.fan_in) = (header.epoch, RANKS);

        let update = |rank: &mut Rank, psn, value: i32| {
            let header = Header { flags: Flags::TRAILER, ..rank.worker.header(Kind::Update, psn, 1) };
            rank.sealed(&header, &[bytes(&[value; 8]), about(1.0)].concat())
        };
        let first = update(&mut ranks[1], 5, 7);
        let unsealed = {
            let header = Header { flags: Flags::TRAILER, ..ranks[0].worker.header(Kind::Update, 9, 1) };
            ranks[0].worker.frame(&header, &[bytes(&[1; 8]), about(1.0)].concat())
        };
        let (arrived, faults) = server.heard(&fed(&mut bench, [&first, &unsealed]));
        let [(header, body)] = &arrived[..] else { panic!("{arrived:?} {faults:?}") };
        assert_eq!((header.kind, header.psn, header.rank), (Kind::Update, 5, 1));
        assert_eq!(values(header.payload(body).unwrap().0), [7; 8]);
        assert_eq!(bench.appliance.dropped(DropReason::Unsealed), 1);

        let ack = Header {
            flags: Flags::TRAILER,
            rank: 1,
            ..Worker { rank: 1, ..server.worker }.header(Kind::Ack, 5, 1)
        };
        let sent = server.sealed(&ack, &[bytes(&[9; 8]), about(1.0)].concat());
        let sent = fed(&mut bench, [&sent]);
        assert_eq!(sent.len(), usize::from(RANKS));
        for rank in &mut ranks {
            let (opened, faults) = rank.heard(&sent);
            let [(header, body)] = &opened[..] else { panic!("{faults:?}") };
            assert_eq!((header.kind, header.psn, header.rank), (Kind::Ack, 5, 1));
            assert_eq!(values(header.payload(body).unwrap().0), [9; 8]);
        }
        // And one for one rank alone.
        let alone = Header { flags: ack.flags.with(Flags::BYPASS), ..ack };
        let sent = server.sealed(&alone, &[bytes(&[9; 8]), about(1.0)].concat());
        let sent = fed(&mut bench, [&sent]);
        assert_eq!((sent.len(), ranks[1].heard(&sent).0.len()), (1, 1));
        assert_eq!(bench.appliance.get(Counter::NoBuffer), 0);
        bench.end();
    }
}
