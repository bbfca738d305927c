use super::*;
use crate::call::{Call, Collective};
use crate::element::{DType, Element, Op};
use crate::frame::Address;

fn report(state: RankState, silent_ms: u32, behind: u32) -> RankReport {
    let address = Address::from_v4([10, 77, 0, 3]);
    RankReport { silent_ms, behind, port: 49152, address, ..RankReport::new(2, state) }
}

#[test]
fn each_state_of_a_rank_has_its_words() {
    let told = [
        (RankReport::new(2, RankState::NeverJoined), "rank 2 has never joined"),
        (report(RankState::Left, 0, 4), "rank 2 (10.77.0.3 port 49152) has left, behind by 4 packets"),
        (
            report(RankState::Lost, 20_000, 0),
            "rank 2 (10.77.0.3 port 49152) counts as dead: it was silent for 20.0s",
        ),
        (report(RankState::Lost, 0, 0), "rank 2 (10.77.0.3 port 49152) counts as dead"),
        (
            report(RankState::Silent, 3_210, 1),
            "rank 2 (10.77.0.3 port 49152) is silent for 3.2s, behind by 1 packet",
        ),
        (report(RankState::Behind, 40, 12), "rank 2 (10.77.0.3 port 49152) is alive, behind by 12 packets"),
        (report(RankState::Here, 40, 0), "rank 2 (10.77.0.3 port 49152) is alive and waits as well"),
        (
            report(RankState::Overtaken, 40, 1500),
            "rank 2 (10.77.0.3 port 49152) is alive, but waits for results that are kept no longer, behind \
             by 1500 packets",
        ),
        (
            report(RankState::Blocked, 40, 0),
            "rank 2 (10.77.0.3 port 49152) is alive, but its data packets do not get through to the \
             appliance (a firewall, or a path MTU below them)",
        ),
    ];
    for (report, text) in told {
        assert_eq!(report.to_string(), text);
    }
}

#[test]
fn several_ranks_are_listed() {
    let mut ranks = RankReports::EMPTY;
    assert!(ranks.push(RankReport::new(1, RankState::NeverJoined)));
    assert!(ranks.push(RankReport::new(2, RankState::NeverJoined)));
    assert_eq!(ranks.to_string(), "rank 1 has never joined; rank 2 has never joined");
}

#[test]
fn operations_are_told_with_their_values() {
    let element = Element { dtype: DType::F32, op: Op::Sum };
    let most = Operation { rank: 0, element: Some(element), first: 7, call: Call::ALLREDUCE, bytes: 1 << 20 };
    let differing = Operation { rank: 2, bytes: (1 << 20) + 4, ..most };
    assert_eq!(
        Operations { most, differing }.to_string(),
        "rank 2 calls sum of 1048580 bytes of f32 at PSN 7, the others (rank 0 is one) call sum of 1048576 \
         bytes of f32 at PSN 7"
    );
    let call = |collective, argument| Operation { call: Call { collective, argument }, ..differing };
    let told = Operations { most: call(Collective::Reduce, 1), differing: call(Collective::Broadcast, 3) };
    assert_eq!(
        told.to_string(),
        "rank 2 calls broadcast from rank 3, copy of 1048580 bytes of f32 at PSN 7, the others (rank 2 is \
         one) call reduce to rank 1, sum of 1048580 bytes of f32 at PSN 7"
    );
    let idle = Operation { element: None, bytes: 0, ..differing };
    assert!(Operations { most, differing: idle }.to_string().starts_with("rank 2 calls nothing, the others"));
}
