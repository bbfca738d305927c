//! A sum that may not be the only one is put to the vote before it is given out.

use core::time::Duration;

use pascaline_ps::{Config, Destination, JobParams, Order, Outcome, Server};
use pascaline_wire::{DType, Element, Flags, Kind, Op, Own, round};

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
    packet.header.own = Own::vote(round, u16::MAX);
    packet
}

/// A result as a rank that has taken it sends it.
fn taken(sum: &[u8]) -> Packet {
    let mut packet = Packet::result(PSN, 3, sum).flag(Flags::BYPASS);
    packet.header.own = Own::vote(round::TAKEN, u16::MAX);
    packet
}

/// Which ranks the server has asked, and under which round: the same for all.
fn asked(server: &mut Server) -> (Vec<Destination>, u16) {
    let sent = take(server);
    let rounds: Vec<u16> = sent.iter().map(|(_, packet)| packet.header.own.round()).collect();
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
    let (recipients, round) = asked(&mut server);
    assert_eq!(recipients, ALL.map(Destination::Rank), "complete, so the appliance has nothing to fetch");
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
    assert_eq!((&result.payload, result.header.own.round()), (&sum_of(&ALL, PSN), round));
    assert_eq!((server.counters().voted, server.counters().promises), (1, 3));
    // Who lacks it gets it with its round.
    give(&mut server, ms(9), &Packet::reminder(1, PSN, 3));
    let (to, packet) = take(&mut server).remove(0);
    assert_eq!(
        (to, packet.header.own.round(), &packet.payload),
        (Destination::Rank(1), round, &sum_of(&ALL, PSN))
    );
}

/// Seed 290805: each of eight ranks needs several questions where a fifth of all packets gets lost, and the
/// pauses between them grew to a second although others had answered.
#[test]
fn once_a_rank_has_answered_the_others_are_asked_again_soon() {
    let mut server = server(3);
    ALL.iter().for_each(|&rank| _ = give(&mut server, ms(1), &again(rank)));
    let (_, round) = asked(&mut server);
    let (mut now, mut pauses) = (ms(1), Vec::new());
    for _ in 0..3 {
        let due = server.poll_timeout().unwrap();
        pauses.push(due - now);
        now = due;
        server.handle_timeout(now);
        assert_eq!(asked(&mut server).0.len(), 3, "no rank has answered");
    }
    assert!(pauses.is_sorted() && pauses[2] >= 4 * pauses[0], "{pauses:?}");
    give(&mut server, now, &promise(0, round));
    let due = server.poll_timeout().unwrap();
    assert_eq!(due - now, pauses[0] / 2);
    server.handle_timeout(due);
    assert_eq!(asked(&mut server).0, [1, 2].map(Destination::Rank));
}

#[test]
fn a_rank_that_waits_for_a_round_that_never_was_gets_the_result_all_the_same() {
    let mut server = server(3);
    ALL.iter().for_each(|&rank| _ = give(&mut server, ms(1), &again(rank)));
    let (_, round) = asked(&mut server);
    ALL.iter().for_each(|&rank| _ = give(&mut server, ms(2), &promise(rank, round)));
    assert_eq!(result(&mut server).header.own.round(), round);
    let cases = [(round, Kind::Result), (round::NONE, Kind::Result), (round ^ 4, Kind::Reminder)];
    for (at, (promised, kind)) in (9..).zip(cases) {
        let (to, packet) = reminded(&mut server, at, promised);
        assert_eq!((to, packet.header.kind), (Destination::Rank(2), kind));
        assert_eq!(packet.header.own.round(), round, "it may promise this one instead");
    }
}

/// How rank 2 is answered that waits for a result of this round.
fn reminded(server: &mut Server, at: u64, promised: u16) -> (Destination, Packet) {
    let mut reminder = Packet::reminder(2, PSN, 3);
    reminder.header.own = Own::vote(promised, u16::MAX);
    assert_eq!(give(server, ms(at), &reminder), Outcome::Late);
    let sent = take(server);
    assert_eq!(sent.len(), 1);
    sent.into_iter().next().unwrap()
}

#[test]
fn who_waits_for_a_vote_is_asked_for_its_word_before_it_gets_a_sum_of_first_sendings() {
    let mut server = newcomer(true);
    first_sendings(&mut server, ms(1), PSN);
    assert_eq!(result(&mut server).header.own.round(), round::NONE);
    let (_, packet) = reminded(&mut server, 9, 77);
    let round = packet.header.own.round();
    assert_eq!((packet.header.kind, packet.header.flags.has(Flags::BYPASS)), (Kind::Reminder, true));
    give(&mut server, ms(10), &promise(2, round));
    let sent = take(&mut server);
    assert_eq!((sent[0].0, sent[0].1.header.own.round()), (Destination::Rank(2), round));
    assert_eq!(reminded(&mut server, 19, 78).1.header.own.round(), round, "there is one round for a result");
}

