//! The rooms of this crate: no two of them use each other, however indirectly.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What each room uses, by the `crate::` paths in its files; tests are no part of a room.
fn uses(path: &Path, room: Option<&str>, all: &mut BTreeMap<String, BTreeSet<String>>) {
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let room = room.unwrap_or(&name);
        if name == "tests" {
            continue;
        } else if path.is_dir() {
            uses(&path, Some(room), all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let mut used = BTreeSet::new();
            for after in text.split("crate::").skip(1) {
                let list = after.strip_prefix('{').map(|list| list.split('}').next().unwrap());
                for item in list.unwrap_or(after).split(", ").take(if list.is_some() { 99 } else { 1 }) {
                    let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
                    used.insert(item.trim().split(word).next().unwrap().to_owned());
                }
            }
            used.remove(room);
            all.entry(room.to_owned()).or_default().extend(used);
        }
    }
}

#[test]
fn no_two_rooms_use_each_other() {
    let mut all = BTreeMap::new();
    uses(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), None, &mut all);
    assert!(all["appliance"].contains("config") && all["cli"].contains("observe"), "{all:?}");
    // Whoever uses none of those that are left can go; what stays in the end is in a circle.
    while let Some(free) = all.iter().find(|(_, used)| !used.iter().any(|room| all.contains_key(room))) {
        let free = free.0.clone();
        all.remove(&free);
    }
    assert!(all.is_empty(), "a circle among these rooms: {all:?}");
}
