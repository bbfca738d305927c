//! Notices to users while a call waits.

use std::net::UdpSocket;
use std::sync::Mutex;
use std::time::Duration;

use pascaline_worker::{AsyncConfig, AsyncWorker, Initial, Notice};

static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn an_asynchronous_worker_that_nobody_answers_says_so_before_its_deadline() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let config = AsyncConfig {
        join_deadline: Duration::from_secs(3),
        notice: Some(Notice(|text| TOLD.lock().unwrap().push(text.to_string()))),
        ..AsyncConfig::new(silent.local_addr().unwrap(), 1, 0, 2, 8)
    };
    AsyncWorker::join(&config, Initial::Nothing).unwrap_err();
    let told = TOLD.lock().unwrap();
    assert!(matches!(&**told, [one] if one.starts_with("joining is stalled: no answer in ")), "{told:?}");
}
