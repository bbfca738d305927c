use super::*;

#[test]
fn addresses_are_read() {
    let tcp = |host: &str, port, tls| Ok(Address::Tcp { host: host.to_owned(), port, tls });
    for (text, is) in [
        ("unix:/run/a.sock", Ok(Address::Unix("/run/a.sock".into()))),
        ("unix:///run/a.sock", Ok(Address::Unix("/run/a.sock".into()))),
        ("127.0.0.1:9466", tcp("127.0.0.1", 9466, false)),
        ("[::1]:9466", tcp("::1", 9466, false)),
        ("http://localhost:1", tcp("localhost", 1, false)),
        ("http://localhost", tcp("localhost", 80, false)),
        ("http://[::1]/", tcp("::1", 80, false)),
        ("https://appliance.example:9466/", tcp("appliance.example", 9466, true)),
    ] {
        assert_eq!(text.parse::<Address>(), is, "{text}");
    }
    for wrong in ["", "localhost", "localhost:", "localhost:x", ":9466", "https://a/b:1", "a:65536"] {
        assert!(wrong.parse::<Address>().is_err(), "{wrong}");
    }
}

#[test]
fn only_other_hosts_without_tls_are_overheard() {
    let is_private = |text: &str| text.parse::<Address>().unwrap().is_private();
    let private = ["unix:/a", "127.0.0.1:1", "[::1]:1", "http://localhost", "https://appliance:1"];
    assert!(private.into_iter().all(is_private));
    assert!(!["10.0.0.1:1", "http://localhost.example"].into_iter().any(is_private));
}

#[test]
fn an_address_that_refuses_is_passed_over() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let alive = listener.local_addr().unwrap();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing = closed.local_addr().unwrap();
    drop(closed);
    let unroutable = "[2001:db8::1]:9".parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connect = |addresses: &[SocketAddr]| runtime.block_on(connected(addresses));
    assert_eq!(connect(&[unroutable, refusing, alive]).unwrap().peer_addr().unwrap(), alive);
    assert_eq!(connect(&[unroutable, refusing]).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    assert_eq!(connect(&[]).unwrap_err().kind(), io::ErrorKind::NotFound);
}
