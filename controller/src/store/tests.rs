use super::*;
use crate::tree::Node;

#[test]
fn what_is_written_is_there_after_a_restart() {
    let file = std::env::temp_dir().join(format!("pascaline-store-{}.sqlite", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let tree = Tree { nodes: vec![Node { appliance: "a".into(), parent: None, ranks: vec![0, 1] }] };
    let pushed = Note::Pushed("a".into(), 1, Some(serde_json::json!({"id": 1})));
    {
        let mut store = Store::open(&file, Duration::from_secs(5)).unwrap();
        let moved = Note::Moved(Move { at: 5.0, text: "planned".into() });
        store.write(&[Note::Tree(1, "w0".into(), tree.clone()), pushed, moved]).unwrap();
        store
            .write(&[Note::Pushed("b".into(), 1, Some(Value::Null)), Note::Pushed("b".into(), 1, None)])
            .unwrap();
        let second = Store::open(&file, Duration::ZERO);
        assert!(second.is_err(), "two programs on one database");
    }
    let stored = Store::open(&file, Duration::ZERO).unwrap().load().unwrap();
    assert_eq!(stored.trees[&1], ("w0".to_owned(), tree));
    assert_eq!(stored.pushed.keys().collect::<Vec<_>>(), [&("a".to_owned(), 1)]);
    assert_eq!(stored.moves.len(), 1);
    assert!((-60.0..=0.5).contains(&stored.moves[0].at), "{}", stored.moves[0].at);
    std::fs::remove_file(&file).unwrap();
}
