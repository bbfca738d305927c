use super::*;

#[test]
fn each_kind_is_logged_at_once_and_then_once_a_minute() {
    let mut notices = Notices::default();
    let at = Duration::from_secs;
    assert_eq!(notices.count(at(5), "fan-in"), Some(1));
    assert_eq!(notices.count(at(6), "rank"), Some(1), "another kind");
    for second in 7..65 {
        assert_eq!(notices.count(at(second), "fan-in"), None);
    }
    assert_eq!(notices.count(at(65), "fan-in"), Some(59), "those that were not logged, and this one");
    assert_eq!(notices.count(at(66), "fan-in"), None);
    assert_eq!(notices.count(at(66), "rank"), Some(1));
}
