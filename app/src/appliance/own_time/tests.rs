use super::*;

#[test]
fn time_stands_still_while_nothing_turns() {
    let mut time = OwnTime::default();
    let millis = Duration::from_millis;
    assert_eq!(time.turn(millis(1)), (millis(1), None));
    assert_eq!(time.turn(millis(200)), (millis(200), None));
    assert_eq!(time.turn(millis(5500)), (millis(200), Some(millis(5300))));
    assert_eq!(time.turn(millis(5501)), (millis(201), None));
    assert_eq!(time.turn(millis(6000)), (millis(201), Some(millis(499))));
}
