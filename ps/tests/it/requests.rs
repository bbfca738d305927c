//! When the server asks, which ranks, and how often.

use core::time::Duration;

use pascaline_ps::{Config, Destination, JobParams, Outcome, Server};
use pascaline_wire::{Flags, Kind};

use crate::packets::{EPOCH, JOB, PSN, Packet, contribution, give, ms, server, settled, sum_of, take};

fn asked(packets: &[(Destination, Packet)]) -> Vec<Destination> {
    for (to, packet) in packets {
        match to {
            Destination::Appliance => assert_eq!(packet.header.kind, Kind::Fetch),
            Destination::Rank(rank) => {
                assert_eq!(packet.header.kind, Kind::Reminder);
                assert_eq!((packet.header.rank, packet.header.flags), (*rank, Flags::BYPASS));
            }
        }
        assert_eq!((packet.header.psn, packet.header.epoch), (PSN, EPOCH));
    }
    packets.iter().map(|(to, _)| *to).collect()
}

fn round(ranks: &[u16]) -> Vec<Destination> {
    let ranks = ranks.iter().map(|&rank| Destination::Rank(rank));
    core::iter::once(Destination::Appliance).chain(ranks).collect()
}

fn expire(server: &mut Server) -> (Duration, Vec<(Destination, Packet)>) {
    let at = server.poll_timeout().unwrap();
    server.handle_timeout(at);
    (at, take(server))
}

#[test]
fn a_late_entry_is_fetched_and_its_missing_ranks_reminded_in_one_go() {
    let mut server = server(5);
    give(&mut server, ms(0), &Packet::gradient(1, PSN, 5, &contribution(1, PSN)));
    give(&mut server, ms(0), &Packet::gradient(3, PSN, 5, &contribution(3, PSN)));
    assert!(take(&mut server).is_empty());
    assert_eq!(server.poll_timeout(), Some(ms(20)), "the initial timeout");
    server.handle_timeout(ms(19));
    assert!(take(&mut server).is_empty());
    let (_, packets) = expire(&mut server);
    assert_eq!(asked(&packets), round(&[0, 2, 4]));
}

#[test]
fn the_timeout_doubles_to_its_ceiling_until_the_age_limit() {
    let mut server = server(2);
    give(&mut server, ms(0), &Packet::gradient(0, PSN, 2, &contribution(0, PSN)));
    let mut times = Vec::new();
    while server.usage(JOB).unwrap().open > 0 {
        times.push(expire(&mut server).0);
    }
    let gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps[..6], [40, 80, 160, 320, 640, 1000].map(ms));
    assert_eq!(times.last(), Some(&Duration::from_secs(30)));
    assert_eq!(server.counters().given_up, 1);
    assert_eq!(server.poll_timeout(), None);
    assert_eq!(server.usage(JOB).unwrap().bytes, 0);
}

/// A partial of one rank.
fn half(rank: u16, psn: u32) -> Packet {
    Packet::partial(&[rank], psn, 2, &contribution(rank, psn))
}

#[test]
fn the_timeout_follows_the_time_to_completion_down_to_its_floor() {
    let mut server = server(2);
    for psn in 0..100 {
        let at = ms(u64::from(psn) * 10);
        give(&mut server, at, &half(0, psn));
        give(&mut server, at + Duration::from_micros(10), &half(1, psn));
        take(&mut server);
    }
    assert_eq!(server.usage(JOB).unwrap().timeout, ms(1));
}

#[test]
fn what_was_asked_for_does_not_raise_the_timeout_and_what_was_not_does() {
    for asked in [true, false] {
        let mut server = server(2);
        give(&mut server, ms(0), &half(0, PSN));
        if asked {
            server.handle_timeout(ms(20));
        }
        give(&mut server, ms(200), &half(1, PSN));
        assert_eq!(
            server.usage(JOB).unwrap().timeout,
            if asked { ms(20) } else { ms(600) },
            "asked: {asked}"
        );
    }
    // Nor do contributions that come one by one.
    let mut server = server(2);
    for rank in 0..2 {
        give(
            &mut server,
            ms(200 * u64::from(rank)),
            &Packet::gradient(rank, PSN, 2, &contribution(rank, PSN)),
        );
    }
    assert_eq!(server.usage(JOB).unwrap().timeout, ms(20));
}

#[test]
fn a_reminder_creates_the_entry_and_makes_it_due_at_once() {
    let mut server = server(3);
    assert_eq!(give(&mut server, ms(5), &Packet::reminder(1, PSN, 3)), Outcome::Reminded);
    assert_eq!(asked(&take(&mut server)), round(&[0, 1, 2]));
    assert_eq!(server.usage(JOB).unwrap().bytes, 0, "nothing is inside yet");
    give(&mut server, ms(6), &Packet::result(PSN, 3, &sum_of(&[0, 1, 2], PSN)));
    assert_eq!(take(&mut server)[0].1.payload, sum_of(&[0, 1, 2], PSN));
}

