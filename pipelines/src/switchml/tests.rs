use super::*;

fn session() -> SwitchMl {
    let (mac, address) = (Mac([2, 0, 0, 0, 0, 0x10]), [10, 0, 0, 254]);
    SwitchMl::new(Terms { udp_port: 48864, mac, address, slots: 4, size: Size::Bytes256 }, 2)
}

fn body(operation: u8, packet: u32, slot: u16, second: bool) -> Body {
    Body { size: Size::Bytes256, mark: Mark { operation, packet }, place: Place { slot, second } }
}

fn psn(session: &SwitchMl, rank: u16, body: &Body) -> Result<u32, DropReason> {
    session.psn(rank, 0, 4000, body).map(|belongs| belongs.psn)
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
            assert_eq!(session.psn(rank, 0, 4000, &own), belongs(false), "operation {operation}");
            assert_eq!(session.psn(rank, 0, 4000, &own), belongs(true), "operation {operation}");
            if let Some(former) = operation.checked_sub(128) {
                let former = body(u8::try_from(former % 256).unwrap(), 0, slot, round % 2 == 0);
                assert_eq!(psn(&session, rank, &former), Err(DropReason::Duplicate), "{operation}");
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
    assert_eq!(session.psn(1, 7, 4001, &body(0, 10, 1, false)), Ok(Belongs { psn: 1, again: false }));
    assert_eq!((session.port(0), session.port(1)), (None, Some(7)));
}
