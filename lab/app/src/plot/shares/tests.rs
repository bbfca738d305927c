use super::*;

#[test]
fn what_was_measured_is_drawn() {
    let dir = std::env::temp_dir().join(format!("pascaline-shares-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (panels, out) = (dir.join("shares.json"), dir.join("shares.svg"));
    let panel = r#"{"title":"delay beside cubic","lines":[{"of":"job","points":[[0.1,0.5],[0.2,0.6]]}]}"#;
    std::fs::write(&panels, format!("[{}]", [panel; 5].join(","))).unwrap();
    draw(&SharesArgs { out: out.clone(), panels: panels.clone() }).unwrap();
    let picture = std::fs::read_to_string(&out).unwrap();
    assert_eq!(picture.matches("delay beside cubic").count(), 5);
    assert!(picture.contains("height=\"640\""), "the fifth is below");
    for bad in ["", "[]", "[{}]"] {
        std::fs::write(&panels, bad).unwrap();
        let error = draw(&SharesArgs { out: out.clone(), panels: panels.clone() }).unwrap_err();
        assert!(error.to_string().contains("shares.json"), "{error}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
