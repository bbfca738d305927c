use super::*;

fn session() -> SwitchMl {
    let (mac, address) = (Mac([2, 0, 0, 0, 0, 0x10]), [10, 0, 0, 254]);
    SwitchMl::new(Terms { udp_port: 48864, mac, address, slots: 4, size: Size::Bytes256 }, 2)
}

fn body(operation: u8, packet: u32, slot: u16, second: bool) -> Body {
    Body { size: Size::Bytes256, mark: Mark { operation, packet }, place: Place { slot, second } }
}

fn psn(session: &SwitchMl, rank: u16, body: &Body) -> Result<u32, DropReason> {
    session.psn(rank, (0, 0), 4000, body).map(|belongs| belongs.psn)
}

#[test]
fn the_sets_of_a_slot_count_its_rounds() {
    let session = session();
    for (round, second) in [(0, false), (1, true), (2, false), (3, true)] {
        for rank in [0, 1] {
            let body = body(0, round, 3, second);
            assert_eq!(psn(&session, rank, &body), Ok(round * 4 + 3), "rank {rank}");
            // Sent again.
            assert_eq!(psn(&session, rank, &body), Ok(round * 4 + 3), "rank {rank}");
        }
        assert_eq!(session.result(round * 4 + 3), (body(0, round, 3, second), 4000));
    }
}

#[test]
fn a_late_duplicate_of_the_round_before_begins_nothing() {
    let session = session();
    for rank in [0, 1] {
        assert_eq!(psn(&session, rank, &body(0, 10, 0, false)), Ok(0));
        assert_eq!(psn(&session, rank, &body(0, 14, 0, true)), Ok(4));
    }
    assert_eq!(psn(&session, 1, &body(0, 10, 0, false)), Err(DropReason::Duplicate), "late");
    assert_eq!(psn(&session, 0, &body(0, 18, 0, false)), Ok(8), "the next round");
    assert_eq!(psn(&session, 1, &body(0, 10, 0, false)), Err(DropReason::Duplicate), "later still");
    assert_eq!(psn(&session, 1, &body(0, 18, 0, false)), Ok(8));
}

#[test]
fn a_mark_that_comes_again_after_256_operations_begins_its_round() {
    let session = session();
    for operation in 0..2048_u32 {
        let (low, slot) = (u8::try_from(operation % 256).unwrap(), 3);
        // Every 128th operation comes to this slot; the others go elsewhere.
        if operation % 128 != 0 {
            let elsewhere = body(low, 0, 0, (operation - operation / 128) % 2 == 0);
            assert!(psn(&session, 0, &elsewhere).is_ok() && psn(&session, 1, &elsewhere).is_ok());
            continue;
        }
        let round = operation / 128;
        let own = body(low, 0, slot, round % 2 == 1);
        for rank in [0, 1] {
            let belongs = |again| Ok(Belongs { psn: round * 4 + 3, again });
            assert_eq!(session.psn(rank, (0, 0), 4000, &own), belongs(false), "operation {operation}");
            assert_eq!(session.psn(rank, (0, 0), 4000, &own), belongs(true), "operation {operation}");
            if let Some(former) = operation.checked_sub(128) {
                let former = body(u8::try_from(former % 256).unwrap(), 0, slot, round % 2 == 0);
                assert_eq!(psn(&session, rank, &former), Err(DropReason::Duplicate), "{operation}");
            }
        }
    }
}

/// One packet an operation, in turn over the slots and sets of a window.
fn in_turn(window: u32, packet: u32, operation: u32) -> Body {
    let place = packet % (2 * window);
    let slot = u16::try_from(place % window).unwrap();
    body(u8::try_from(operation % 256).unwrap(), 0, slot, place >= window)
}

fn with_slots(slots: u32) -> SwitchMl {
    SwitchMl::new(Terms { slots, ..*session().terms() }, 2)
}

