use serde_json::json;

use super::*;

#[test]
fn an_answer_names_the_appliances_of_all_trees_and_their_backups() {
    let mut answer = json!({"address": "a:1", "backups": ["b:1"]});
    assert_eq!(appliances(&answer).unwrap(), "a:1,b:1");
    answer["further_trees"] =
        json!([{"address": "c:1", "backups": []}, {"address": "d:1", "backups": ["e:1", "f:1"]}]);
    let all = appliances(&answer).unwrap();
    assert_eq!(all, "a:1,b:1;c:1;d:1,e:1,f:1");
    // A worker that cannot turn to backups is told the trees nonetheless: its ranks use them.
    assert_eq!(without_backups(&all), "a:1;c:1;d:1");
    answer["further_trees"][0] = json!({});
    assert!(appliances(&answer).unwrap_err().to_string().contains("lacks address"));
}
