//! Memory is bounded, and no job can take another's.

use core::time::Duration;

use pascaline_ps::{
    Capacity, Completion, Config, Destination, JobParams, Order, Outcome, RejectReason, Server, SetJobError,
};

use crate::packets::{EPOCH, JOB, PSN, Packet, contribution, give, ms, settled, take};

fn params(fan_in: u16, entries: u32, bytes: usize) -> JobParams {
    let capacity = Capacity { entries, bytes };
    JobParams { capacity, payload_max: 12, ..JobParams::new(fan_in, EPOCH) }
}

fn server(config: Config, params: JobParams) -> Server {
    let mut server = Server::new(config);
    server.set_job(JOB, params).unwrap();
    server
}

fn gradient(rank: u16, psn: u32) -> Packet {
    Packet::gradient(rank, psn, 2, &contribution(rank, psn))
}

fn is_full(outcome: &Outcome) -> bool {
    *outcome == Outcome::Rejected { reason: RejectReason::Full, answer: None }
}

#[test]
fn newcomers_to_a_full_dictionary_are_refused_and_others_complete() {
    let mut server = server(settled(), params(2, 8, 1200));
    for psn in 0..8 {
        assert_eq!(give(&mut server, ms(0), &gradient(0, psn)), Outcome::Added);
    }
    assert!(is_full(&give(&mut server, ms(0), &gradient(0, 8))));
    assert!(is_full(&give(&mut server, ms(0), &Packet::reminder(0, 9, 2))));
    assert_eq!(give(&mut server, ms(0), &gradient(1, 3)), Outcome::Added);
    assert_eq!(take(&mut server).len(), 1);
    assert_eq!(give(&mut server, ms(0), &gradient(0, 8)), Outcome::Added, "there is room again");
}

/// Found with seed 9068960: late duplicates had opened entries for PSNs whose results were no longer kept.
#[test]
fn what_has_been_asked_for_in_vain_makes_room_for_what_is_waited_for() {
    for first in [5, u32::MAX - 1] {
        let mut server = server(settled(), params(2, 3, 1 << 20));
        let psn = |offset: u32| first.wrapping_add(offset);
        for offset in 0..3 {
            assert_eq!(give(&mut server, ms(0), &gradient(0, psn(offset))), Outcome::Added);
        }
        let mut rounds = 0;
        while is_full(&give(&mut server, server_time(rounds), &gradient(0, psn(9)))) {
            rounds += 1;
            assert!(rounds < 40, "long before the age limit");
            server.handle_timeout(server_time(rounds));
            while server.poll_action().is_some() {}
        }
        assert!(rounds > 3, "not at once");
        assert_eq!((server.counters().given_up, server.usage(JOB).unwrap().open), (1, 3));
        assert_eq!(give(&mut server, server_time(rounds), &gradient(1, psn(9))), Outcome::Added);
        assert_eq!(server.counters().finished, 1);
    }
}

fn server_time(rounds: u64) -> Duration {
    ms(500 * rounds)
}

#[test]
fn bytes_are_bounded_and_kept_results_make_room() {
    // Room for five payloads of 12 bytes.
    let mut server = server(settled(), params(2, 100, 60));
    for psn in 0..3 {
        give(&mut server, ms(0), &gradient(0, psn));
        give(&mut server, ms(0), &gradient(1, psn));
        take(&mut server);
    }
    assert_eq!(server.usage(JOB).unwrap().cached, 3);
    for psn in 10..15 {
        assert_eq!(give(&mut server, ms(0), &gradient(0, psn)), Outcome::Added);
    }
    assert_eq!(server.usage(JOB).unwrap().cached, 0);
    assert!(is_full(&give(&mut server, ms(0), &gradient(0, 15))));
    give(&mut server, ms(0), &Packet::reminder(0, 16, 2));
    take(&mut server);
    let result = Packet::result(16, 2, &contribution(0, 0));
    assert!(is_full(&give(&mut server, ms(0), &result)), "no room for the result");
    give(&mut server, ms(0), &gradient(1, 10));
    assert_eq!(server.usage(JOB).unwrap().bytes, 60);
    assert_eq!(take(&mut server).len(), 1, "the result takes over its entry's room");
}

#[test]
fn order_of_ranks_reserves_the_place_of_every_rank() {
    let order = Order::Rank;
    let mut server = server(settled(), JobParams { order, ..params(2, 100, 60) });
    assert_eq!(give(&mut server, ms(0), &gradient(1, 0)), Outcome::Added);
    assert_eq!(give(&mut server, ms(0), &gradient(1, 1)), Outcome::Added);
    assert!(is_full(&give(&mut server, ms(0), &gradient(1, 2))));
    give(&mut server, ms(0), &gradient(0, 0));
    assert_eq!(server.usage(JOB).unwrap().bytes, 12 + 24);
}

#[test]
fn the_last_results_are_kept_and_no_more() {
    let mut server = server(Config { cached: 4, ..settled() }, params(2, 100, 1200));
    for psn in 0..10 {
        give(&mut server, ms(0), &gradient(0, psn));
        give(&mut server, ms(0), &gradient(1, psn));
        assert_eq!(take(&mut server).len(), 1);
    }
    assert_eq!(server.usage(JOB).unwrap().cached, 4);
    assert_eq!(give(&mut server, ms(1), &Packet::reminder(1, 6, 2)), Outcome::Late);
    let (to, packet) = take(&mut server).remove(0);
    assert_eq!((to, packet.payload), (Destination::Rank(1), crate::packets::sum_of(&[0, 1], 6)));
    assert_eq!(give(&mut server, ms(1), &Packet::reminder(1, 5, 2)), Outcome::Reminded, "starts anew");
}