/// Operations without elements have no packets: what comes after 256 operations may look like what was there
/// two rounds before.
#[test]
fn operations_without_packets_hide_nothing() {
    const LATER: u64 = LIFETIME_NS;
    for (window, resent) in [(64, false), (32, false), (16, true), (2, true), (1, true)] {
        let session = with_slots(64);
        let psn = |rank, now, body: &Body| session.psn(rank, (0, now), 4000, body).map(|of| of.psn);
        let packets = 2 * window;
        for cycle in 0..3 {
            for packet in 0..packets {
                let own = in_turn(window, packet, packet);
                let round = 2 * cycle + u32::from(packet >= window);
                let expected = round * 64 + packet % window;
                for rank in [0, 1] {
                    // A millisecond each; what is sent again comes after half a second.
                    let now = u64::from(cycle * packets + packet) * 1_000_000;
                    let late = resent && cycle > 0 && packet == 0;
                    if late {
                        let soon = psn(rank, now, &own);
                        assert_eq!(soon, Err(DropReason::Duplicate), "window {window}, cycle {cycle}");
                    }
                    let now = if late { now + LATER } else { now };
                    assert_eq!(
                        psn(rank, now, &own),
                        Ok(expected),
                        "window {window}, cycle {cycle}: {packet}"
                    );
                }
            }
            // The rest of 256 operations have no elements.
        }
    }
}

/// The same packets, where they are duplicates.
#[test]
fn a_duplicate_is_one_as_long_as_its_successor_is_not_due() {
    for window in [2, 16, 32, 64] {
        let session = with_slots(64);
        for packet in 0..2 * window {
            assert!(psn(&session, 0, &in_turn(window, packet, packet)).is_ok());
            if packet > window {
                let late = in_turn(window, packet - 1 - window, packet - 1 - window);
                assert_eq!(psn(&session, 0, &late), Err(DropReason::Duplicate), "window {window}: {packet}");
            }
        }
    }
}

#[test]
fn what_other_workers_do_not_send_in_a_round_is_dropped() {
    let session = session();
    assert_eq!(psn(&session, 0, &body(0, 10, 1, false)), Ok(1));
    assert_eq!(psn(&session, 1, &body(0, 11, 1, false)), Err(DropReason::OperationChanged));
    assert_eq!(psn(&session, 1, &body(1, 10, 1, false)), Err(DropReason::OperationChanged));
    assert_eq!(psn(&session, 1, &body(0, 10, 1, false)), Ok(1));
    assert_eq!(psn(&session, 0, &body(0, 10, 4, false)), Err(DropReason::OutsideWindow));
    assert_eq!(psn(&session, 2, &body(0, 10, 0, false)), Err(DropReason::OutsideWindow), "no rank");
    let longer = Body { size: Size::Bytes1024, ..body(0, 10, 0, false) };
    assert_eq!(psn(&session, 0, &longer), Err(DropReason::PayloadLength));
}

#[test]
fn what_comes_too_late_is_not_summed_with_packets_of_others() {
    let session = session();
    let own = |round: u32| body(0, 10 + round, 0, round % 2 == 1);
    for round in 0..4 {
        assert_eq!(psn(&session, 0, &own(round)), Ok(round * 4));
        assert_eq!(psn(&session, 1, &own(round)), Ok(round * 4));
    }
    // Three rounds late, twice: rank 1 is two rounds ahead of what it has sent.
    assert_eq!(psn(&session, 1, &own(0)), Ok(16));
    assert_eq!(psn(&session, 1, &own(1)), Ok(20));
    assert_eq!(psn(&session, 1, &own(4)), Ok(24));
    // In round 4 there is what rank 1 has sent for round 0.
    assert_eq!(psn(&session, 0, &own(4)), Err(DropReason::OperationChanged));
}

#[test]
fn results_go_out_where_a_rank_was_heard() {
    let session = session();
    assert_eq!(session.port(1), None);
    assert_eq!(session.psn(1, (7, 0), 4001, &body(0, 10, 1, false)), Ok(Belongs { psn: 1, again: false }));
    assert_eq!((session.port(0), session.port(1)), (None, Some(7)));
}
