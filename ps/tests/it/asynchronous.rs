//! The asynchronous server: its rules by hand, its replies, and bad input.

mod model;

use core::time::Duration;

use pascaline_ps::asynchronous::{
    AsyncJob, AsyncOutcome, AsyncServer, Audience, Combined, Kept, NotKept, Pace, Rule, Settings,
};
use pascaline_wire::control::Status;
use pascaline_wire::trailer::Update;
use pascaline_wire::{Element, Flags, Header, Kind, Own, Trailer, header, trailer};
use proptest::prelude::*;

const JOB: u16 = 4;
const SECOND: u64 = 1_000_000_000;

#[derive(Clone)]
struct Packet {
    header: Header,
    values: Vec<f32>,
    update: Option<Update>,
}

fn update(count: u16, reward: f32, values: &[f32]) -> Packet {
    let header = Header {
        kind: Kind::Update,
        flags: Flags::NONE,
        element: Element::F32_SUM,
        job: JOB,
        rank: 1,
        psn: 17,
        fan_in: 3,
        count,
        own: Own::NONE,
        epoch: 9,
    };
    Packet { header, values: values.to_vec(), update: Some(Update { reward, generated_ns: SECOND }) }
}

fn weights(values: &[f32]) -> Packet {
    let mut packet = update(1, 0.0, values);
    packet.header.kind = Kind::Gradient;
    packet.header.flags = Flags::BYPASS;
    packet.header.psn = u32::MAX;
    packet.update = None;
    packet
}

impl Packet {
    fn datagram(&self) -> Vec<u8> {
        let mut header = self.header;
        let mut end = [0; trailer::MAX_LEN];
        let mut length = 0;
        if let Some(update) = self.update {
            header.flags = header.flags.with(Flags::TRAILER);
            length = Trailer { update: Some(update), ..Trailer::default() }.emit(&mut end).unwrap();
        }
        let values: Vec<u8> = self.values.iter().flat_map(|value| value.to_le_bytes()).collect();
        [&header.to_bytes()[..], &values, &end[..length]].concat()
    }
}

fn server(rule: Rule) -> AsyncServer {
    with(Settings { rule, ..Settings::default() })
}

fn with(settings: Settings) -> AsyncServer {
    let mut server = AsyncServer::new(settings);
    server.set_job(JOB, AsyncJob { fan_in: 3, epoch: 9, payload: 8 });
    begin(&mut server, JOB);
    server
}

/// A worker offers zeros.
fn begin(server: &mut AsyncServer, job: u16) {
    let mut zeros = weights(&[0.0, 0.0]);
    zeros.header.job = job;
    assert_eq!(server.handle_datagram(0, &zeros.datagram()), AsyncOutcome::Initialised);
    replies(server);
}

/// A server whose job has been offered no weights.
fn empty(settings: Settings) -> AsyncServer {
    let mut server = AsyncServer::new(settings);
    server.set_job(JOB, AsyncJob { fan_in: 3, epoch: 9, payload: 8 });
    server
}

/// Why the update was not taken that a reply answers.
fn status_of(reply: &(Header, Vec<f32>, Update)) -> Option<Status> {
    let code = reply.0.own.status().unwrap() as u8;
    (code > 0).then(|| Status::from_code(code).unwrap())
}

fn replies(server: &mut AsyncServer) -> Vec<(Header, Vec<f32>, Update)> {
    let mut datagram = Vec::new();
    let mut all = Vec::new();
    while server.next_reply(&mut datagram) {
        let (header, body) = Header::parse(&datagram).unwrap();
        let (payload, trailer) = header.payload(body).unwrap();
        let values = payload.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        all.push((header, values.collect(), trailer.unwrap().update.unwrap()));
    }
    all
}