/// A PSN comes round after 2³² packets: what is kept must not answer for its successor.
#[test]
fn kept_results_expire() {
    let mut server = server(settled(), params(2, 100, 1200));
    give(&mut server, ms(0), &gradient(0, PSN));
    give(&mut server, ms(0), &gradient(1, PSN));
    take(&mut server);
    let later = Duration::from_secs(30);
    assert_eq!(give(&mut server, later - ms(1), &gradient(0, PSN)), Outcome::Late);
    assert_eq!(give(&mut server, later, &gradient(0, PSN)), Outcome::Added);
}

#[test]
fn one_job_cannot_starve_another() {
    let config = Config { capacity: Capacity { entries: 20, bytes: 240 }, ..settled() };
    let mut server = server(config, params(2, 10, 120));
    server.set_job(JOB + 1, params(2, 10, 120)).unwrap();
    for psn in 0..100 {
        give(&mut server, ms(0), &gradient(0, psn));
    }
    assert_eq!(server.usage(JOB).unwrap().open, 10);
    for psn in 0..10 {
        let mut packet = gradient(0, psn);
        packet.header.job = JOB + 1;
        assert_eq!(server.handle_datagram(ms(0), &packet.to_bytes()), Outcome::Added);
    }
    let left = Capacity { entries: 0, bytes: 0 };
    let wanted = Capacity { entries: 1, bytes: 24 };
    assert_eq!(server.set_job(9, params(2, 1, 24)), Err(SetJobError::Capacity { wanted, left }));
    assert_eq!(server.set_job(JOB, params(2, 5, 60)), Ok(()), "a job may shrink");
    assert_eq!(server.set_job(9, params(2, 1, 24)), Ok(()));
    assert_eq!(server.counters().forgotten, 10);
}

#[test]
fn impossible_jobs_are_refused() {
    let mut server = Server::new(settled());
    for fan_in in [0, 1025, u16::MAX] {
        assert_eq!(server.set_job(JOB, JobParams::new(fan_in, 0)), Err(SetJobError::FanIn { fan_in }));
    }
    for needed in [0, 3] {
        let completion = Completion::AtLeast(needed);
        assert_eq!(
            server.set_job(JOB, JobParams { completion, ..JobParams::new(2, 0) }),
            Err(SetJobError::Completion { needed, fan_in: 2 })
        );
    }
    assert!(matches!(server.set_job(JOB, params(2, 0, 100)), Err(SetJobError::TooSmall { .. })));
    assert!(matches!(server.set_job(JOB, params(2, 1, 23)), Err(SetJobError::TooSmall { .. })));
    let empty = JobParams { payload_max: 0, ..params(2, 1, 100) };
    assert!(matches!(server.set_job(JOB, empty), Err(SetJobError::TooSmall { .. })));
    assert!(server.job(JOB).is_none());
}

#[test]
fn a_driver_that_never_polls_does_not_make_it_grow() {
    let mut server = server(settled(), params(1, 100, 1200));
    for psn in 0..5000 {
        let packet = Packet::gradient(0, psn, 1, &contribution(0, psn));
        assert_eq!(give(&mut server, ms(0), &packet), Outcome::Added);
    }
    assert_eq!(take(&mut server).len() as u64 + server.counters().results_lost, 5000);
    assert!(server.counters().results_lost > 0);
}

#[test]
fn times_at_the_end_of_the_clock_and_backwards() {
    let mut server = server(settled(), params(2, 100, 1200));
    give(&mut server, Duration::MAX, &gradient(0, 1));
    give(&mut server, ms(0), &gradient(0, 2));
    server.handle_timeout(Duration::MAX);
    server.handle_timeout(ms(0));
    give(&mut server, ms(1), &Packet::reminder(1, 1, 2));
    give(&mut server, ms(1), &gradient(1, 1));
    take(&mut server);
}

/// A rank that lacks the result of an early PSN sends nothing that is much later: entries of later PSNs may
/// wait for it, and it for the room that they take up.
#[test]
fn an_early_psn_finds_room_where_later_ones_are() {
    let start = u32::MAX - 3;
    let psn = |number: u32| start.wrapping_add(number);
    for bytes in [1200, 48] {
        let mut server = server(settled(), params(2, 4, bytes));
        for number in 4..8 {
            assert_eq!(give(&mut server, ms(0), &gradient(0, psn(number))), Outcome::Added);
        }
        assert!(is_full(&give(&mut server, ms(0), &gradient(0, psn(8)))), "later than all others");
        assert_eq!(give(&mut server, ms(0), &Packet::reminder(1, psn(0), 2)), Outcome::Reminded);
        assert_eq!((server.usage(JOB).unwrap().open, server.counters().given_up), (4, 1));
        let result = Packet::result(psn(0), 2, &contribution(0, psn(0)));
        assert_eq!(give(&mut server, ms(1), &result), Outcome::Completed);
        // The latest entry was removed.
        assert_eq!(give(&mut server, ms(2), &gradient(0, psn(6))), Outcome::Duplicate);
        assert_eq!(give(&mut server, ms(2), &gradient(1, psn(6))), Outcome::Added);
        let before = server.counters().finished;
        assert_eq!(give(&mut server, ms(2), &gradient(1, psn(7))), Outcome::Added, "begins anew");
        assert_eq!(server.counters().finished, before);
    }
}
