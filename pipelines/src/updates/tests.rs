use super::*;

#[test]
fn a_state_is_one_word() {
    for state in [
        QueueState { clusters: 0, capacity: 8, waiting: 0 },
        QueueState { clusters: 65_535, capacity: 1, waiting: 65_535 },
        QueueState { clusters: 1, capacity: 65_535, waiting: 3 },
    ] {
        assert_eq!(unpack(pack(state)), state);
    }
}
