//! Jobs whose packets are sealed: sums as without seals, and a counted drop for each packet that is not the
//! rank's.

use std::sync::Arc;

use pascaline_pipelines::membership::JobSpec;
use pascaline_seal::{Fault, Holder, JobKeys, LONGER, MemberEnd, Protection, Secret};
use pascaline_telemetry::{Counter, DropReason};
use pascaline_testkit::{Heard, JOB, Worker, contents};
use pascaline_wire::control::{self, Action, Control, Status};
use pascaline_wire::header::{self, Header, Kind};

use crate::common::appliance::{Bench, Plan, job};

mod groups;
mod server;
mod updates;

const RANKS: u16 = 3;

pub(crate) fn secret(byte: u8) -> Secret {
    Secret::new(&[byte; 32]).unwrap()
}

fn spec(protection: Protection) -> JobSpec {
    JobSpec { keys: Some(Arc::new(JobKeys::new(&secret(1), JOB, protection))), ..job(JOB, RANKS) }
}

/// A rank with its end of the path.
struct Rank {
    worker: Worker,
    end: MemberEnd,
    number: u32,
}

impl Rank {
    fn of(worker: Worker, secret: &Secret, protection: Protection) -> Self {
        let holder = Holder::of(secret, JOB, worker.rank, protection);
        let end = MemberEnd::new(holder, worker.session);
        Self { worker, end, number: 0 }
    }

    fn all(protection: Protection, v6: bool) -> Vec<Self> {
        let worker = |rank| {
            let worker = Worker { session: 4000 + u64::from(rank), ..Worker::new(rank, RANKS) };
            if v6 { worker.v6() } else { worker }
        };
        (0..RANKS).map(|rank| Self::of(worker(rank), &secret(1), protection)).collect()
    }

    /// A frame with this datagram sealed.
    fn sealed(&mut self, header: &Header, body: &[u8]) -> Vec<u8> {
        let mut room = vec![0; header::LEN + body.len() + LONGER];
        header.emit(&mut room).unwrap();
        room[header::LEN..header::LEN + body.len()].copy_from_slice(body);
        let len = self.end.seal(&mut room, header::LEN + body.len()).unwrap();
        let (header, body) = Header::parse(&room[..len]).unwrap();
        self.worker.frame(&header, body)
    }

    fn gradient(&mut self, psn: u32, values: &[i32]) -> Vec<u8> {
        let header = self.worker.header(Kind::Gradient, psn, 1);
        self.sealed(&header, &pascaline_testkit::bytes(values))
    }

    fn request(&mut self, action: Action, cookie: u64, padding: usize) -> Vec<u8> {
        self.number += 1;
        let control = Control {
            number: self.number,
            cookie,
            payload: if action == Action::Join { self.worker.payload } else { 0 },
            window: 64,
            ..Control::request(action, self.worker.session)
        };
        let header = self.worker.header(Kind::Control, 0, 0);
        let header = Header { element: pascaline_wire::Element::F32_SUM, ..header };
        let body = [&control.to_bytes()[..], &vec![0; padding]].concat();
        self.sealed(&header, &body)
    }

    /// Opens the packets to this rank: the plain datagrams, and the faults of the others.
    fn heard(&mut self, frames: &[Vec<u8>]) -> (Vec<(Header, Vec<u8>)>, Vec<Fault>) {
        let (mut opened, mut faults) = (Vec::new(), Vec::new());
        for frame in frames {
            let heard = Heard::parse(frame);
            if heard.to != (self.worker.address, self.worker.udp_port) {
                continue;
            }
            match self.open(frame) {
                Ok(plain) => opened.push(plain),
                Err(fault) => faults.push(fault),
            }
        }
        (opened, faults)
    }

    /// Opens a packet, wherever it goes.
    fn open(&mut self, frame: &[u8]) -> Result<(Header, Vec<u8>), Fault> {
        let heard = Heard::parse(frame);
        let mut datagram = frame[frame.len() - heard.body.len() - header::LEN..].to_vec();
        let len = self.end.open(&mut datagram)?;
        let (header, body) = Header::parse(&datagram[..len]).unwrap();
        Ok((header, body.to_vec()))
    }