/// A cluster that sends three times as often as another pauses: each acknowledgement says for how long.
#[test]
fn acknowledgements_say_for_how_long_a_cluster_is_to_pause() {
    let mut server = server(Rule::Olaf { rate: 0.5 });
    server.set_job(JOB + 1, AsyncJob { fan_in: 3, epoch: 9, payload: 8 });
    begin(&mut server, JOB + 1);
    let (mut pace, mut longest) = (Pace::default(), [0, 0]);
    for turn in 1..300 {
        let now = SECOND + turn * 10_000_000;
        for (at, every) in [1, 3].into_iter().enumerate().filter(|(_, every)| turn % every == 0) {
            let mut packet = update(1, 1.0, &[1.0, 1.0]);
            packet.header.job = if at == 0 { JOB } else { JOB + 1 };
            server.handle_datagram(now, &packet.datagram());
            let age = Duration::from_nanos(now - SECOND);
            let pause = pace.on_update(packet.header.job, Duration::from_nanos(now), age);
            let told: Vec<u16> = replies(&mut server).iter().map(|reply| reply.0.own.pause()).collect();
            assert_eq!(told, [pause], "turn {turn}, every {every}");
            longest[at] = pause.max(longest[at]);
        }
    }
    assert!(longest[0] > 0, "{longest:?}");
}

#[test]
fn olafs_rule_by_hand() {
    let mut server = server(Rule::Olaf { rate: 0.5 });
    let mut push = |count, reward, values: &[f32]| {
        let outcome = server.handle_datagram(2 * SECOND, &update(count, reward, values).datagram());
        (outcome, server.weights(JOB).unwrap().to_vec())
    };
    // g_a is the first gradient.
    assert_eq!(push(1, 1.0, &[4.0, 8.0]), (AsyncOutcome::Applied, vec![2.0, 4.0]));
    // Only a higher reward counts: an equal one does not.
    assert_eq!(push(1, 1.0, &[100.0, 100.0]), (AsyncOutcome::LowReward, vec![2.0, 4.0]));
    // g_a = avg(4, 2) = 3 and avg(8, 0) = 4.
    assert_eq!(push(1, 1.5, &[2.0, 0.0]), (AsyncOutcome::Applied, vec![3.5, 6.0]));
    // The sum of three: g_a = (3 + 9) / 4 = 3 and (4 + 0) / 4 = 1.
    assert_eq!(push(3, 2.0, &[9.0, 0.0]), (AsyncOutcome::Applied, vec![5.0, 6.5]));
    assert_eq!(push(3, 1.9, &[9.0, 0.0]), (AsyncOutcome::LowReward, vec![5.0, 6.5]));
    assert_eq!(server.clusters().next().unwrap().1.reward(), Some(2.0));
    assert_eq!(server.counters().contributions, 1 + 1 + 1 + 3 + 3);
}

#[test]
fn old_updates_count_less() {
    let rule = Rule::Staleness { rate: 0.5, half: Duration::from_secs(3) };
    let mut server = server(rule);
    let mut push = |at, count, values: &[f32]| {
        // Rewards do not matter.
        let outcome = server.handle_datagram(at, &update(count, -1.0, values).datagram());
        (outcome, server.weights(JOB).unwrap().to_vec())
    };
    assert_eq!(push(SECOND, 1, &[4.0, 0.0]), (AsyncOutcome::Applied, vec![2.0, 0.0]), "new: the whole step");
    assert_eq!(
        push(4 * SECOND, 1, &[4.0, 0.0]),
        (AsyncOutcome::Applied, vec![3.0, 0.0]),
        "3 s old: half of it"
    );
    assert_eq!(
        push(SECOND, 2, &[4.0, 2.0]),
        (AsyncOutcome::Applied, vec![5.0, 1.0]),
        "two contributions, both steps"
    );
}

#[test]
fn the_first_weights_win() {
    let mut server = empty(Settings { rule: Rule::Olaf { rate: 1.0 }, ..Settings::default() });
    assert_eq!(server.handle_datagram(SECOND, &weights(&[1.0, 2.0]).datagram()), AsyncOutcome::Initialised);
    let mut second = weights(&[5.0, 5.0]);
    second.header.rank = 2;
    assert_eq!(server.handle_datagram(SECOND, &second.datagram()), AsyncOutcome::NotFirst);
    assert_eq!(server.weights(JOB), Some(&[1.0, 2.0][..]));
    let answers = replies(&mut server);
    for ((header, values, _), rank) in answers.iter().zip([1, 2]) {
        assert_eq!((header.kind, header.rank, header.psn), (Kind::Ack, rank, u32::MAX));
        assert!(header.flags.has(Flags::BYPASS), "for the worker that has asked, alone");
        assert_eq!(values, &[1.0, 2.0]);
    }
    assert_eq!(answers.len(), 2);
    let outcome = server.handle_datagram(SECOND, &update(1, 1.0, &[1.0, 1.0]).datagram());
    assert_eq!((outcome, server.weights(JOB)), (AsyncOutcome::Applied, Some(&[2.0, 3.0][..])));
}

