use super::*;

#[test]
fn a_cluster_is_active_for_one_to_two_periods() {
    let mut clusters = Clusters::new(4, 100);
    assert_eq!(clusters.active(1000), 0);
    clusters.note_activity(0, 1000);
    clusters.note_activity(0, 1050);
    clusters.note_activity(3, 1099);
    assert_eq!(clusters.active(1099), 2);
    clusters.note_activity(3, 1150);
    assert_eq!(clusters.active(1199), 2, "the period before still counts");
    assert_eq!(clusters.active(1200), 1, "only what was heard since 1100");
    assert_eq!(clusters.active(1300), 0);
}

#[test]
fn a_silence_makes_everybody_inactive() {
    let mut clusters = Clusters::new(4, 100);
    clusters.note_activity(1, 1000);
    clusters.note_activity(2, 5000);
    assert_eq!(clusters.active(5000), 1);
    clusters.note_activity(1, 5001);
    assert_eq!(clusters.active(5100), 2);
}

#[test]
fn a_clock_that_is_set_back_changes_nothing() {
    let mut clusters = Clusters::new(4, 100);
    clusters.note_activity(1, 1000);
    clusters.note_activity(2, 10);
    assert_eq!(clusters.active(10), 2);
}

#[test]
fn periods_can_run_out() {
    let mut clusters = Clusters::new(4, 100);
    clusters.period = u32::MAX - 1;
    clusters.note_activity(0, 1000);
    clusters.note_activity(1, 1100);
    assert_eq!(clusters.active(1100), 2);
    clusters.note_activity(1, 1200);
    assert_eq!(clusters.active(1200), 1);
    clusters.note_activity(0, 1250);
    assert_eq!(clusters.active(1299), 2);
}