    fn answer(&mut self, frames: &[Vec<u8>]) -> (Header, Control) {
        let (opened, faults) = self.heard(frames);
        let [(header, body)] = &opened[..] else { panic!("{opened:?} {faults:?}") };
        (*header, Control::parse(body).unwrap())
    }
}

/// What the appliance sends when these frames come.
fn fed<'a>(bench: &mut Bench, frames: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<Vec<u8>> {
    bench.feed(0, frames);
    bench.io().sent(0)
}

/// All ranks join, with two Joins each.
fn join(bench: &mut Bench, ranks: &mut [Rank], padding: usize) {
    for round in 0..2 {
        for rank in ranks.iter_mut() {
            let mut cookie = 0;
            if round == 0 || rank.worker.epoch == 0 {
                let asked = rank.request(Action::Join, 0, padding);
                let sent = fed(bench, [&asked]);
                assert!(sent.iter().all(|answer| answer.len() == asked.len()), "as long as it was");
                let (header, answer) = rank.answer(&sent);
                assert_ne!(answer.salt(), 0);
                (cookie, rank.worker.epoch) = (answer.cookie, header.epoch);
            }
            let asked = rank.request(Action::Join, cookie, padding);
            let (header, answer) = rank.answer(&fed(bench, [&asked]));
            rank.worker.epoch = header.epoch;
            let last = round == 1 || rank.worker.rank == RANKS - 1;
            assert_eq!(answer.status, if last { Status::Ok } else { Status::Pending });
        }
    }
}

fn started(protection: Protection, v6: bool) -> (Bench, Vec<Rank>) {
    let mut bench = Bench::new(&Plan { jobs: vec![spec(protection)], ..Plan::one_armed() });
    let mut ranks = Rank::all(protection, v6);
    join(&mut bench, &mut ranks, 100);
    (bench, ranks)
}

/// Holds R14.8 of protocol.md.
#[test]
fn sums_are_as_without_seals() {
    for (protection, v6) in Protection::ALL.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let (mut bench, mut ranks) = started(protection, v6);
        for psn in 0..20 {
            let value = 7 + i32::try_from(psn).unwrap();
            let all: Vec<Vec<u8>> =
                (1..).zip(&mut ranks).map(|(by, rank)| rank.gradient(psn, &[value * by; 256])).collect();
            let sent = fed(&mut bench, &all);
            assert_eq!(sent.len(), usize::from(RANKS));
            for rank in &mut ranks {
                let (opened, faults) = rank.heard(&sent);
                let [(header, body)] = &opened[..] else { panic!("{faults:?}") };
                assert_eq!((header.kind, header.psn, header.count), (Kind::Result, psn, RANKS));
                assert_eq!(contents(header, body), (vec![value * 6; 256], None));
            }
            let in_clear = (value * 6).to_le_bytes().repeat(4);
            let shows = sent[0].windows(in_clear.len()).any(|part| part == in_clear);
            assert_eq!(shows, protection == Protection::Mac);
        }
        // A result that is asked for again is sealed anew.
        let again = ranks[1].gradient(19, &[52; 256]);
        let (opened, _) = ranks[1].heard(&fed(&mut bench, [&again]));
        assert_eq!(opened.len(), 1);
        assert_eq!(bench.appliance.get(Counter::Replayed), 1);
        bench.end();
    }
}

/// Holds R14.9 of protocol.md.
#[test]
fn whatever_is_not_the_ranks_is_dropped_and_counted() {
    for protection in Protection::ALL {
        let (mut bench, mut ranks) = started(protection, false);
        let honest: Vec<Vec<u8>> =
            (1..).zip(&mut ranks).map(|(by, rank)| rank.gradient(0, &[by; 64])).collect();
        // Unsealed; of another key; of another rank; changed on its way.
        let plain = ranks[1].worker.gradient(0, &[9; 64]);
        let mut other = Rank::of(ranks[1].worker, &secret(2), protection);
        let other_key = other.gradient(0, &[9; 64]);
        let mut pretends = Rank::of(ranks[2].worker, &secret(1), protection);
        pretends.worker.rank = 1;
        (pretends.worker.address, pretends.worker.udp_port) =
            (ranks[1].worker.address, ranks[1].worker.udp_port);
        let of_another = pretends.gradient(0, &[9; 64]);
        let mut changed = honest[1].clone();
        *changed.get_mut(42 + header::LEN + 5).unwrap() ^= 1;
        let sent = fed(&mut bench, [&honest[0], &plain, &other_key, &of_another, &changed]);
        assert_eq!(sent.len(), 0);
        assert_eq!(bench.appliance.dropped(DropReason::Unsealed), 1);
        assert_eq!(bench.appliance.dropped(DropReason::Forged), 3);
        // Replayed, it is in the sum already.
        let sent = fed(&mut bench, [&honest[0], &honest[1], &honest[1], &honest[2]]);
        assert_eq!(bench.appliance.dropped(DropReason::Duplicate), 2);
        let (opened, _) = ranks[0].heard(&sent);
        assert_eq!(contents(&opened[0].0, &opened[0].1).0, vec![6; 64]);
        bench.end();
    }
}

