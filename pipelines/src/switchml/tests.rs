use super::*;

fn session() -> SwitchMl {
    let (mac, address) = (Mac([2, 0, 0, 0, 0, 0x10]), [10, 0, 0, 254]);
    SwitchMl::new(Terms { udp_port: 48864, mac, address, slots: 4, size: Size::Bytes256 }, 2)
}

fn body(operation: u8, packet: u32, slot: u16, second: bool) -> Body {
    Body { size: Size::Bytes256, mark: Mark { operation, packet }, place: Place { slot, second } }
}

#[test]
fn the_sets_of_a_slot_count_its_rounds() {
    let session = session();
    for (round, second) in [(0, false), (1, true), (2, false), (3, true)] {
        for rank in [0, 1] {
            let body = body(0, round, 3, second);
            assert_eq!(session.psn(rank, 0, 4000, &body), Ok(round * 4 + 3), "rank {rank}");
            // Sent again.
            assert_eq!(session.psn(rank, 0, 4000, &body), Ok(round * 4 + 3), "rank {rank}");
        }
        assert_eq!(session.result(round * 4 + 3), (body(0, round, 3, second), 4000));
    }
}

#[test]
fn a_late_duplicate_of_the_round_before_begins_nothing() {
    let session = session();
    for rank in [0, 1] {
        assert_eq!(session.psn(rank, 0, 4000, &body(0, 10, 0, false)), Ok(0));
        assert_eq!(session.psn(rank, 0, 4000, &body(0, 14, 0, true)), Ok(4));
    }
    assert_eq!(session.psn(1, 0, 4000, &body(0, 10, 0, false)), Ok(0), "late");
    assert_eq!(session.psn(0, 0, 4000, &body(0, 18, 0, false)), Ok(8), "the next round");
    assert_eq!(
        session.psn(1, 0, 4000, &body(0, 10, 0, false)),
        Err(DropReason::OperationChanged),
        "later still"
    );
    assert_eq!(session.psn(1, 0, 4000, &body(0, 18, 0, false)), Ok(8));
}

#[test]
fn what_other_workers_do_not_send_in_a_round_is_dropped() {
    let session = session();
    assert_eq!(session.psn(0, 0, 4000, &body(0, 10, 1, false)), Ok(1));
    assert_eq!(session.psn(1, 0, 4000, &body(0, 11, 1, false)), Err(DropReason::OperationChanged));
    assert_eq!(session.psn(1, 0, 4000, &body(1, 10, 1, false)), Err(DropReason::OperationChanged));
    assert_eq!(session.psn(1, 0, 4000, &body(0, 10, 1, false)), Ok(1));
    assert_eq!(session.psn(0, 0, 4000, &body(0, 10, 4, false)), Err(DropReason::OutsideWindow));
    assert_eq!(session.psn(2, 0, 4000, &body(0, 10, 0, false)), Err(DropReason::OutsideWindow), "no rank");
    let longer = Body { size: Size::Bytes1024, ..body(0, 10, 0, false) };
    assert_eq!(session.psn(0, 0, 4000, &longer), Err(DropReason::PayloadLength));
}

#[test]
fn results_go_out_where_a_rank_was_heard() {
    let session = session();
    assert_eq!(session.port(1), None);
    assert_eq!(session.psn(1, 7, 4001, &body(0, 10, 1, false)), Ok(1));
    assert_eq!((session.port(0), session.port(1)), (None, Some(7)));
}