#[test]
fn a_flood_of_reminders_is_no_flood_of_fetches() {
    let mut server = server(4);
    let mut sent = 0;
    for tick in 0..100_000_u64 {
        let now = Duration::from_micros(tick);
        let rank = u16::try_from(tick % 4).unwrap();
        assert_eq!(give(&mut server, now, &Packet::reminder(rank, PSN, 4)), Outcome::Reminded);
        if server.poll_timeout().is_some_and(|at| at <= now) {
            server.handle_timeout(now);
        }
        sent += take(&mut server).len();
    }
    assert_eq!(server.counters().reminded, 100_000);
    assert!(server.counters().fetches_sent <= 5, "one per timeout of 20 ms");
    assert_eq!(sent as u64, server.counters().fetches_sent * 5);
}

#[test]
fn a_flood_of_reminders_for_a_kept_result_is_limited() {
    let mut server = server(4);
    for rank in 0..4 {
        give(&mut server, ms(0), &Packet::gradient(rank, PSN, 4, &contribution(rank, PSN)));
    }
    assert_eq!(take(&mut server).len(), 1);
    for tick in 0..1000 {
        let now = ms(10) + Duration::from_micros(tick);
        assert_eq!(give(&mut server, now, &Packet::reminder(2, PSN, 4)), Outcome::Late);
    }
    let answers = take(&mut server);
    assert_eq!(answers.len(), 4, "one for each rank, per millisecond");
    assert!(answers.iter().all(|(to, _)| *to == Destination::Rank(2)));
    assert_eq!(server.counters().answers_limited, 996);
}

#[test]
fn a_large_job_is_asked_in_pieces() {
    let mut server = server(1024);
    give(&mut server, ms(0), &Packet::gradient(1023, PSN, 1024, &contribution(0, PSN)));
    let mut sizes = Vec::new();
    let mut all = Vec::new();
    while all.len() < 1024 {
        let (_, packets) = expire(&mut server);
        sizes.push(packets.len());
        all.extend(asked(&packets));
    }
    assert_eq!(sizes, [64; 16]);
    assert_eq!(all, round(&(0..1023).collect::<Vec<_>>()));
    assert_eq!(server.counters().asked, 1);
}

#[test]
fn a_round_ends_with_its_entry_or_its_job() {
    let reminder = |server: &mut Server, psn| {
        give(server, ms(0), &Packet::reminder(0, psn, 1024));
        assert!(take(server).len() <= 64);
    };
    let mut server = server(1024);
    reminder(&mut server, PSN);
    assert_eq!(server.poll_timeout(), Some(ms(0)), "to be continued");
    give(&mut server, ms(0), &Packet::result(PSN, 1024, &contribution(0, PSN)));
    assert_eq!(take(&mut server).len(), 1);
    assert_eq!(server.poll_timeout(), None);
    reminder(&mut server, PSN + 1);
    assert_eq!(server.poll_timeout(), Some(ms(0)), "the budget is used up");
    server.remove_job(JOB);
    assert_eq!(server.poll_timeout(), None);
}

#[test]
fn reminders_do_not_prolong_the_life_of_an_entry() {
    let mut server = server(2);
    give(&mut server, ms(0), &Packet::gradient(0, PSN, 2, &contribution(0, PSN)));
    for at in [29_990, 29_995] {
        give(&mut server, ms(at), &Packet::reminder(1, PSN, 2));
        take(&mut server);
    }
    assert_eq!(server.poll_timeout(), Some(ms(30_000)));
    server.handle_timeout(ms(30_000));
    assert_eq!(server.counters().given_up, 1);
}

#[test]
fn a_late_partial_is_answered_to_all_once_in_a_while() {
    let mut server = server(3);
    let partial = Packet::partial(&[1, 2], PSN, 3, &sum_of(&[1, 2], PSN));
    give(&mut server, ms(0), &partial);
    give(&mut server, ms(0), &Packet::gradient(0, PSN, 3, &contribution(0, PSN)));
    assert_eq!(take(&mut server).len(), 1);
    for (at, answers) in [(ms(0), 0), (ms(1), 1), (ms(1), 0), (ms(2), 1)] {
        assert_eq!(give(&mut server, at, &partial), Outcome::Late);
        let sent = take(&mut server);
        assert_eq!(sent.len(), answers);
        assert!(sent.iter().all(|(to, _)| *to == Destination::Appliance));
    }
}

