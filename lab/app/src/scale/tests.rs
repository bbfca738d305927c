#![allow(clippy::unwrap_used, reason = "tests")]

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: ScaleArgs,
}

fn args(words: &[&str]) -> ScaleArgs {
    Cli::try_parse_from(["scale"].iter().chain(words)).unwrap().args
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (words, named) in [
        (vec!["--loss", "11"], "--loss 11"),
        (vec!["--loss", "NaN"], "--loss NaN"),
        (vec!["--bytes", "6"], "--bytes 6"),
        (vec!["--payload", "1001"], "--payload 1001"),
        (vec!["--levels", "2,65"], "--levels 2,65"),
        (vec!["--levels", "65,2"], "1 to 64 ranks each"),
        (vec!["--starts", "300000000000years"], "--starts"),
        (vec!["--levels", "64,64,64,8"], "16,384 appliances"),
        (vec!["--levels", "0"], "--levels 0"),
    ] {
        let refused = args(&words).setting().unwrap_err().to_string();
        assert!(refused.contains(named) && refused.contains("remedy"), "{refused}");
    }
}

#[test]
fn its_table_and_its_json_say_the_same() {
    let setting = args(&["--levels", "2,3", "--loss", "0.5"]).setting().unwrap();
    assert_eq!(setting.loss_per_million, 5000);
    let outcome = run(&setting, &mut |_, _| {}).unwrap();
    let (json, words) = (in_json(&outcome), in_words(&setting, &outcome));
    assert_eq!((&json["workers"], &json["wrong"]), (&json!(6), &json!(0)));
    let leaf = &json["levels"][1];
    assert_eq!((&leaf["appliances"], &leaf["ranks"]), (&json!(2), &json!(3)));
    let line = words.lines().last().unwrap();
    for key in ["joining_received", "joining_sent", "received", "sent", "control", "packets_held"] {
        let value = leaf[key].to_string();
        assert!(line.split_whitespace().any(|word| word == value), "{key} {value} in {line:?}");
    }
}
