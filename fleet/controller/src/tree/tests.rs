use std::collections::BTreeSet;

use super::*;
use crate::Config;

fn config() -> Config {
    let text = include_str!("../../../../conf/controller.toml");
    Config::parse(std::path::Path::new("controller.toml"), text).unwrap()
}

fn parents(tree: &Tree) -> Vec<(&str, Option<&str>, &[u16])> {
    tree.nodes.iter().map(|node| (&*node.appliance, node.parent.as_deref(), &*node.ranks)).collect()
}

#[test]
fn the_nearest_appliance_adds_and_the_best_linked_one_is_the_root() {
    let config = config();
    let tree = config.jobs[0].tree(&config.network, &|at| !config.network.appliances[at].spare).unwrap();
    let expected: [(&str, Option<&str>, &[u16]); 3] = [
        ("spine0-a", None, &[]),
        ("leaf0-a", Some("spine0-a"), &[0, 1]),
        ("leaf1-a", Some("spine0-a"), &[2]),
    ];
    assert_eq!(parents(&tree), expected);
    assert_eq!(tree.rank_above(&tree.nodes[2]), Some(1));
    assert_eq!(tree.place(1).map(|(node, rank)| (&*node.appliance, rank)), Some(("leaf0-a", 1)));
}

#[test]
fn without_an_appliance_at_a_spine_a_leaf_is_the_root_and_has_workers_and_leaves() {
    let config = config();
    let leaves = |at: usize| config.network.appliances[at].name.starts_with("leaf");
    let tree = config.jobs[0].tree(&config.network, &leaves).unwrap();
    let expected: [(&str, Option<&str>, &[u16]); 2] =
        [("leaf0-a", None, &[0, 1]), ("leaf1-a", Some("leaf0-a"), &[2])];
    assert_eq!(parents(&tree), expected);
    assert_eq!((tree.fan_in(&tree.nodes[0]), tree.rank_above(&tree.nodes[1])), (3, Some(2)));
    // One appliance for all ranks is alone.
    let one = |at: usize| config.network.appliances[at].name == "leaf1-a";
    assert_eq!(config.jobs[0].tree(&config.network, &one).unwrap().nodes.len(), 1);
    let none = config.jobs[0].tree(&config.network, &|_| false).unwrap_err();
    assert_eq!(none.message, "no appliance that is up can be reached from host \"w0\"");
}

#[test]
fn what_is_no_tree_is_refused_in_words() {
    let network = &config().network;
    let refused = |edges: &[(usize, usize)], places: &[usize]| {
        let edges: BTreeSet<(usize, usize)> = edges.iter().copied().collect();
        Tree::build(network, &edges, places).unwrap_err().message
    };
    let two = "appliance \"leaf0-a\" has two parents, \"spine0-a\" and \"leaf1-a\"";
    assert_eq!(refused(&[(1, 0), (1, 2)], &[1]), two);
    assert_eq!(refused(&[(1, 2), (2, 1)], &[1]), "the parents of appliance \"leaf0-a\" go round in a loop");
    assert_eq!(refused(&[(0, 0)], &[0]), "the parents of appliance \"spine0-a\" go round in a loop");
    assert_eq!(refused(&[], &[1, 2]), "there are two roots, \"leaf0-a\" and \"leaf1-a\"");
}

#[test]
fn a_replaced_appliance_leaves_every_rank_as_it_was() {
    let config = config();
    let all = |at: usize| !config.network.appliances[at].spare;
    let before = config.jobs[0].tree(&config.network, &all).unwrap();
    let mut after = before.clone();
    after.replace("leaf0-a", "spare");
    after.replace("spine0-a", "other");
    for (old, new) in before.nodes.iter().zip(&after.nodes) {
        assert_eq!(before.rank_above(old), after.rank_above(new));
        assert_eq!((&old.ranks, before.fan_in(old)), (&new.ranks, after.fan_in(new)));
    }
    assert_eq!(after.node("spare").and_then(|node| node.parent.as_deref()), Some("other"));
}
