use super::*;

#[test]
fn one_psn_once_in_an_interval_and_all_of_them_so_many_times() {
    let mut limits = Limits::default();
    let key = |psn| Key::new(1, 5, psn);
    assert!(limits.may_fan_out(key(1), 10));
    assert!(!limits.may_fan_out(key(1), 10 + INTERVAL_NS - 1));
    assert!(limits.may_fan_out(Key::new(2, 5, 1), 11) && limits.may_fan_out(key(1), 10 + INTERVAL_NS));
    let later = 5 * INTERVAL_NS;
    let admitted = (100..300).filter(|&psn| limits.may_fan_out(key(psn), later)).count();
    assert_eq!(admitted, FAN_OUTS as usize);
    assert!(limits.may_fan_out(key(299), later + INTERVAL_NS));
}

#[test]
fn refusals_keep_their_distance() {
    let mut limits = Limits::default();
    assert!(limits.may_refuse(0, true));
    limits.refused(7, true);
    assert!(!limits.may_refuse(7 + INTERVAL_NS - 1, true) && limits.may_refuse(7 + INTERVAL_NS, true));
    assert!(limits.may_refuse(8, false), "to a stranger, apart from that");
}