#[test]
fn replies_say_what_they_answer_and_go_to_the_cluster_or_to_the_worker() {
    for audience in [Audience::Cluster, Audience::Worker] {
        let mut server = with(Settings { audience, ..Settings::default() });
        let alone = audience == Audience::Worker;
        for (reward, with_weights) in [(1.0, true), (0.5, alone)] {
            let sent = update(2, reward, &[1.0, 1.0]);
            server.handle_datagram(2 * SECOND, &sent.datagram());
            let [(header, values, update)] = &replies(&mut server)[..] else { panic!("one reply") };
            let expected = Header {
                kind: Kind::Ack,
                flags: if alone { Flags::TRAILER.with(Flags::BYPASS) } else { Flags::TRAILER },
                own: Own::answer(if reward < 1.0 { Status::LowReward } else { Status::Ok }, 0),
                ..sent.header
            };
            assert_eq!((header, Some(*update)), (&expected, sent.update));
            assert_eq!(!values.is_empty(), with_weights, "{audience:?}, reward {reward}");
        }
    }
}

/// What a combined update does is what its contributions mean, whether the queue has added or averaged them.
#[test]
fn sums_and_means_are_the_same_thing() {
    for rule in [Rule::Olaf { rate: 0.25 }, Rule::Staleness { rate: 0.25, half: Duration::from_secs(1) }] {
        let run = |combined, third: &[f32]| {
            let mut server = with(Settings { rule, combined, ..Settings::default() });
            for (count, reward, values) in [(1, 1.0, &[8.0, 4.0][..]), (4, 2.0, third)] {
                let packet = update(count, reward, values);
                assert_eq!(server.handle_datagram(2 * SECOND, &packet.datagram()), AsyncOutcome::Applied);
            }
            server.weights(JOB).unwrap().to_vec()
        };
        assert_eq!(run(Combined::Sum, &[16.0, 32.0]), run(Combined::Mean, &[4.0, 8.0]), "{rule:?}");
    }
}

#[test]
fn a_generation_ends_and_the_model_does_not() {
    let mut server = server(Rule::Olaf { rate: 1.0 });
    server.handle_datagram(SECOND, &update(1, 1.0, &[1.0, 1.0]).datagram());
    server.set_job(JOB, AsyncJob { fan_in: 3, epoch: 10, payload: 8 });
    assert_eq!(server.weights(JOB), Some(&[1.0, 1.0][..]));
    assert_eq!(
        server.handle_datagram(SECOND, &update(1, 1.0, &[1.0, 1.0]).datagram()),
        AsyncOutcome::WrongEpoch
    );
    server.set_job(JOB, AsyncJob { fan_in: 3, epoch: 11, payload: 16 });
    assert_eq!(server.weights(JOB), None, "another model");
    server.set_job(JOB, AsyncJob { fan_in: 3, epoch: 9, payload: 8 });
    begin(&mut server, JOB);
    server.handle_datagram(SECOND, &update(1, 1.0, &[1.0, 1.0]).datagram());
    assert!(server.remove_job(JOB) && !server.remove_job(JOB));
    assert_eq!(replies(&mut server), [], "no worker is left to be answered");
    assert_eq!(
        server.handle_datagram(SECOND, &update(1, 1.0, &[1.0; 2]).datagram()),
        AsyncOutcome::UnknownJob
    );
}

