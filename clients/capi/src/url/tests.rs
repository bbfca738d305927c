use super::*;

#[test]
fn what_does_not_end_is_not_waited_for() {
    assert_eq!(within(Duration::MAX, || 1).unwrap(), Some(1));
    let (end, ended) = channel::<()>();
    let slow = move || ended.recv();
    assert_eq!(within(Duration::ZERO, slow).unwrap(), None);
    drop(end);
}
