//! Where the admin API may listen, and with what.

use super::*;

fn with(admin: &str) -> Result<Config, ConfigError> {
    parse(&format!("{GOOD}\n[admin]\n{admin}\n"))
}

#[test]
fn a_socket_or_loopback_needs_nothing_else() {
    assert_eq!(parse(GOOD).unwrap().admin, None);
    for (listen, local) in
        [("unix:/run/pascaline/admin.sock", true), ("127.0.0.1:9466", true), ("[::1]:9466", true)]
    {
        let admin = with(&format!("listen = {listen:?}")).unwrap().admin.unwrap();
        assert_eq!(
            (admin.listen.value.to_string(), admin.listen.value.is_local()),
            (listen.to_owned(), local)
        );
        assert_eq!((admin.token_file, admin.tls), (None, None));
    }
}

#[test]
fn beyond_this_machine_it_takes_token_and_tls() {
    let token = "token_file = \"/etc/pascaline/token\"\n";
    let tls = "tls_cert = \"cert.pem\"\ntls_key = \"key.pem\"\n";
    for (more, lacking) in
        [("", "neither a token nor TLS"), (token, "there is no TLS"), (tls, "there is no token")]
    {
        for listen in ["0.0.0.0:9466", "10.0.0.1:9466", "[::]:9466"] {
            let error = with(&format!("listen = {listen:?}\n{more}")).unwrap_err();
            let at = GOOD.lines().count() + 3;
            assert_eq!(error.place, Some(Place { line: at, column: 10 }), "{error}");
            let text = error.to_string();
            assert!(text.contains(lacking) && text.contains("remedy: set token_file, tls_cert"), "{text}");
        }
    }
    assert!(with(&format!("listen = \"0.0.0.0:9466\"\n{token}{tls}")).unwrap().admin.unwrap().tls.is_some());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let long = format!("listen = \"unix:/{}\"", "a".repeat(107));
    for (admin, says) in [
        ("listen = \"somewhere\"", "unix:/run/pascaline/admin.sock"),
        ("listen = \"unix:admin.sock\"", "is no absolute path"),
        (&long, "at most 107 bytes, not 108"),
        ("listen = \"unix:/a\"\ntls_cert = \"c\"\ntls_key = \"k\"", "TLS on a Unix socket"),
        ("listen = \"127.0.0.1:1\"\ntls_cert = \"c\"", "tls_cert without tls_key"),
        ("listen = \"127.0.0.1:1\"\ntls_key = \"k\"", "tls_key without tls_cert"),
        ("listen = \"127.0.0.1:1\"\nclient_ca = \"c\"", "client_ca without TLS"),
        ("listen = \"127.0.0.1:1\"\ntoken_file = \"\"", "an empty path"),
        ("listen = \"127.0.0.1:1\"\nread_token_file = \"t\"", "read_token_file without token_file"),
        ("listen = \"127.0.0.1:1\"\ntoken = \"secret\"", "unknown field"),
        ("", "lacks the key listen"),
    ] {
        let error = with(admin).unwrap_err().to_string();
        assert!(error.contains(says), "{admin}: {error}");
    }
}