#[test]
fn a_request_that_comes_again_changes_nothing() {
    let (mut bench, mut ranks) = started(Protection::Mac, false);
    let beat = ranks[0].request(Action::Join, 0, 0);
    assert_eq!(fed(&mut bench, [&beat]).len(), 1);
    assert_eq!(fed(&mut bench, [&beat]).len(), 0, "recorded");
    let later = ranks[0].request(Action::Join, 0, 0);
    let latest = ranks[0].request(Action::Join, 0, 0);
    assert_eq!(fed(&mut bench, [&latest]).len(), 1);
    assert_eq!(fed(&mut bench, [&later]).len(), 0, "overtaken");
    bench.end();
}

#[test]
fn who_joins_without_a_seal_or_with_another_key_hears_what_the_job_demands() {
    let mut bench = Bench::new(&Plan { jobs: vec![spec(Protection::Encrypt)], ..Plan::one_armed() });
    let mut ranks = Rank::all(Protection::Encrypt, false);
    let unsealed = ranks[0].worker.control(Action::Join);
    let mut stranger = Rank::of(ranks[1].worker, &secret(2), Protection::Encrypt);
    for (asked, reason) in
        [(unsealed, DropReason::Unsealed), (stranger.request(Action::Join, 0, 0), DropReason::Forged)]
    {
        bench.clock.advance(10_000_000);
        let sent = fed(&mut bench, [&asked]);
        let [answer] = &sent[..] else { panic!("{}", sent.len()) };
        assert!(answer.len() <= asked.len());
        let heard = Heard::parse(answer).control();
        assert_eq!((heard.status, heard.answers, heard.expected), (Status::Unproven, Some(Action::Join), 2));
        assert_eq!((heard.salt(), heard.cookie), (0, 0));
        assert_eq!(bench.appliance.dropped(reason), 1);
    }
    assert_eq!(ranks[0].end.open(&mut [0; control::LEN]), Err(Fault::Unsealed));
    assert_eq!(bench.appliance.plane.membership().status()[0].joined, 0);
    join(&mut bench, &mut ranks, 0);
    bench.end();
}

#[test]
fn a_sealed_join_of_a_job_without_seals_is_answered_with_that() {
    let mut bench = Bench::new(&Plan { jobs: vec![job(JOB, RANKS)], ..Plan::one_armed() });
    let mut rank = Rank::all(Protection::Mac, false).remove(0);
    for (action, answers) in [(Action::Join, 1), (Action::Leave, 0)] {
        bench.clock.advance(10_000_000);
        let asked = rank.request(action, 0, 0);
        let sent = fed(&mut bench, [&asked]);
        assert_eq!(sent.len(), answers, "{action:?}");
        for answer in sent {
            assert!(answer.len() <= asked.len());
            let heard = Heard::parse(&answer).control();
            assert_eq!((heard.status, heard.answers, heard.expected), (Status::Unproven, Some(action), 0));
        }
    }
    assert_eq!(bench.appliance.dropped(DropReason::Control), 2);
    bench.end();
}

#[test]
fn a_reminder_is_sealed() {
    let (mut bench, mut ranks) = started(Protection::Mac, false);
    let header = ranks[0].worker.header(Kind::Reminder, 3, 0);
    let asks = ranks[0].sealed(&header, &[]);
    let sent = fed(&mut bench, [&asks]);
    let (opened, faults) = ranks[1].heard(&sent);
    assert_eq!((opened[0].0.kind, opened[0].0.psn, &faults[..]), (Kind::Reminder, 3, &[][..]));
    bench.end();
}

