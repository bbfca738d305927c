use super::*;

fn ended(why: Ended) -> ExitCode {
    run("program", || resume_unwind(Box::new(why)))
}

#[test]
fn a_program_ends_with_its_own_code_or_that_of_its_output() {
    let unwritable = |kind: ErrorKind| ended(Ended::Unwritable(kind.into()));
    assert_eq!(run("program", || ExitCode::from(7)), ExitCode::from(7));
    assert_eq!(ended(Ended::Over(2)), ExitCode::from(2));
    assert_eq!(unwritable(ErrorKind::BrokenPipe), ExitCode::from(141));
    assert_eq!(unwritable(ErrorKind::StorageFull), ExitCode::FAILURE);
}

#[test]
fn a_panic_stays_a_panic() {
    let panicked = catch_unwind(|| run("program", || resume_unwind(Box::new("a defect"))));
    assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"a defect"));
}

#[test]
fn a_write_that_fails_ends_and_one_that_was_interrupted_is_tried_again() {
    assert_eq!(taken(Ok(3)).unwrap(), 3);
    let interrupted = taken::<()>(Err(ErrorKind::Interrupted.into()));
    assert_eq!(interrupted.unwrap_err().kind(), ErrorKind::Interrupted);
    let full = catch_unwind(|| taken::<()>(Err(ErrorKind::StorageFull.into())));
    assert!(matches!(full.unwrap_err().downcast_ref(), Some(Ended::Unwritable(_))));
}
