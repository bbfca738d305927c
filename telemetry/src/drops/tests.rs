use super::*;

#[test]
fn names_are_unique_and_discriminants_are_indices() {
    let mut names: Vec<_> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), DropReason::ALL.len());
    assert!(DropReason::ALL.iter().enumerate().all(|(index, &reason)| reason as usize == index));
}