#[test]
fn packets_are_shorter_by_a_seal() {
    let mut bench = Bench::new(&Plan { jobs: vec![spec(Protection::Mac)], ..Plan::one_armed() });
    let mut rank = Rank::all(Protection::Mac, false).remove(0);
    let asked = rank.request(Action::Join, 0, 0);
    let (_, first) = rank.answer(&fed(&mut bench, [&asked]));
    // It only asks, and learns how much it may be.
    rank.number += 1;
    let control = Control {
        number: rank.number,
        cookie: first.cookie,
        got: control::ASK,
        payload: 1024,
        window: 64,
        ..Control::request(Action::Join, rank.worker.session)
    };
    let header = rank.worker.header(Kind::Control, 0, 0);
    let asked = rank.sealed(&header, &control.to_bytes());
    let (_, told) = rank.answer(&fed(&mut bench, [&asked]));
    let most = usize::from(job(JOB, RANKS).max_payload) - LONGER;
    assert_eq!(usize::from(told.payload), most / 8 * 8);
    bench.end();
}

/// A PSN that all ranks contribute to: whether they all open its result.
fn summed(bench: &mut Bench, ranks: &mut [Rank], psn: u32) -> Vec<bool> {
    let all: Vec<Vec<u8>> = ranks.iter_mut().map(|rank| rank.gradient(psn, &[5; 256])).collect();
    let sent = fed(bench, &all);
    assert_eq!(sent.len(), usize::from(RANKS), "PSN {psn}");
    let good = |rank: &mut Rank| {
        let (opened, _) = rank.heard(&sent);
        opened.first().is_some_and(|(header, body)| contents(header, body).0 == [15; 256])
    };
    ranks.iter_mut().map(good).collect()
}

/// Rank by rank, in the middle of sums, of which none is lost: not even a packet.
#[test]
fn keys_change_while_ranks_sum() {
    for protection in Protection::ALL {
        let (mut bench, mut ranks) = started(protection, false);
        let keys = Arc::new(JobKeys::new(&secret(3), JOB, protection));
        // Half of a sum before the change.
        let early: Vec<Vec<u8>> = ranks.iter_mut().take(2).map(|rank| rank.gradient(0, &[5; 256])).collect();
        assert_eq!(fed(&mut bench, &early).len(), 0);
        let now = bench.appliance.now;
        assert!(bench.appliance.plane.rekey(now, JOB, Arc::clone(&keys)));
        assert!(!bench.appliance.plane.rekey(now, JOB, keys), "again");
        assert!(bench.appliance.control_turn().published);
        bench.settle();
        let late = ranks[2].gradient(0, &[5; 256]);
        assert_eq!(fed(&mut bench, [&late]).len(), usize::from(RANKS));
        for number in 0..RANKS {
            let left: Vec<u16> = (number..RANKS).collect();
            assert_eq!(bench.appliance.plane.membership().with_former_keys(JOB), left);
            let rank = &mut ranks[usize::from(number)];
            assert!(rank.end.renew(Holder::of(&secret(3), JOB, number, protection)));
            let beat = rank.request(Action::Join, 0, 0);
            assert_eq!(rank.answer(&fed(&mut bench, [&beat])).1.status, Status::Ok);
            assert_eq!(summed(&mut bench, &mut ranks, 1 + u32::from(number)), [true; 3]);
        }
        bench.appliance.now += core::time::Duration::from_millis(100);
        bench.appliance.control_turn();
        assert_eq!(summed(&mut bench, &mut ranks, 10), [true; 3], "with the new key");
        let mut behind = Rank::of(ranks[1].worker, &secret(1), protection);
        let recorded = behind.gradient(10, &[5; 256]);
        assert_eq!(fed(&mut bench, [&recorded]).len(), 1, "a duplicate, of which the result is known");
        bench.appliance.now += core::time::Duration::from_secs(1);
        assert!(bench.appliance.control_turn().published);
        bench.settle();
        assert_eq!(bench.appliance.reading().dropped_total(), 0);
        assert_eq!(fed(&mut bench, [&recorded]).len(), 0);
        assert_eq!(bench.appliance.dropped(DropReason::Forged), 1);
        assert_eq!(summed(&mut bench, &mut ranks, 11), [true; 3]);
        assert!(!bench.appliance.plane.end_former_keys(JOB), "it has ended");
        bench.end();
    }
}
