//! Clients that mean no good, or know no better.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use super::site::{Site, exchange, free_port, request, tcp};
use crate::common::until;

/// The API gives a head as long as this, and a body twice as long.
const HEAD: Duration = Duration::from_secs(5);
const BODY: Duration = Duration::from_secs(10);
const MARGIN: Duration = Duration::from_secs(15);
/// What abuse may cost, in KiB.
const MEMORY: u64 = 32 * 1024;

#[test]
fn what_is_too_large_is_refused() {
    let site = Site::start();
    let before = site.resident();
    let body = format!("{{\"name\": \"{}\"}}", "a".repeat(64 * 1024));
    let response = site.call("POST", "/api/v1/jobs", &body);
    assert_eq!((response.status, response.json()["remedy"].is_string()), (413, true));
    // A length that nobody would wait for, and one that is not told.
    let huge = "POST /api/v1/jobs HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
                Content-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n";
    assert_eq!(site.send(huge.as_bytes()).unwrap().status, 413);
    let chunk = format!("10000\r\n{}\r\n", "a".repeat(0x10000));
    let chunked = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
        chunk.repeat(64)
    );
    assert_eq!(site.send(chunked.as_bytes()).map(|response| response.status), Some(413));
    // A head without an end.
    let head = format!("GET /api/v1/status HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(1 << 20));
    assert!(site.send(head.as_bytes()).is_none_or(|response| response.status == 431));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(500));
    assert!(site.send(many.as_bytes()).is_none_or(|response| response.status == 431));
    let deep = format!("{{\"id\": {}{}}}", "[".repeat(20_000), "]".repeat(20_000));
    assert_eq!(site.call("POST", "/api/v1/jobs", &deep).status, 400);
    assert!(site.resident() < before + MEMORY, "{} KiB, before {before}", site.resident());
    assert_eq!(site.jobs(), [1, 2, 3]);
}

#[test]
fn what_is_no_request_for_anything_here_is_refused() {
    let site = Site::start();
    for (line, statuses) in [
        ("GET /api/v1/jobs/../status HTTP/1.1", &[404][..]),
        ("GET /api/v1/../../etc/passwd HTTP/1.1", &[404]),
        ("GET /api/v1/jobs/..%2f..%2fetc%2fpasswd HTTP/1.1", &[404]),
        ("GET /api/v1/jobs/%2e%2e/%2e%2e/status HTTP/1.1", &[404]),
        ("GET //api/v1/status HTTP/1.1", &[404]),
        ("GET /api/v1/status/ HTTP/1.1", &[404]),
        ("GET /API/V1/STATUS HTTP/1.1", &[404]),
        ("GET /api/v1/jobs/%00 HTTP/1.1", &[404]),
        ("GET /api/v1/jobs/%ff%fe HTTP/1.1", &[400]),
        ("GET /api/v1/jobs/%zz HTTP/1.1", &[400, 404]),
        ("GET /api/v1/jobs/4294967297 HTTP/1.1", &[404]),
        ("GET /api/v1/jobs/1;drop HTTP/1.1", &[404]),
        ("GET \\api\\v1\\status HTTP/1.1", &[400]),
        ("PUT /api/v1/jobs/1 HTTP/1.1", &[405]),
        ("TRACE /api/v1/status HTTP/1.1", &[405]),
        ("CONNECT example.org:80 HTTP/1.1", &[400, 404, 405]),
        ("GET /api/v1/status", &[400]),
        ("GARBAGE", &[400]),
    ] {
        let bytes = format!("{line}\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let status = site.send(bytes.as_bytes()).map_or(400, |response| response.status);
        assert!(statuses.contains(&status), "{line}: {status}");
    }
    let text = "POST /api/v1/jobs HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
                Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}";
    assert_eq!(site.send(text.as_bytes()).unwrap().status, 415);
    // TLS where there is none, and noise.
    assert!(
        site.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
            .is_none_or(|response| response.status == 400)
    );
    assert!(site.send(&[0xff; 4096]).is_none_or(|response| response.status == 400));
    assert_eq!(site.jobs(), [1, 2, 3]);
}

#[test]
fn a_web_page_gets_nothing() {
    let port = free_port();
    let _site = Site::with(crate::common::Files::new(), &format!("listen = \"127.0.0.1:{port}\"")).ready();
    let ask = |host: &str, more: &str| {
        let bytes = format!("GET /api/v1/status HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n");
        exchange(tcp(port), bytes.as_bytes()).unwrap().status
    };
    assert_eq!(ask("localhost", ""), 200);
    assert_eq!(ask(&format!("127.0.0.1:{port}"), ""), 200);
    assert_eq!(ask("evil.example", ""), 403);
    assert_eq!(ask("localhost", "Origin: http://evil.example\r\n"), 403);
}

#[test]
fn slow_clients_are_not_waited_for() {
    let site = Site::start();
    std::thread::scope(|scope| {
        // Nothing at all; a head byte by byte; a body that does not come.
        for (what, bytes, limit) in [
            ("silence", "", HEAD),
            ("a slow head", "GET /api/v1/status HTTP/1.1\r\nHost: loc", HEAD),
            (
                "a slow body",
                "POST /api/v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
                 Content-Length: 100\r\n\r\n{",
                BODY,
            ),
        ] {
            let mut stream = site.connect();
            scope.spawn(move || {
                let began = Instant::now();
                stream.write_all(bytes.as_bytes()).unwrap();
                let mut answer = Vec::new();
                let mut buffer = [0; 1024];
                let end = began + limit + MARGIN;
                stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
                loop {
                    match stream.read(&mut buffer) {
                        Ok(0) => break,
                        Ok(read) => answer.extend(&buffer[..read]),
                        // A byte now and then must not help.
                        Err(_) => drop(stream.write_all(b"x")),
                    }
                    assert!(Instant::now() < end, "{what}: still connected after {:?}", began.elapsed());
                }
                if limit == BODY {
                    let answer = String::from_utf8_lossy(&answer).into_owned();
                    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
                }
            });
        }
        // Nobody else has to wait.
        for _ in 0..20 {
            let began = Instant::now();
            assert_eq!(site.jobs(), [1, 2, 3]);
            assert!(began.elapsed() < HEAD);
            std::thread::sleep(Duration::from_millis(50));
        }
    });
}

#[test]
fn a_thousand_connections_are_too_many() {
    let site = Site::start();
    let before = site.resident();
    let mut streams = Vec::new();
    let partial = b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n";
    for _ in 0..1000 {
        let Ok(mut stream) = std::os::unix::net::UnixStream::connect(site.socket()) else { continue };
        let _ = stream.write_all(partial);
        streams.push(stream);
    }
    assert!(streams.len() > 900, "{}", streams.len());
    // They are let go, if they say no more, and then there is room again.
    let status = until("an answer", HEAD + MARGIN, || {
        let response = site.send(request("GET", "/api/v1/status", "", "").as_bytes())?;
        (response.status == 200).then(|| response.json())
    });
    let refused = status["admin"]["connections_refused"].as_u64().unwrap();
    assert!(refused >= 900, "{refused}");
    assert!(site.resident() < before + MEMORY, "{} KiB, before {before}", site.resident());
    drop(streams);
    assert_eq!(site.jobs(), [1, 2, 3]);
}
