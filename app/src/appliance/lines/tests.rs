use super::*;

#[test]
fn so_many_lines_a_minute_and_then_how_many_were_left_out() {
    let mut lines = Lines::default();
    let written = |lines: &mut Lines, now, asked: u32| (0..asked).filter_map(|_| lines.take(now)).count();
    let now = Duration::from_secs(1000);
    assert_eq!(written(&mut lines, now, 10_000), 2048);
    assert_eq!(written(&mut lines, now + Duration::from_secs(59), 10), 0);
    assert_eq!(lines.take(now + PERIOD), Some(10_000 - 2048 + 10));
    assert_eq!(lines.take(now + PERIOD), Some(0));
}