#[test]
fn who_asks_is_asked_back_even_if_no_further_request_may_be_sent() {
    let mut server = Server::new(Config { burst: 1, ..settled() });
    server.set_job(JOB, JobParams::new(3, EPOCH)).unwrap();
    first_sendings(&mut server, ms(1), PSN);
    result(&mut server);
    for at in [9, 10, 11] {
        assert_eq!(reminded(&mut server, at, 77).1.header.kind, Kind::Reminder);
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
    assert_eq!((&result.payload, result.header.own.round()), (&other, round::TAKEN));
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
        let (recipients, round) = asked(&mut server);
        assert_eq!(recipients, ALL.map(Destination::Rank));
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
        assert_eq!(result(&mut server).header.own.round(), round::NONE);
        // Late ones are answered with it, whatever they say.
        give(&mut server, ms(5), &again(2));
        assert_eq!(take(&mut server)[0].1.header.own.round(), round::NONE);
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
        assert_eq!(result(&mut server).header.own.round(), round::TAKEN);
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
fn a_server_that_comes_later_asks_about_all_that_may_have_been_sent_before() {
    let mut server = newcomer(false);
    first_sendings(&mut server, ms(1000), PSN);
    let (_, round) = asked(&mut server);
    ALL.iter().for_each(|&rank| _ = give(&mut server, ms(1001), &promise(rank, round)));
    assert_eq!(result(&mut server).header.own.round(), round);
    first_sendings(&mut server, ms(1199), PSN + 1);
    let (_, next) = asked(&mut server);
    assert_ne!(next, round);
    // Beyond the latest that came in its first 200 ms.
    let ahead = PSN + 1 + Config::default().ahead;
    for (psn, certain) in [(PSN + 2, false), (ahead, false), (ahead + 1, true)] {
        first_sendings(&mut server, ms(1_000_000), psn);
        let sent = take(&mut server);
        assert_eq!(sent[0].1.header.kind, if certain { Kind::Result } else { Kind::Reminder }, "{psn}");
    }
}

#[test]
fn who_sees_a_generation_begin_need_not_ask() {
    let mut server = newcomer(true);
    first_sendings(&mut server, ms(1), PSN);
    assert_eq!(result(&mut server).header.own.round(), round::NONE);
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
fn a_result_that_has_been_forgotten_makes_the_server_ask_however_late() {
    let mut server = Server::new(Config { settle: ms(200), cached: 1, ..settled() });
    server.witness(JOB);
    server.set_job(JOB, JobParams::new(3, EPOCH)).unwrap();
    for psn in [u32::MAX, 0, 1] {
        first_sendings(&mut server, ms(10), psn);
        assert_eq!(result(&mut server).header.own.round(), round::NONE, "now the one before is forgotten");
    }
    for psn in [u32::MAX, 0, u32::MAX - 1] {
        first_sendings(&mut server, ms(20_000), psn);
        asked(&mut server);
    }
    first_sendings(&mut server, ms(20_000), 2);
    assert_eq!(result(&mut server).header.own.round(), round::NONE, "later ones cannot have been given out");
}

/// Rank 2 has lost a result that rank 0 has taken. Its first sending comes when the result is forgotten.
#[test]
fn what_was_sent_first_proves_nothing_if_the_result_may_have_been_given_out_before_it_came() {
    let mut server = Server::new(Config { cached: 1, ..settled() });
    server.set_job(JOB, JobParams::new(3, EPOCH)).unwrap();
    ALL.iter().for_each(|&rank| _ = give(&mut server, ms(1), &again(rank)));
    let (_, round) = asked(&mut server);
    ALL.iter().for_each(|&rank| _ = give(&mut server, ms(2), &promise(rank, round)));
    assert_eq!(result(&mut server).header.own.round(), round);
    first_sendings(&mut server, ms(3), PSN + 1);
    result(&mut server);
    give(&mut server, ms(900), &Packet::gradient(2, PSN, 3, &contribution(2, PSN)));
    give(&mut server, ms(901), &again(0));
    give(&mut server, ms(902), &again(1));
    let (recipients, _) = asked(&mut server);
    assert_eq!(recipients, ALL.map(Destination::Rank));
}

#[test]
fn contributions_of_the_first_sending_that_come_meanwhile_end_a_vote() {
    let mut server = server(3);
    give(&mut server, ms(1), &again(0));
    server.handle_timeout(ms(21));
    let (recipients, round) = asked(&mut server);
    assert_eq!(recipients[0], Destination::Appliance);
    assert_eq!(recipients[1..], ALL.map(Destination::Rank), "also the one that is inside");
    for rank in [1, 2] {
        give(&mut server, ms(22), &Packet::gradient(rank, PSN, 3, &contribution(rank, PSN)));
    }
    assert_eq!(result(&mut server).header.own.round(), round, "some may have promised");
}

#[test]
fn what_the_appliance_has_kept_is_the_result_or_is_put_to_the_vote() {
    for settled in [true, false] {
        let mut server = newcomer(settled);
        give(&mut server, ms(1), &Packet::reminder(1, PSN, 3));
        let (recipients, round) = asked(&mut server);
        assert_eq!(recipients.len(), 4);
        give(&mut server, ms(2), &Packet::result(PSN, 3, &sum_of(&ALL, PSN)));
        if settled {
            assert_eq!(result(&mut server).header.own.round(), round, "some may have promised");
            continue;
        }
        assert!(take(&mut server).is_empty());
        ALL.iter().for_each(|&rank| _ = give(&mut server, ms(3), &promise(rank, round)));
        assert_eq!(result(&mut server).header.own.round(), round);
    }
}
