//! A sum that may not be the only one is put to the vote before it is given out.

use core::time::Duration;

use pascaline_ps::{Config, Destination, JobParams, Order, Outcome, Server};
use pascaline_wire::{DType, Element, Flags, Kind, Op, round};

use crate::packets::{
    EPOCH, JOB, PSN, Packet, contribution, give, ms, server, server_with, settled, sum_of, take,
};

const AGAIN: Flags = Flags::RETRANSMISSION;
const ALL: [u16; 3] = [0, 1, 2];

fn again(rank: u16) -> Packet {
    Packet::gradient(rank, PSN, 3, &contribution(rank, PSN)).flag(AGAIN)
}

/// The answer of a rank that has no result.
fn promise(rank: u16, round: u16) -> Packet {
    let mut packet = again(rank).flag(Flags::BYPASS);
    packet.header.priority = round;
    packet
}

/// A result as a rank that has taken it sends it.
fn taken(sum: &[u8]) -> Packet {
    let mut packet = Packet::result(PSN, 3, sum).flag(Flags::BYPASS);
    packet.header.priority = round::TAKEN;
    packet
}

/// Whom the server has asked, and under which round: the same for all.
fn asked(server: &mut Server) -> (Vec<Destination>, u16) {
    let sent = take(server);
    let rounds: Vec<u16> = sent.iter().map(|(_, packet)| packet.header.priority).collect();
    assert!(sent.iter().all(|(_, packet)| matches!(packet.header.kind, Kind::Reminder | Kind::Fetch)));
    let round = *rounds.first().expect("it asks");
    assert!((round::FIRST..=round::LAST).contains(&round) && rounds.iter().all(|&one| one == round));
    (sent.into_iter().map(|(to, _)| to).collect(), round)
}

/// The one result that the server has sent, to all ranks.
fn result(server: &mut Server) -> Packet {
    let mut sent = take(server);
    let (to, packet) = sent.pop().expect("a result");
    assert_eq!((to, packet.header.kind, sent.len()), (Destination::Appliance, Kind::Result, 0));
    packet
}

#[test]
fn what_was_all_sent_again_waits_for_the_promise_of_every_rank() {
    let mut server = server(3);
    for rank in ALL {
        assert_eq!(give(&mut server, ms(1), &again(rank)), Outcome::Added);
    }
    let (whom, round) = asked(&mut server);
    assert_eq!(whom, ALL.map(Destination::Rank), "complete, so the appliance has nothing to fetch");
    for rank in [2, 0] {
        assert_eq!(give(&mut server, ms(2), &promise(rank, round)), Outcome::Duplicate);
        // Neither a second time, nor of another round, nor what was on its way before, nor what lost a
        // conflict.
        give(&mut server, ms(2), &promise(rank, round));
        give(&mut server, ms(2), &promise(1, round + 1));
        give(&mut server, ms(2), &again(1));
        assert!(take(&mut server).is_empty());
    }
    give(&mut server, ms(3), &promise(1, round));
    let result = result(&mut server);
    assert_eq!((&result.payload, result.header.priority), (&sum_of(&ALL, PSN), round));
    assert_eq!((server.counters().voted, server.counters().promises), (1, 3));
    // Who lacks it gets it with its round.
    give(&mut server, ms(9), &Packet::reminder(1, PSN, 3));
    let (to, packet) = take(&mut server).remove(0);
    assert_eq!(
        (to, packet.header.priority, &packet.payload),
        (Destination::Rank(1), round, &sum_of(&ALL, PSN))
    );
}

#[test]
fn a_rank_that_waits_for_a_round_that_never_was_gets_the_result_all_the_same() {
    let mut server = server(3);
    ALL.iter().for_each(|&rank| _ = give(&mut server, ms(1), &again(rank)));
    let (_, round) = asked(&mut server);
    ALL.iter().for_each(|&rank| _ = give(&mut server, ms(2), &promise(rank, round)));
    assert_eq!(result(&mut server).header.priority, round);
    let cases = [(round, round), (round::NONE, round), (round ^ 4, round::TAKEN), (round, round::TAKEN)];
    for (at, (promised, answered)) in (9..).zip(cases) {
        let mut reminder = Packet::reminder(2, PSN, 3);
        reminder.header.priority = promised;
        give(&mut server, ms(at), &reminder);
        assert_eq!(take(&mut server)[0].1.header.priority, answered);
    }
}

