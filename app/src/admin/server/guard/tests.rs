use super::*;

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
