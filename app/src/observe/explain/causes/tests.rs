use super::*;

/// What programs may find in `kind` is what the documentation lists.
#[test]
fn each_kind_of_reason_is_in_the_documentation() {
    let text = include_str!("../../../../../docs/operating.md");
    let (_, table) = text.split_once("| reason | from |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let kinds = table.lines().filter_map(|row| row.split('|').nth(1)).flat_map(|first| first.split('`'));
    let mut told: Vec<&str> = kinds.filter(|kind| kind.starts_with(char::is_alphabetic)).collect();
    let uncounted = [
        "lcore-stalled",
        "port-down",
        "not-member",
        "rank-lost",
        "rank-left",
        "rank-silent",
        "rank-blocked",
        "rank-overtaken",
        "halted",
        "objective",
        "parent-unreachable",
        "parent-silent",
        "parent-unproven",
        "parent-refuses",
        "parent-pending",
        "server-gone",
        "straggler",
        "neighbour",
    ];
    let mut all: Vec<&str> = COUNTED.iter().map(|cause| cause.kind).chain(uncounted).collect();
    told.sort_unstable();
    all.sort_unstable();
    all.dedup();
    assert_eq!(told, all);
}
