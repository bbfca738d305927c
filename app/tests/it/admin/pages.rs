//! The pages of `[telemetry]` among clients that mean no good.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::site::{Site, exchange, free_port, tcp};
use crate::common::Files;

/// A half-sent request is given so long, and a machine that has other work some more.
const HEAD: Duration = Duration::from_secs(5 + 5);

fn site(port: u16) -> Site {
    let files = Files::new();
    let socket = files.path("admin.sock");
    let telemetry = format!("[telemetry]\nlisten = \"127.0.0.1:{port}\"\nhosts = [\"metrics.test\"]");
    Site::with(files, &format!("listen = \"unix:{}\"\n{telemetry}", socket.display())).ready()
}

fn get(port: u16, path: &str, host: &str, more: &str) -> u16 {
    let bytes = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n");
    exchange(tcp(port), bytes.as_bytes()).map_or(0, |response| response.status)
}

#[test]
fn half_sent_requests_disturb_nobody_and_are_let_go() {
    let port = free_port();
    let _site = site(port);
    let began = Instant::now();
    let mut halves: Vec<TcpStream> = (0..512)
        .map(|_| {
            let mut stream = tcp(port);
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: loc").unwrap();
            stream
        })
        .collect();
    for _ in 0..20 {
        for path in ["/healthz", "/metrics", "/readyz", "/"] {
            let asked = Instant::now();
            assert_eq!(get(port, path, "localhost", ""), 200, "{path}");
            assert!(asked.elapsed() < Duration::from_secs(2), "{path}: {:?}", asked.elapsed());
        }
    }
    // The last ones are not pushed out by others: time lets them go.
    for stream in &mut halves {
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut answer = [0; 64];
        loop {
            match stream.read(&mut answer) {
                Ok(0) => break,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
                // An answer that says so, or nothing for a while.
                Ok(_) | Err(_) => assert!(began.elapsed() < HEAD, "still connected"),
            }
        }
    }
}

#[test]
fn pages_are_for_who_asks_by_a_name_of_this_machine() {
    let port = free_port();
    let _site = site(port);
    let own = format!("127.0.0.1:{port}");
    for path in ["/", "/metrics", "/healthz", "/api/v1/snapshot"] {
        for (host, more, status) in [
            ("localhost", "", 200),
            (own.as_str(), "", 200),
            ("metrics.test", "", 200),
            ("evil.example", "", 403),
            (&own, &format!("Origin: http://{own}\r\n"), 200),
            (&own, "Origin: http://evil.example\r\n", 403),
        ] {
            assert_eq!(get(port, path, host, more), status, "{path} {host} {more}");
        }
    }
}
