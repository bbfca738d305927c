use super::*;

#[test]
fn time_stands_still_while_nothing_turns() {
    let mut time = OwnTime::default();
    let millis = Duration::from_millis;
    for (at, held_up, pause, process, hearing) in [
        (1, false, None, 1, 1),
        (200, false, None, 200, 200),
        (5500, false, Some(5300), 200, 200),
        (5501, false, None, 201, 201),
        (5600, true, None, 300, 201),
        (5700, true, None, 400, 201),
        (6000, false, Some(300), 400, 201),
        (6100, false, None, 500, 301),
    ] {
        assert_eq!(time.turn(millis(at), held_up), pause.map(millis), "{at}");
        assert_eq!((time.process(), time.hearing()), (millis(process), millis(hearing)), "{at}");
    }
}
