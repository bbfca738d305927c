use super::*;

#[test]
fn packets_leave_one_after_the_other_and_arrive_later() {
    let mut line = Line::new(Kind { byte: 10, delay: 1000, loss: 0 }, 1);
    assert_eq!(line.send(0, 5, 'a', None), Some(1050));
    assert_eq!(line.send(20, 5, 'b', None), Some(1100), "waits for the first");
    assert_eq!(line.send(500, 5, 'c', None), Some(1550), "the line was idle");
    assert_eq!(line.receive(1049), None);
    assert_eq!(line.receive(5000), Some((1050, 'a')));
    assert_eq!(line.receive(5000), Some((1100, 'b')));
    assert_eq!(line.next(), 1550);
    assert_eq!(line.receive(5000), Some((1550, 'c')));
    assert_eq!((line.receive(5000), line.next()), (None, NEVER));
}

#[test]
fn what_is_lost_does_not_arrive() {
    let mut line = Line::new(Kind { byte: 1, delay: 0, loss: 500_000 }, 1);
    for n in 0..1000 {
        line.send(n, 1, (), None);
    }
    let arrived = core::iter::from_fn(|| line.receive(NEVER - 1)).count();
    assert!((400..600).contains(&arrived), "{arrived}");
    assert_eq!(line.send(2000, 1, (), Some(1_000_000)), None);
    assert_eq!(line.send(2000, 1, (), Some(0)), Some(2002));
}
