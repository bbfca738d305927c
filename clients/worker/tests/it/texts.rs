//! docs/errors.md has what a worker says.

use std::time::Duration;

use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::trailer::{RankReport, RankState};
use pascaline_wire::{DType, Element, RankSet};
use pascaline_worker::masked::Fault;
use pascaline_worker::{Identity, JoinFailure, Rejection, StartError};

/// A text of which the numbers, and what is in brackets behind a rank, do not matter.
fn plain(text: &str) -> String {
    let text = text.replace('`', "").replace(" (10.77.0.3 port 49152)", "");
    let digits = |c: char| if c.is_ascii_digit() { '0' } else { c };
    let mut plain: String = text.chars().map(digits).collect();
    while plain.contains("00") {
        plain = plain.replace("00", "0");
    }
    plain
}

/// The text up to the first word that depends on the case.
fn begins(text: &str) -> String {
    let end = text.find([':', ',', ';']).unwrap_or(text.len());
    plain(&text[..end])
}

#[track_caller]
fn assert_documented(text: &str) {
    let page = plain(include_str!("../../../../docs/errors.md"));
    assert!(page.contains(&begins(text)), "docs/errors.md does not have {:?} ({text})", begins(text));
}

#[test]
fn every_refusal_is_on_the_page_of_errors() {
    let identity = Identity { job: 1, rank: 2, ranks: 4, payload: 1024 };
    let sum = u32::from(Element::F32_SUM.code());
    for status in Status::ALL {
        let (expected, got) = if status == Status::ElementMismatch { (sum, sum) } else { (1, 3) };
        let ack = Control { status, expected, got, ..Control::request(Action::Ack, 0) };
        let Some(rejection) = Rejection::of(&ack, None, &identity) else { continue };
        match status as u8 {
            // Of updates it is the reason that differs.
            24..=31 => assert_documented(&status.to_string()),
            _ => assert_documented(&rejection.to_string()),
        }
    }
}

#[test]
fn every_state_of_a_rank_is_on_the_page_of_errors() {
    for state in RankState::ALL {
        let report = RankReport { silent_ms: 3_200, ..RankReport::new(2, state) };
        assert_documented(&report.to_string());
        assert_documented(&format!("`{}`", state.name()));
    }
}

#[test]
fn what_fails_a_masked_operation_is_on_the_page_of_errors() {
    let ranks = RankSet::of_word(1 << 2);
    for fault in [
        Fault::Unmaskable { dtype: DType::F64, op: "sum" },
        Fault::Unmaskable { dtype: DType::F32, op: "min" },
        Fault::Random(String::new()),
        Fault::Absent { ranks },
        Fault::Foreign { ranks },
        Fault::NotFinite { ranks },
        Fault::Range { largest: 1 << 31, ranks: 2, most: (1 << 30) - 1 },
        Fault::Lacking { ranks },
        Fault::NotTheSum { wrong: 1, blocks: 4 },
    ] {
        // All of it: they begin with ranks.
        let said = fault.to_string();
        let said = plain(said.lines().next().unwrap_or_default());
        let page = plain(include_str!("../../../../docs/errors.md"));
        assert!(page.contains(said.trim_end()), "docs/errors.md does not have {said:?}");
    }
}

#[test]
fn what_keeps_an_operation_from_beginning_is_on_the_page_of_errors() {
    let told = [
        StartError::Broken,
        StartError::Ended { expected: 7, got: 6 },
        StartError::Busy,
        StartError::TooLong { bytes: 8_589_934_592 },
        StartError::Ragged { bytes: 10, size: 4 },
        StartError::ShortPayload { payload: 8 },
        StartError::Subtree { collective: "broadcast", workers: 8 },
        StartError::Root { root: 4, ranks: 4 },
        StartError::Parts { parts: 5, ranks: 4, sum: 12, elements: 16 },
    ];
    told.iter().for_each(|error| assert_documented(&error.to_string()));
    let waited = Duration::from_secs(30);
    assert_documented(&JoinFailure::NoWindow.to_string());
    assert_documented(&JoinFailure::NoAnswer { waited, appliance: None, report: None }.to_string());
    let incomplete = JoinFailure::Incomplete { joined: 3, ranks: 4, waited, missing: None };
    assert_documented(&incomplete.to_string());
}
