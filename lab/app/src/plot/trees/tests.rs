use super::{picture_of, read};

const PRINTED: &str = r#"lab: trees
{"ok":true,"mbit":25,"cases":{"trees":{"ok":true,"trees":4,"one_seconds":2.8,"seconds":0.7,
"congested_one_seconds":11.4,"congested_seconds":2.875,"killed":[0.7,0.71,1.2,0.8]}}}
"#;

#[test]
fn what_the_lab_prints_becomes_a_picture() {
    // It prints one line; here two are easier to read.
    let lab = read(&PRINTED.replace(",\n", ",")).unwrap();
    let mut picture = String::new();
    picture_of(&lab, &mut picture).unwrap();
    for told in ["4 trees, one congested", "11.400", "2.875", "25 Mbit/s", "killed"] {
        assert!(picture.contains(told), "{told}");
    }
}

#[test]
fn something_else_is_refused() {
    for text in ["", "{}", "lab: trees", r#"{"mbit":1,"cases":{"backup":{}}}"#] {
        assert!(read(text).is_err(), "{text}");
    }
}
