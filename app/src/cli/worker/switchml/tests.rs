use super::*;

#[test]
fn what_may_pass_is_no_mistake_in_the_arguments() {
    let at = String::from("192.0.2.1:50099");
    let of = |error| {
        let error = Err::<(), Error>(error).context("asking the controller").unwrap_err();
        (status(&error), format!("{error:#}"))
    };
    let (status, told) = of(Error::Late { workers: 4, patience: Duration::from_secs(30) });
    assert_eq!(status, FAILED);
    assert!(told.contains("not all 4 workers have come within 30s\n  remedy: "), "{told}");
    assert_eq!(of(Error::Unreachable { at, why: String::from("refused") }).0, FAILED);
    assert_eq!(of(Error::Refused(String::from("rank 7"))).0, REFUSED);
}

/// A controller that takes the connection and never answers.
#[test]
fn one_deadline_holds_for_all_that_the_controller_is_asked() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(async {
        let mut controller = Controller::connect(&at, 0, 2, Duration::from_millis(20)).await?;
        controller.begin(1, 2, 3, 1).await
    });
    assert!(matches!(error, Err(Error::Late { workers: 2, .. })), "{error:?}");
}
