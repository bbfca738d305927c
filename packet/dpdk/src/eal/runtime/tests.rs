use std::fs::{create_dir, write};

use super::remove_left;

#[test]
fn removes_what_killed_runs_of_the_same_name_have_left() {
    let beside = std::env::temp_dir().join(format!("pascaline-runtime-{}", std::process::id()));
    create_dir(&beside).unwrap();
    // No process has this number: the kernel's own limit is 2²².
    let (dead, other, alive) = ("run-4194305", "another-4194305", "run-1");
    for name in [dead, other, alive, "run-x", "run"] {
        create_dir(beside.join(name)).unwrap();
        write(beside.join(name).join("config"), "").unwrap();
    }
    let own = beside.join(format!("run-{}", std::process::id()));
    create_dir(&own).unwrap();

    remove_left(&own);

    let mut left: Vec<String> =
        beside.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    let own = own.file_name().unwrap().to_str().unwrap().to_owned();
    let mut expected = vec![other.to_owned(), "run".to_owned(), alive.to_owned(), own, "run-x".to_owned()];
    expected.sort();
    assert_eq!(left, expected);
    std::fs::remove_dir_all(beside).unwrap();
}