#[test]
fn bad_input_changes_nothing_and_has_a_reason() {
    type Damage = fn(&mut Packet);
    let cases: [(AsyncOutcome, Damage); 15] = [
        (AsyncOutcome::UnknownJob, |packet| packet.header.job = 5),
        (AsyncOutcome::WrongEpoch, |packet| packet.header.epoch = 8),
        (AsyncOutcome::WrongMember, |packet| packet.header.rank = 3),
        (AsyncOutcome::WrongMember, |packet| packet.header.fan_in = 2),
        (AsyncOutcome::WrongMember, |packet| packet.header.count = 0),
        (AsyncOutcome::Unexpected, |packet| packet.header.kind = Kind::Gradient),
        (AsyncOutcome::Unexpected, |packet| packet.header.kind = Kind::Ack),
        (AsyncOutcome::NoUpdate, |packet| packet.update = None),
        (AsyncOutcome::NoUpdate, |packet| packet.update.as_mut().unwrap().reward = f32::NAN),
        (AsyncOutcome::NoUpdate, |packet| packet.update.as_mut().unwrap().reward = f32::INFINITY),
        (AsyncOutcome::WrongModel, |packet| packet.values.push(1.0)),
        (AsyncOutcome::WrongModel, |packet| packet.header.element = Element::I32_SUM),
        (AsyncOutcome::Malformed, |packet| packet.values.clear()),
        (AsyncOutcome::NotFinite, |packet| packet.values[1] = f32::NAN),
        (AsyncOutcome::NotFinite, |packet| packet.values[0] = f32::NEG_INFINITY),
    ];
    let mut server = empty(Settings::default());
    server.handle_datagram(SECOND, &weights(&[1.0, 2.0]).datagram());
    replies(&mut server);
    for (number, (outcome, damage)) in cases.into_iter().enumerate() {
        let mut packet = update(1, 1.0, &[1.0, 1.0]);
        damage(&mut packet);
        let before = server.counters().outcome(outcome);
        assert_eq!(server.handle_datagram(2 * SECOND, &packet.datagram()), outcome, "case {number}");
        assert_eq!(server.counters().outcome(outcome), before + 1);
        assert_eq!(server.weights(JOB), Some(&[1.0, 2.0][..]), "case {number}");
        // A known worker is answered, and alone unless others may be inside.
        let answers = replies(&mut server);
        let expected = outcome.status();
        assert_eq!(
            answers.iter().map(status_of).collect::<Vec<_>>(),
            Vec::from_iter(expected.map(Some)),
            "{number}"
        );
        for (header, values, _) in answers {
            assert_eq!((header.rank, header.psn, values), (1, 17, vec![]), "case {number}");
            assert!(header.flags.has(Flags::BYPASS), "case {number}");
        }
    }
    assert_eq!(server.handle_datagram(0, &[0; header::LEN]), AsyncOutcome::Malformed);
    assert_eq!(server.counters().received(), 17);
}

#[test]
fn what_would_make_the_model_infinite_is_refused_before_it_is_taken() {
    for rule in [Rule::Olaf { rate: 8.0 }, Rule::Staleness { rate: 8.0, half: Duration::from_secs(1) }] {
        let mut server = server(rule);
        server.handle_datagram(SECOND, &update(1, 1.0, &[1.0, 1.0]).datagram());
        replies(&mut server);
        // Finite by themselves. Three workers may be inside: all are answered.
        for (count, values) in [(1, [3.0e38, 0.0]), (3, [f32::MAX, f32::MAX])] {
            let outcome = server.handle_datagram(SECOND, &update(count, 2.0, &values).datagram());
            assert_eq!((outcome, server.weights(JOB)), (AsyncOutcome::Diverges, Some(&[8.0, 8.0][..])));
            let answers = replies(&mut server);
            assert_eq!((answers.len(), status_of(&answers[0])), (1, Some(Status::Diverges)));
            assert_eq!(answers[0].0.flags.has(Flags::BYPASS), count == 1);
        }
        // Nor has it left a trace in the reward or in the average of gradients.
        assert_eq!(server.clusters().next().unwrap().1.reward(), Some(1.0));
        let next = update(1, 1.5, &[1.0, 1.0]).datagram();
        assert_eq!(server.handle_datagram(SECOND, &next), AsyncOutcome::Applied);
        assert_eq!(server.weights(JOB), Some(&[16.0, 16.0][..]));
    }
}

