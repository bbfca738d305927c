use super::*;

#[test]
fn only_own_names_and_own_pages_are_answered() {
    let names = Names(vec!["localhost".to_owned(), "Metrics.example.net".to_owned()]);
    for (host, origin, fine) in [
        (None, None, true),
        (Some("localhost:9464"), None, true),
        (Some("127.0.0.1:9464"), None, true),
        (Some("10.0.0.1"), None, true),
        (Some("[fd00::1]:9464"), None, true),
        (Some("metrics.EXAMPLE.net.:9464"), None, true),
        (Some("evil.example"), None, false),
        (Some("localhost.evil.example:9464"), None, false),
        (Some("127.0.0.1.evil.example"), None, false),
        (Some(""), None, false),
        (Some("localhost:9464"), Some("http://localhost:9464"), true),
        (Some("localhost:9464"), Some("http://localhost:9465"), false),
        (Some("localhost:9464"), Some("http://evil.example"), false),
        (Some("localhost:9464"), Some("null"), false),
    ] {
        let mut headers = HeaderMap::new();
        for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
            if let Some(value) = value {
                headers.insert(name, value.parse().unwrap());
            }
        }
        assert_eq!(names.objection(&headers).is_none(), fine, "{host:?} {origin:?}");
    }
}

#[test]
fn only_loopback_names_are_local() {
    for host in ["localhost", "LOCALHOST:9466", "127.0.0.1", "127.0.0.1:9466", "[::1]:9466", "[::1]"] {
        assert!(is_local(host.as_bytes()), "{host}");
    }
    for host in
        ["", "evil.example", "localhost.evil.example", "10.0.0.1:9466", "[fd00::1]", "127.0.0.1.nip.io"]
    {
        assert!(!is_local(host.as_bytes()), "{host}");
    }
}
