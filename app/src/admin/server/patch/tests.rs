use serde_json::json;

use super::*;

fn read(json: Value) -> Result<Patch, Problem> {
    let Value::Object(keys) = json else { panic!("no object: {json}") };
    Patch::read(keys)
}

/// The cases of RFC 7396, appendix A, that a table of TOML can have.
#[test]
fn keys_are_merged_as_rfc_7396_says() {
    for (table, patch, is) in [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!({"a": "foo"}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}})),
        (json!({"e": {"g": 1}}), json!({"e": {"a": 1}}), json!({"e": {"g": 1, "a": 1}})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ] {
        let mut merged: toml::Table = serde_json::from_value(table.clone()).unwrap();
        read(patch.clone()).unwrap().apply(&mut merged);
        assert_eq!(serde_json::to_value(&merged).unwrap(), is, "{table} with {patch}");
    }
}

#[test]
fn what_cannot_stand_in_a_table_is_named_with_the_way_there() {
    let lists = json!({"parent": {"backups": [{"address": "10.0.0.1", "mac": null}]}});
    assert_eq!(read(lists).unwrap_err().error, "parent.backups: null in a list");
    let large = read(json!({"parent": {"rank": u64::MAX}})).unwrap_err();
    assert!(large.error.starts_with("parent.rank: "), "{large:?}");
    let absent = read(json!({"id": 1, "parent": {"rank": 1, "mac": null}})).unwrap();
    assert_eq!(absent.left_out().as_deref(), Some("parent.mac"));
    assert_eq!(read(json!({"id": 1, "parent": {"rank": 1}})).unwrap().left_out(), None);
}
