use std::path::Path;

use super::*;

#[test]
fn names_are_unique_and_discriminants_are_indices() {
    let mut names: Vec<_> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), DropReason::ALL.len());
    assert!(DropReason::ALL.iter().enumerate().all(|(index, &reason)| reason as usize == index));
}

/// The page, as this list says it. Make it anew: `PASCALINE_WRITE=1 cargo test -p pascaline-telemetry
/// the_page`.
fn page() -> String {
    let mut page = String::from(
        "# Drop reasons

Every dropped packet counts under one reason, a label of `pascaline_dropped_packets_total`; the page and
`pascaline top` show the same. A low rate is harmless for the reasons that say *normal*. For one job,
`pascaline explain JOB` says more. This page is made from `telemetry/src/drops.rs`; a test compares them.

| reason | what it means | what to do |
|---|---|---|
",
    );
    for reason in DropReason::ALL {
        page += &format!("| `{}` | {} | {} |\n", reason.name(), reason.help(), reason.remedy());
    }
    page
}

#[test]
fn the_page_says_what_the_list_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/drop-reasons.md");
    if std::env::var_os("PASCALINE_WRITE").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == page(),
        "docs/drop-reasons.md is old: PASCALINE_WRITE=1 cargo test -p pascaline-telemetry the_page"
    );
}

/// The sources below a directory, one after the other, without tests.
fn sources(directory: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.file_stem().is_some_and(|stem| stem == "tests") {
            continue;
        }
        if path.is_dir() {
            text += &sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text += &std::fs::read_to_string(path).unwrap();
        }
    }
    text
}

/// docs/architecture.md relies on it: a search for the reason finds the place that decides.
#[test]
fn every_reason_is_given_on_the_packet_path() {
    let room = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = sources(&room.join("../pipelines/src"))
        + &std::fs::read_to_string(room.join("src/counters.rs")).unwrap();
    for reason in DropReason::ALL {
        assert!(text.contains(&format!("DropReason::{reason:?}")), "nothing is dropped as {}", reason.name());
    }
}