#[test]
fn replies_nobody_fetches_are_given_up_and_counted() {
    let mut server = server(Rule::default());
    for _ in 0..1030 {
        server.handle_datagram(SECOND, &update(1, 1.0, &[1.0, 1.0]).datagram());
    }
    assert_eq!(replies(&mut server).len(), 1024);
    assert_eq!((server.counters().replies, server.counters().replies_lost), (1 + 1024, 6));
}

#[test]
fn ages_and_fairness() {
    let mut server = empty(Settings::default());
    server.set_job(JOB + 1, AsyncJob { fan_in: 3, epoch: 9, payload: 8 });
    let other = |mut packet: Packet, generated| {
        packet.header.job = JOB + 1;
        packet.update = packet.update.map(|update| Update { generated_ns: generated, ..update });
        packet.datagram()
    };
    server.handle_datagram(0, &weights(&[0.0, 0.0]).datagram());
    assert!(
        (server.fairness(SECOND) - 1.0).abs() < 1e-9,
        "a cluster that has never been heard does not count"
    );
    server.handle_datagram(0, &other(weights(&[0.0, 0.0]), 0));
    server.handle_datagram(2 * SECOND, &update(1, 1.0, &[1.0, 1.0]).datagram());
    // RejectReason by the rule, and received nevertheless.
    server.handle_datagram(2 * SECOND, &other(update(1, 1.0, &[1.0; 2]), 0));
    let ages: Vec<_> = server.clusters().map(|(_, cluster)| cluster.age().unwrap().clone()).collect();
    // From 0 to 2, then from 1 to 3; and from 0 to 4.
    assert_eq!(ages.iter().map(|age| age.average(4 * SECOND) / 1e9).collect::<Vec<_>>(), [1.5, 2.0]);
    assert_eq!(ages[0].highest_peak(), 2 * SECOND);
    let expected = 3.5 * 3.5 / (2.0 * (1.5 * 1.5 + 2.0 * 2.0));
    assert!((server.fairness(4 * SECOND) - expected).abs() < 1e-9);
}

proptest! {
    /// However contributions are combined on the way, staleness-weighted SGD ends at the same weights: each
    /// makes its step.
    #[test]
    fn grouping_does_not_matter(
        values in prop::collection::vec(-64_i8..64, 1..40),
        cuts in prop::collection::vec(any::<bool>(), 40),
    ) {
        let rule = Rule::Staleness { rate: 0.5, half: Duration::from_secs(1) };
        let (mut single, mut grouped) = (server(rule), server(rule));
        let mut group: Vec<f32> = Vec::new();
        for (at, value) in values.iter().map(|value| f32::from(*value)).enumerate() {
            single.handle_datagram(SECOND, &update(1, 0.0, &[value, 1.0]).datagram());
            group.push(value);
            if cuts[at] || at + 1 == values.len() {
                let count = u16::try_from(group.len()).unwrap();
                let sums = [group.iter().sum(), f32::from(count)];
                let outcome = grouped.handle_datagram(SECOND, &update(count, 0.0, &sums).datagram());
                prop_assert_eq!(outcome, AsyncOutcome::Applied);
                group.clear();
            }
        }
        for (one, other) in single.weights(JOB).unwrap().iter().zip(grouped.weights(JOB).unwrap()) {
            prop_assert!((one - other).abs() < 1e-3, "{} and {}", one, other);
        }
        prop_assert_eq!(single.counters().contributions, grouped.counters().contributions);
    }

    /// Nothing that is received makes the server panic, and every datagram has a outcome.
    #[test]
    fn any_bytes(noise in prop::collection::vec((any::<usize>(), any::<u8>()), 0..6), cut in 0_usize..80) {
        let mut server = server(Rule::default());
        let mut datagram = update(1, 1.0, &[1.0, 1.0]).datagram();
        for (at, byte) in noise {
            let at = at % datagram.len();
            datagram[at] = byte;
        }
        datagram.truncate(cut);
        server.handle_datagram(SECOND, &datagram);
        prop_assert_eq!(server.counters().received(), 2);
    }
}