#[test]
fn ranks_that_arrive_meanwhile_are_not_asked() {
    let mut server = server(1024);
    give(&mut server, ms(0), &Packet::reminder(0, PSN, 1024));
    let mut all = asked(&take(&mut server));
    for rank in 100..1024 {
        give(&mut server, ms(0), &Packet::gradient(rank, PSN, 1024, &contribution(rank, PSN)));
    }
    server.handle_timeout(ms(0));
    all.extend(asked(&take(&mut server)));
    assert_eq!(all, round(&(0..100).collect::<Vec<_>>()));
}

#[test]
fn entries_and_jobs_take_turns() {
    let config = Config { burst: 4, ..settled() };
    let mut server = Server::new(config);
    for job in [JOB, JOB + 1] {
        server.set_job(job, JobParams::new(64, EPOCH)).unwrap();
        for psn in [1, 2] {
            let mut reminder = Packet::reminder(0, psn, 64);
            reminder.header.job = job;
            server.handle_datagram(ms(0), &reminder.to_bytes());
        }
    }
    let packets = take(&mut server);
    let mut served: Vec<_> =
        packets.iter().map(|(_, packet)| (packet.header.job, packet.header.psn)).collect();
    served.sort_unstable();
    assert_eq!(served, [(JOB, 1), (JOB, 2), (JOB + 1, 1), (JOB + 1, 2)]);
    assert_eq!(server.poll_timeout(), Some(ms(0)), "there is more");
}

#[test]
fn an_overlapping_partial_changes_nothing_and_its_ranks_are_asked_for_originals() {
    let mut server = server(4);
    give(&mut server, ms(0), &Packet::gradient(0, PSN, 4, &contribution(0, PSN)));
    let partial = Packet::partial(&[0, 1], PSN, 4, &sum_of(&[0, 1], PSN));
    let outcome = give(&mut server, ms(1), &partial);
    assert!(matches!(
        outcome,
        Outcome::Rejected { reason: pascaline_ps::RejectReason::Overlap, answer: None }
    ));
    assert_eq!(asked(&take(&mut server)), round(&[1, 2, 3]), "at once");
    for rank in 1..4 {
        let original = Packet::gradient(rank, PSN, 4, &contribution(rank, PSN)).flag(Flags::BYPASS);
        assert_eq!(give(&mut server, ms(2), &original), Outcome::Added);
    }
    assert_eq!(take(&mut server)[0].1.payload, sum_of(&[0, 1, 2, 3], PSN));
}

#[test]
fn contributions_that_cross_the_result_are_not_answered() {
    let mut server = server(3);
    give(&mut server, ms(0), &Packet::reminder(0, PSN, 3));
    take(&mut server);
    give(&mut server, ms(1), &Packet::result(PSN, 3, &sum_of(&[0, 1, 2], PSN)));
    assert_eq!(take(&mut server).len(), 1);
    let original = Packet::gradient(1, PSN, 3, &contribution(1, PSN));
    let at = ms(1) + Duration::from_micros(500);
    assert_eq!(give(&mut server, at, &original.clone().flag(Flags::BYPASS)), Outcome::Late);
    assert!(take(&mut server).is_empty());
    assert_eq!(give(&mut server, at, &original), Outcome::Late);
    assert!(take(&mut server).is_empty());
    assert_eq!(give(&mut server, at, &Packet::reminder(1, PSN, 3)), Outcome::Late);
    assert_eq!(take(&mut server)[0].0, Destination::Rank(1), "but who asks for the result is answered");
    assert_eq!(give(&mut server, ms(2), &original), Outcome::Late);
    assert_eq!(take(&mut server)[0].0, Destination::Rank(1), "and who sends after a while");
}

#[test]
fn a_whole_partial_is_the_result_whatever_the_entry_holds_and_only_once() {
    for begun in [false, true] {
        let mut server = server(3);
        if begun {
            give(&mut server, ms(0), &Packet::gradient(1, PSN, 3, &contribution(1, PSN)));
        }
        let whole = Packet::partial(&[0, 1, 2], PSN, 3, &sum_of(&[0, 1, 2], PSN));
        assert_eq!(give(&mut server, ms(1), &whole), Outcome::Merged);
        let sent = take(&mut server);
        assert_eq!(sent.len(), 1);
        assert_eq!((sent[0].0, &sent[0].1.payload), (Destination::Appliance, &sum_of(&[0, 1, 2], PSN)));
        assert_eq!(server.usage(JOB).map(|usage| (usage.open, usage.cached)), Some((0, 1)));
        // Made once more, with other bits perhaps: the first one is what counts.
        let other = Packet::partial(&[0, 1, 2], PSN, 3, &sum_of(&[0, 1], PSN));
        assert_eq!(give(&mut server, ms(10), &other), Outcome::Late);
        assert_eq!(take(&mut server)[0].1.payload, sum_of(&[0, 1, 2], PSN));
    }
}
