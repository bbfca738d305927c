//! Packets sent in an earlier generation than the present one.

use pascaline_worker::recovery::Recovery;
use pascaline_worker::window::{REMIND_AFTER, Window};

use crate::units::{fill, ms};

/// An appliance that was started anew has forgotten results that another rank has: once a reminder has
/// brought one of them, all that was sent before is asked for, and not one of them after each timeout.
#[test]
fn what_a_reminder_has_brought_of_an_earlier_generation_is_a_sign_of_more() {
    let (mut window, mut recovery) = (Window::new(0, 8, 8), Recovery::default());
    window.begin(8);
    assert_eq!(fill(ms(0), &mut window, &mut recovery), 8);
    window.begin_generation();
    recovery.begin_generation();
    assert_eq!(fill(ms(500), &mut window, &mut recovery), 8);
    let due = recovery.poll_timeout(&window).unwrap();
    recovery.on_timeout(due, &mut window);
    let sending = window.send(due).unwrap();
    assert_eq!((sending.psn, sending.retransmissions), (0, REMIND_AFTER + 1));
    assert_eq!(window.send(due), None);
    let completion = window.complete(0, false).unwrap();
    recovery.on_result(due + ms(1), &completion, &mut window);
    let asked: Vec<_> = std::iter::from_fn(|| window.send(due + ms(1))).collect();
    assert_eq!(asked.iter().map(|sending| sending.psn).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
    assert!(asked.iter().all(|sending| sending.retransmissions > REMIND_AFTER));
    // Once.
    let completion = window.complete(1, false).unwrap();
    recovery.on_result(due + ms(2), &completion, &mut window);
    assert_eq!(window.send(due + ms(2)), None);
}
