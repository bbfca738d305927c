use crate::{Scenario, VerifyError};

const GOOD: &str = r#"horizon = "3s"
[queue]
length = 8
service = "2ms"
[[clusters]]
name = "a"
period = "100ms"
[[clusters]]
name = "b"
rate = ["5/s", "10/s"]
phase = ["0ms", "100ms"]
[clusters.control]
threshold = "400ms"
slope = "urgency"
[[query]]
measure = "peak"
difference = "100us"
"#;

#[test]
fn a_good_file_is_read() {
    let scenario = Scenario::parse(GOOD, "good".as_ref()).unwrap();
    assert_eq!(scenario.clusters.len(), 2);
    let millisecond = 1_000_000_u64;
    assert_eq!(scenario.clusters[1].period.low, crate::Exact::from_integer((100 * millisecond).into()));
    assert_eq!(scenario.clusters[1].period.high, crate::Exact::from_integer((200 * millisecond).into()));
    assert!(!scenario.is_determined());
}

#[test]
fn a_line_and_a_size_are_a_service_time() {
    let text = GOOD.replace("service = \"2ms\"", "update = \"1kB\"\nline = \"0.2Mbit/s\"");
    let scenario = Scenario::parse(&text, "good".as_ref()).unwrap();
    assert_eq!(scenario.queue.service, crate::Exact::from_integer(40_000_000_u64.into()));
}

/// Each mistake by itself, with the line that it is reported at and a word of the message.
#[test]
fn mistakes_are_told_with_place_and_remedy() {
    let cases = [
        ("horizon = \"3s\"", "horizon = \"0s\"", Some(1), "a horizon of zero"),
        ("horizon = \"3s\"", "horizon = \"3s\"\nfrom = \"3s\"", Some(2), "not before the horizon"),
        ("horizon = \"3s\"", "horizon = \"three\"", Some(1), "three"),
        ("length = 8", "length = 0", Some(3), "0 updates"),
        ("length = 8", "length = 70000", Some(3), "70000"),
        ("service = \"2ms\"", "service = \"0ms\"", Some(4), "service time of zero"),
        ("service = \"2ms\"", "update = \"1kB\"", Some(2), "p/C"),
        ("service = \"2ms\"", "update = \"1kB\"\nline = \"0bit/s\"", Some(5), "cannot be read"),
        ("period = \"100ms\"", "period = \"0ms\"", Some(7), "a period of zero"),
        ("period = \"100ms\"", "period = \"NaN\"", Some(7), "NaN"),
        ("period = \"100ms\"", "period = 100", Some(7), "text in quotes"),
        ("period = \"100ms\"", "period = [\"2s\", \"1s\"]", Some(7), "range is empty"),
        ("period = \"100ms\"", "period = \"100ms\"\nrate = \"1/s\"", Some(5), "both"),
        ("period = \"100ms\"", "period = \"100ms\"\nworkers = 0", Some(8), "0 workers"),
        ("period = \"100ms\"", "period = \"100ms\"\ncount = 0", Some(8), "0 clusters"),
        ("period = \"100ms\"", "period = \"100ms\"\nspread = \"odd\"", Some(8), "odd"),
        ("name = \"b\"", "name = \"a\"", Some(9), "taken"),
        ("[\"5/s\", \"10/s\"]", "\"0/s\"", Some(10), "cannot be read"),
        ("threshold = \"400ms\"", "threshold = \"0ms\"", Some(13), "threshold of zero"),
        ("slope = \"urgency\"", "slope = \"steep\"", Some(14), "cannot be read"),
        ("slope = \"urgency\"", "slope = \"urgency\"\ncoins = \"tails\"", Some(15), "tails"),
        ("measure = \"peak\"", "measure = \"median\"", Some(16), "median"),
        ("difference = \"100us\"", "", Some(15), "exactly one objective"),
        ("difference = \"100us\"", "jain = 1.5", Some(17), "1.5"),
        ("difference = \"100us\"", "jain = nan", Some(17), "NaN"),
        ("difference = \"100us\"", "bound = \"1s\"\nclusters = [\"c\"]", Some(18), "no cluster"),
        ("difference = \"100us\"", "jain = 0.5\nclusters = [\"a\"]", Some(15), "needs 2"),
        ("difference = \"100us\"", "bound = \"1s\"\nclusters = []", Some(15), "needs 1"),
        ("difference = \"100us\"", "bound = \"1s\"\nquantifier = \"some\"", Some(18), "some"),
        ("length = 8", "lengths = 8", Some(3), "lengths"),
    ];
    for (good, bad, line, said) in cases {
        assert!(GOOD.contains(good), "{good}");
        let text = GOOD.replace(good, bad);
        let error = Scenario::parse(&text, "bad.toml".as_ref()).unwrap_err();
        let VerifyError::File { place, message, remedy, .. } = &error else { panic!("{bad}: {error}") };
        assert_eq!(place.map(|(line, _)| line), line, "{bad}: {error}");
        assert!(message.contains(said), "{bad}: {message:?} lacks {said:?}");
        assert!(!remedy.is_empty());
        assert_eq!(error.exit_code(), 2);
    }
}

#[test]
fn queries_of_many_clusters_are_few() {
    let text = GOOD.replace("name = \"a\"", "name = \"a\"\ncount = 9999");
    let text = text + &"[[query]]\nmeasure = \"peak\"\nbound = \"1s\"\n".repeat(100);
    let error = Scenario::parse(&text, "many".as_ref()).unwrap_err();
    assert!(error.to_string().contains("more than 100 queries"), "{error}");
}

#[test]
fn what_is_left_out_is_named() {
    let without = |text: &str, from: &str| text.split(from).next().unwrap().to_owned();
    for (text, said) in [
        (without(GOOD, "[[query]]"), "nothing is asked"),
        (format!("{}[[query]]\nmeasure=\"mean\"\nbound=\"1s\"\n", without(GOOD, "[[clusters]]")), "clusters"),
        (String::new(), "horizon"),
    ] {
        let error = Scenario::parse(&text, "bad.toml".as_ref()).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
    let error = Scenario::load("/nowhere/at/all.toml".as_ref()).unwrap_err();
    assert!(error.to_string().starts_with("/nowhere/at/all.toml: "), "{error}");
}