#[test]
fn a_result_that_some_rank_has_taken_ends_the_vote() {
    let mut server = server(3);
    ALL.iter().for_each(|&rank| _ = give(&mut server, ms(1), &again(rank)));
    let (_, round) = asked(&mut server);
    give(&mut server, ms(2), &promise(0, round));
    // The same contributions, added in another order, as far as one can tell.
    let other = sum_of(&[0, 1, 2], PSN + 1);
    assert_eq!(give(&mut server, ms(2), &taken(&other)), Outcome::Completed);
    let result = result(&mut server);
    assert_eq!((&result.payload, result.header.priority), (&other, round::TAKEN));
    assert_eq!(server.counters().voted, 0);
}

#[test]
fn a_whole_partial_of_what_was_sent_again_is_put_to_the_vote() {
    for begun in [false, true] {
        let mut server = server(3);
        if begun {
            give(&mut server, ms(0), &again(1));
        }
        let whole = Packet::partial(&ALL, PSN, 3, &sum_of(&ALL, PSN)).flag(AGAIN);
        assert_eq!(give(&mut server, ms(1), &whole), Outcome::Merged);
        let (whom, round) = asked(&mut server);
        assert_eq!(whom, ALL.map(Destination::Rank));
        assert_eq!(server.usage(JOB).map(|usage| (usage.open, usage.cached)), Some((1, 0)));
        ALL.iter().for_each(|&rank| _ = give(&mut server, ms(2), &promise(rank, round)));
        assert_eq!(result(&mut server).payload, sum_of(&ALL, PSN));
    }
}

#[test]
fn one_contribution_of_the_first_sending_is_enough_where_everything_is_known() {
    let first = |rank| Packet::gradient(rank, PSN, 3, &contribution(rank, PSN));
    for last in [first(2), Packet::partial(&[2], PSN, 3, &contribution(2, PSN))] {
        let mut server = server(3);
        give(&mut server, ms(1), &again(0));
        give(&mut server, ms(1), &again(1));
        give(&mut server, ms(1), &last);
        assert_eq!(result(&mut server).header.priority, round::TAKEN);
        // Late ones are answered with it, whatever they say.
        give(&mut server, ms(5), &again(2));
        assert_eq!(take(&mut server)[0].1.header.priority, round::TAKEN);
    }
}

#[test]
fn what_does_not_depend_on_the_order_needs_no_vote() {
    let minimum = Element { dtype: DType::F32, op: Op::Min };
    let half = Element { dtype: DType::F16, op: Op::Sum };
    let by_rank = JobParams { order: Order::Rank, ..JobParams::new(3, EPOCH) };
    let by_arrival = JobParams::new(3, EPOCH);
    for (params, element) in [(by_rank, Element::F32_SUM), (by_arrival, minimum), (by_arrival, half)] {
        let mut server = server_with(params);
        for rank in ALL {
            let mut packet = again(rank);
            packet.header.element = element;
            assert_eq!(give(&mut server, ms(1), &packet), Outcome::Added);
        }
        assert_eq!(result(&mut server).header.priority, round::TAKEN);
    }
}

/// A server that was started a moment ago.
fn newcomer(witnesses: bool) -> Server {
    let mut server = Server::new(Config { settle: ms(200), ..settled() });
    if witnesses {
        server.witness(JOB);
    }
    server.set_job(JOB, JobParams::new(3, EPOCH)).unwrap();
    server
}

fn first_sendings(server: &mut Server, at: Duration, psn: u32) {
    for rank in ALL {
        give(server, at, &Packet::gradient(rank, psn, 3, &contribution(rank, psn)));
    }
}

