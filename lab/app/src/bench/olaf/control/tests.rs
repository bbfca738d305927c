#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use super::*;

#[test]
fn every_sender_and_control_has_a_row_beside_the_papers() {
    let control = serde_json::to_value(Control::measure(1, 1).unwrap()).unwrap();
    assert_eq!(control["rows"].as_array().unwrap().len(), 2 * 3 * 5);
    for row in control["rows"].as_array().unwrap() {
        assert!(
            row["sent"].as_f64() <= row["updates"].as_f64() && row["received"].as_f64() > Some(0.0),
            "{row}"
        );
    }
    let fifo = &control["paper"][0];
    assert_eq!(fifo["jain"], 0.86);
    assert!(fifo["jain_of_its_ages"].as_f64().unwrap() < 0.75, "it does not follow: {fifo}");
}
