use crate::Config;

const EXAMPLE: &str = include_str!("../../../../conf/controller.toml");
/// One more appliance, as TOML.
const MORE: &str = "\n[[appliances]]\nname = \"NAME\"\nat = \"AT\"\naddress = \"ADDRESS\"\n\
                    admin = \"NAME:1\"\n\
                    router = \"02:50:00:00:00:02\"\n";

fn with(more: &[(&str, &str, &str)], trees: u16) -> Config {
    let mut text = EXAMPLE.replacen("id = 1\n", "id = 11\n", 1);
    for (name, at, address) in more {
        text += &MORE.replace("NAME", name).replace("AT", at).replace("ADDRESS", address);
    }
    let mut config = Config::parse(std::path::Path::new("controller.toml"), &text).unwrap();
    config.jobs[0].trees = trees;
    config
}

/// Each tree of the first job: its appliances with their parents.
fn found(config: &Config, may: &dyn Fn(usize) -> bool) -> Vec<Vec<(String, Option<String>)>> {
    let spare = |at: usize| config.network.appliances[at].spare;
    let trees = config.jobs[0].all_trees(&config.network, &|at| may(at) && !spare(at)).unwrap();
    let first = &trees[0];
    for tree in &trees {
        for (old, new) in first.nodes.iter().zip(&tree.nodes) {
            assert_eq!((&old.ranks, first.fan_in(old)), (&new.ranks, tree.fan_in(new)));
            assert_eq!(first.rank_above(old), tree.rank_above(new));
        }
    }
    let node = |node: crate::Node| (node.appliance, node.parent);
    trees.into_iter().map(|tree| tree.nodes.into_iter().map(node).collect()).collect()
}

fn tree(root: &str, leaves: &[&str]) -> Vec<(String, Option<String>)> {
    let leaf = |leaf: &&str| ((*leaf).to_owned(), Some(root.to_owned()));
    core::iter::once((root.to_owned(), None)).chain(leaves.iter().map(leaf)).collect()
}

#[test]
fn each_tree_has_another_root_and_racks_with_two_appliances_use_both() {
    let second = [("spine1-a", "spine1", "10.82.1.254")];
    let leaves = ["leaf0-a", "leaf1-a"];
    let both = [tree("spine0-a", &leaves), tree("spine1-a", &leaves)];
    assert_eq!(found(&with(&second, 2), &|_| true), both);
    // One beside a root is as near, and the last choice.
    let more = [("spine0-b", "spine0", "10.82.0.253"), second[0], ("leaf0-b", "leaf0", "10.80.0.252")];
    let others = ["leaf0-b", "leaf1-a"];
    let three = [tree("spine0-a", &leaves), tree("spine1-a", &others), tree("spine0-b", &leaves)];
    assert_eq!(found(&with(&more, 3), &|_| true), three);
}

#[test]
fn with_too_few_roots_left_trees_share_one() {
    let config = with(&[("spine1-a", "spine1", "10.82.1.254")], 2);
    let spine = |at: usize| config.network.appliances[at].name != "spine1-a";
    let one = tree("spine0-a", &["leaf0-a", "leaf1-a"]);
    assert_eq!(found(&config, &spine), [one.clone(), one]);
    // A leaf with workers and another leaf below has no other like it but one without a part.
    let leaves = |at: usize| config.network.appliances[at].at > 1;
    let leaf = tree("leaf0-a", &["leaf1-a"]);
    assert_eq!(found(&config, &leaves), [leaf.clone(), leaf.clone()]);
    let config = with(&[("leaf0-b", "leaf0", "10.80.0.252")], 2);
    let leaves = |at: usize| config.network.appliances[at].at > 1;
    assert_eq!(found(&config, &leaves), [leaf, tree("leaf0-b", &["leaf1-a"])]);
}

#[test]
fn an_appliance_that_cannot_be_reached_is_no_root() {
    let mut config = with(&[("spine1-a", "spine1", "10.82.1.254")], 2);
    for switch in &mut config.network.switches {
        switch.links.retain(|&to| to != 1);
    }
    config.network.switches[1].links.clear();
    let one = tree("spine0-a", &["leaf0-a", "leaf1-a"]);
    assert_eq!(found(&config, &|_| true), [one.clone(), one]);
}