#[test]
fn a_server_that_comes_later_asks_until_all_that_was_under_way_has_arrived() {
    let mut server = newcomer(false);
    first_sendings(&mut server, ms(1000), PSN);
    let (_, round) = asked(&mut server);
    ALL.iter().for_each(|&rank| _ = give(&mut server, ms(1001), &promise(rank, round)));
    assert_eq!(result(&mut server).header.priority, round);
    first_sendings(&mut server, ms(1199), PSN + 1);
    let (_, next) = asked(&mut server);
    assert_ne!(next, round);
    first_sendings(&mut server, ms(1200), PSN + 2);
    assert_eq!(result(&mut server).header.priority, round::TAKEN);
}

#[test]
fn who_sees_a_generation_begin_need_not_ask() {
    let mut server = newcomer(true);
    first_sendings(&mut server, ms(1), PSN);
    assert_eq!(result(&mut server).header.priority, round::TAKEN);
    // Nor in the next one. But told something else of the same one, it forgets what it has done in it.
    for (epoch, payload_max, certain) in
        [(EPOCH + 1, 64, true), (EPOCH + 1, 128, false), (EPOCH + 2, 128, true)]
    {
        server.set_job(JOB, JobParams { payload_max, ..JobParams::new(3, epoch) }).unwrap();
        for rank in ALL {
            let mut packet = Packet::gradient(rank, PSN, 3, &contribution(rank, PSN));
            packet.header.epoch = epoch;
            give(&mut server, ms(2), &packet);
        }
        let kinds: Vec<Kind> = take(&mut server).iter().map(|(_, packet)| packet.header.kind).collect();
        assert_eq!(kinds, if certain { vec![Kind::Result] } else { vec![Kind::Reminder; 3] });
    }
}

#[test]
fn a_result_that_was_forgotten_too_early_makes_the_server_ask() {
    let mut server = Server::new(Config { settle: ms(200), cached: 1, ..settled() });
    server.witness(JOB);
    server.set_job(JOB, JobParams::new(3, EPOCH)).unwrap();
    first_sendings(&mut server, ms(10), PSN);
    assert_eq!(result(&mut server).header.priority, round::TAKEN);
    first_sendings(&mut server, ms(20), PSN + 1);
    assert_eq!(result(&mut server).header.priority, round::TAKEN, "now the first one is forgotten");
    first_sendings(&mut server, ms(209), PSN + 2);
    asked(&mut server);
    first_sendings(&mut server, ms(210), PSN + 3);
    assert_eq!(result(&mut server).header.priority, round::TAKEN, "what came from then has arrived");
}

#[test]
fn contributions_of_the_first_sending_that_come_meanwhile_end_a_vote() {
    let mut server = server(3);
    give(&mut server, ms(1), &again(0));
    server.handle_timeout(ms(21));
    let (whom, _) = asked(&mut server);
    assert_eq!(whom[0], Destination::Appliance);
    assert_eq!(whom[1..], ALL.map(Destination::Rank), "also the one that is inside");
    for rank in [1, 2] {
        give(&mut server, ms(22), &Packet::gradient(rank, PSN, 3, &contribution(rank, PSN)));
    }
    assert_eq!(result(&mut server).header.priority, round::TAKEN);
}

#[test]
fn what_the_appliance_has_kept_is_the_result_or_is_put_to_the_vote() {
    for settled in [true, false] {
        let mut server = newcomer(settled);
        give(&mut server, ms(1), &Packet::reminder(1, PSN, 3));
        let (whom, round) = asked(&mut server);
        assert_eq!(whom.len(), 4);
        give(&mut server, ms(2), &Packet::result(PSN, 3, &sum_of(&ALL, PSN)));
        if settled {
            assert_eq!(result(&mut server).header.priority, round::TAKEN);
            continue;
        }
        assert!(take(&mut server).is_empty());
        ALL.iter().for_each(|&rank| _ = give(&mut server, ms(3), &promise(rank, round)));
        assert_eq!(result(&mut server).header.priority, round);
    }
}
