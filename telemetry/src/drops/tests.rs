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

#[test]
fn the_map_says_of_each_reason_where_it_is_decided() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/architecture.md");
    let written = std::fs::read_to_string(path).unwrap();
    let (_, rest) = written.split_once("### Which file drops it?").unwrap();
    let rows = rest.split("\n\n").nth(1).unwrap().lines().skip(2);
    let cells: Vec<_> = rows.map(|row| row.split('|').nth(1).unwrap()).collect();
    let named: Vec<_> = cells.iter().flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    for reason in DropReason::ALL {
        let times = named.iter().filter(|name| **name == reason.name()).count();
        assert_eq!(times, 1, "rows for {}", reason.name());
    }
    assert_eq!(named.len(), DropReason::ALL.len(), "{named:?}");
}
