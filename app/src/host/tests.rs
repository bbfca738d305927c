use super::*;

#[test]
fn lists_of_cores_are_read_and_written_as_the_kernel_does() {
    for list in ["", "0", "0-3", "1,3,5", "0-3,8,10-11"] {
        assert_eq!(format_cores(&parse_cores(list)), list);
    }
    assert_eq!(parse_cores("3,1-2,2"), BTreeSet::from([1, 2, 3]));
    assert!(parse_cores("none").is_empty());
}
