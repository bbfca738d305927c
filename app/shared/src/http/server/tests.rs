use std::io::{Read as _, Write as _};
use std::net::SocketAddr;

use axum::body::{Body, Bytes};
use axum::routing::get;
use futures_util::stream;

use super::*;

/// A server of one connection at a time that sends without end.
fn endless() -> (SocketAddr, Server) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let chunks = || stream::repeat_with(|| Ok::<_, io::Error>(Bytes::from_static(&[b'x'; 4096])));
    let router = Router::new().route("/", get(move || async move { Body::from_stream(chunks()) }));
    let limits = Limits { connections: 1, idle: Duration::from_millis(300), ..Limits::PAGES };
    (address, Plan { limits, ..Plan::pages(listener, Names::new(&[]), router, None) }.start().unwrap())
}

fn connect(address: SocketAddr, says: &str) -> std::net::TcpStream {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(says.as_bytes()).unwrap();
    stream
}

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn who_says_nothing_is_cut_off() {
    let (address, _server) = endless();
    let mut silent = connect(address, "GET / HT");
    assert_eq!(silent.read(&mut [0; 8]).unwrap_or(0), 0);
}

#[test]
fn who_takes_nothing_is_cut_off_and_makes_room_for_the_next() {
    let (address, _server) = endless();
    let lazy = connect(address, REQUEST);
    // Answered only once the first has lost its place, which it does not give up by itself.
    let mut begun = [0; 15];
    let answered = (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        connect(address, REQUEST).read_exact(&mut begun).is_ok()
    });
    assert!(answered && &begun == b"HTTP/1.1 200 OK");
    drop(lazy);
}

#[test]
fn half_a_request_keeps_nobody_out() {
    let (address, _server) = endless();
    let halves: Vec<_> = (0..64).map(|_| connect(address, "GET / HT")).collect();
    let mut begun = [0; 15];
    connect(address, REQUEST).read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200 OK");
    drop(halves);
}
