use super::*;

/// Sends probes over a path that takes payloads up to a length.
fn over(full: u16, takes: u16) -> Option<Passage> {
    let mut probes = Probes::default();
    probes.begin(full, u32::MAX - 5);
    for _ in 0..9 * LENGTHS {
        if let Some(Probe { psn, length }) = probes.next() {
            assert!(length <= full);
            assert!(length > takes || probes.answers(psn), "{length}");
        }
    }
    probes.passage()
}

#[test]
fn a_path_that_takes_all_lengths_is_no_news() {
    assert_eq!(over(1024, 1024), None);
    assert_eq!(over(8, 8), None);
}

#[test]
fn a_path_that_takes_none_says_nothing_about_lengths() {
    assert_eq!(over(1024, 0), None);
}

#[test]
fn a_path_that_takes_short_ones_is_told_with_the_longest_that_gets_through() {
    assert_eq!(over(8896, 1448), Some(Passage { lost: 8896, through: 1408 }));
    assert_eq!(over(1408, 1300), Some(Passage { lost: 1408, through: 1152 }));
    assert_eq!(over(1408, 600), Some(Passage { lost: 1408, through: 512 }));
    assert_eq!(over(1024, 600), Some(Passage { lost: 1024, through: 512 }));
    assert_eq!(over(1024, 100), Some(Passage { lost: 1024, through: 8 }));
}

#[test]
fn a_few_lost_packets_prove_nothing() {
    let mut probes = Probes::default();
    probes.begin(1024, 0);
    for _ in 0..4 * LENGTHS {
        let probe = probes.next().unwrap_or(Probe { psn: 0, length: 1024 });
        assert!(probe.length == 1024 || probes.answers(probe.psn));
    }
    assert_eq!(probes.passage(), None);
}

#[test]
fn an_appliance_that_answers_few_probes_proves_nothing() {
    let mut probes = Probes::default();
    probes.begin(1024, 0);
    for turn in 0..40 * LENGTHS {
        let probe = probes.next().unwrap_or(Probe { psn: 0, length: 1024 });
        assert!(probe.length == 1024 || turn % 8 > 3 || probes.answers(probe.psn));
        assert_eq!(probes.passage(), None);
    }
}

#[test]
fn what_answers_something_else_is_no_answer() {
    let mut probes = Probes::default();
    probes.begin(1024, 0);
    assert!(!probes.answers(FAR), "nothing was sent");
    probes.next();
    assert!(probes.answers(FAR) && !probes.answers(0) && !probes.answers(FAR + 9));
}

#[test]
fn each_usual_mtu_has_a_length_that_fits_by_either_ip() {
    use crate::way::largest_payload;
    // Over IPv6 no MTU is below 1,280.
    for (mtu, by) in [(9000, 2), (1500, 2), (1400, 2), (1280, 2), (576, 1)] {
        for ipv6 in [false, true].into_iter().take(by) {
            let most = largest_payload(mtu, ipv6);
            let found = COMMON.into_iter().map(usize::from).find(|&length| length <= most).unwrap_or(0);
            assert!(most - found < 96, "{mtu} takes {most}, and {found} is tried");
        }
    }
}
