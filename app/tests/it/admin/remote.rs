//! Beyond this machine: a token, and TLS.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{CertifiedKey, generate_simple_self_signed};

use super::site::{Site, exchange, free_port, request, tcp};
use crate::common::{Files, pascaline};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn token(files: &Files) -> PathBuf {
    let file = files.write("token", &format!("{TOKEN}\n"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file
}

/// A certificate for localhost, and its key.
fn certificate(files: &Files) -> (PathBuf, PathBuf) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    (files.write("cert.pem", &cert.pem()), files.write("key.pem", &signing_key.serialize_pem()))
}

fn listen(port: u16, address: &str, files: &[(&str, &Path)]) -> String {
    let files = files.iter().map(|(key, file)| format!("{key} = \"{}\"\n", file.display()));
    format!("listen = \"{address}:{port}\"\n{}", files.collect::<String>())
}

#[test]
fn a_token_is_asked_for_where_there_is_one() {
    let (files, port) = (Files::new(), free_port());
    let token = token(&files);
    let site = Site::with(files, &listen(port, "127.0.0.1", &[("token_file", &token)])).ready();
    let ask =
        |more: &str| exchange(tcp(port), request("GET", "/api/v1/status", more, "").as_bytes()).unwrap();
    assert_eq!(ask(&format!("Authorization: Bearer {TOKEN}\r\n")).status, 200);
    for wrong in [
        String::new(),
        "Authorization: Bearer \r\n".to_owned(),
        format!("Authorization: Bearer {}\r\n", &TOKEN[1..]),
        format!("Authorization: Bearer {TOKEN}0\r\n"),
        format!("Authorization: Basic {TOKEN}\r\n"),
        format!("X-Authorization: Bearer {TOKEN}\r\n"),
    ] {
        let refused = ask(&wrong);
        assert_eq!(refused.status, 401, "{wrong}");
        assert!(refused.head.to_lowercase().contains("www-authenticate: bearer"), "{}", refused.head);
        let told = String::from_utf8_lossy(&refused.body).into_owned();
        assert!(!told.contains(TOKEN) && told.contains("remedy"), "{told}");
    }
    let status = ask(&format!("authorization: bearer {TOKEN}\r\n")).json();
    assert_eq!(status["admin"]["tokens_refused"], 6);
    assert!(!site.log().contains(TOKEN));
    let at = format!("127.0.0.1:{port}");
    let ended = pascaline(&["explain", "1", "--admin", &at, "--token-file", token.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    pascaline(&["explain", "1", "--admin", &at]).refused(1, &["no token, or a wrong one"]);
}

/// Who may only read changes nothing, and the log says who changed what, from where.
#[test]
fn readers_change_nothing_and_changes_are_written_down() {
    let (files, port) = (Files::new(), free_port());
    let reader = "fedcba9876543210fedcba9876543210";
    let (all, read) = (token(&files), files.write("read-token", reader));
    std::fs::set_permissions(&read, std::fs::Permissions::from_mode(0o640)).unwrap();
    let keys = [("token_file", all.as_path()), ("read_token_file", &read)];
    let site = Site::with(files, &listen(port, "127.0.0.1", &keys)).ready();
    let ask = |method: &str, path: &str, token: &str, body: &str| {
        let more = format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
        exchange(tcp(port), request(method, path, &more, body).as_bytes()).unwrap()
    };
    let command = "/api/v1/jobs/1/command";
    let reset = "{\"command\":\"reset\"}";
    assert_eq!(ask("GET", "/api/v1/jobs", reader, "").status, 200);
    for (method, path, body) in [
        ("POST", command, reset),
        ("PATCH", "/api/v1/jobs/1", "{\"window\":64}"),
        ("DELETE", "/api/v1/jobs/1", ""),
        ("POST", "/api/v1/drain", "{}"),
        ("POST", "/api/v1/jobs/1/capture", "{}"),
    ] {
        let refused = ask(method, path, reader, body);
        assert_eq!(refused.status, 403, "{method} {path}");
        assert!(
            String::from_utf8_lossy(&refused.body).contains("this token may only read"),
            "{method} {path}"
        );
    }
    assert!(!site.log().contains("audit"), "nothing has changed: {}", site.log());
    assert_eq!(ask("POST", command, TOKEN, reset).status, 200);
    assert_eq!(ask("POST", command, TOKEN, "{\"command\":\"dance\"}").status, 400);
    let log = site.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("audit")).collect();
    assert_eq!(lines.len(), 2, "{log}");
    for (line, says) in lines.iter().zip(["status=200", "status=400"]) {
        let all = ["POST /api/v1/jobs/1/command", "who=\"token_file\"", "from=\"127.0.0.1:", "command", says];
        assert!(all.iter().all(|word| line.contains(word)), "{line}");
    }
    assert!(!log.contains(TOKEN) && !log.contains(reader));
}

/// mTLS: a certificate in place of a token, and the log names it.
#[test]
fn only_clients_with_a_certificate_get_in() {
    let (files, own, others, port) = (Files::new(), Files::new(), Files::new(), free_port());
    let ((cert, key), (mine, my_key)) = (certificate(&files), certificate(&own));
    let (strange, strange_key) = certificate(&others);
    let keys = [("tls_cert", cert.as_path()), ("tls_key", &key), ("client_ca", &mine)];
    let site = Site::with(files, &listen(port, "0.0.0.0", &keys)).ready();
    let at = format!("https://localhost:{port}");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let ask = |order: &[&str], shown: Option<(&Path, &Path)>| {
        let mut words: Vec<String> = order.iter().map(|&word| word.to_owned()).collect();
        words.extend(["--admin".to_owned(), at.clone(), "--ca".to_owned(), text(&cert)]);
        if let Some((cert, key)) = shown {
            words.extend(["--cert".to_owned(), text(cert), "--cert-key".to_owned(), text(key)]);
        }
        pascaline(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let ended = ask(&["job", "reset", "1", "--json"], Some((&mine, &my_key)));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let log = site.log();
    let line = log.lines().find(|line| line.contains("audit")).unwrap_or_else(|| panic!("{log}"));
    let who = line.split("who=\"certificate ").nth(1).and_then(|rest| rest.split('"').next());
    assert_eq!(who.map(str::len), Some(16 * 3 - 1), "{line}");
    let remedy = "remedy: if its [admin] has client_ca, show a certificate";
    for shown in [None, Some((strange.as_path(), strange_key.as_path()))] {
        ask(&["explain", "1"], shown).refused(1, &["TLS with localhost: it does not take", remedy]);
    }
    ask(&["explain", "1"], Some((&mine, &strange_key))).refused(1, &["--cert-key ", "does not belong to"]);
    let alone = ["explain", "1", "--admin", &at, "--cert", &text(&mine)];
    pascaline(&alone).refused(2, &["--cert-key <FILE>"]);
}

#[test]
fn tls_and_a_token_let_others_in() {
    let (files, port) = (Files::new(), free_port());
    let (token, (cert, key)) = (token(&files), certificate(&files));
    let all = [("token_file", token.as_path()), ("tls_cert", &cert), ("tls_key", &key)];
    let site = Site::with(files, &listen(port, "0.0.0.0", &all)).ready();
    let at = format!("https://localhost:{port}");
    let (ca, file) = (cert.to_str().unwrap(), token.to_str().unwrap());
    let ended = pascaline(&["explain", "one", "--json", "--admin", &at, "--ca", ca, "--token-file", file]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.json()["job"]["name"], "one");
    pascaline(&["explain", "one", "--admin", &at, "--ca", ca]).refused(1, &["no token, or a wrong one"]);
    pascaline(&["explain", "one", "--admin", &at, "--token-file", file]).refused(1, &["takes --ca FILE"]);
    for odd in ["two words of it", "a\u{1}b", " "] {
        let odd = site.files.write("odd", odd);
        let args = ["explain", "1", "--admin", &at, "--ca", ca, "--token-file", odd.to_str().unwrap()];
        pascaline(&args).refused(1, &["/odd: no token of visible ASCII characters", "remedy: "]);
    }
    // Another authority.
    let others = Files::new();
    let (other, _) = certificate(&others);
    let args = ["explain", "one", "--admin", &at, "--ca", other.to_str().unwrap(), "--token-file", file];
    pascaline(&args).refused(1, &["TLS"]);
    // Without TLS nothing is said at all.
    let plain = request("GET", "/api/v1/status", &format!("Authorization: Bearer {TOKEN}\r\n"), "");
    assert!(exchange(tcp(port), plain.as_bytes()).is_none());
    drop(site);
}

#[test]
fn what_is_not_safe_is_refused_at_the_start() {
    let port = free_port();
    let files = Files::new();
    let (token, (cert, key)) = (token(&files), certificate(&files));
    let (short, open) = (files.write("short", "secret"), files.write("open", TOKEN));
    std::fs::set_permissions(&short, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).unwrap();
    let absent = files.path("absent");
    for (address, keys, says) in [
        ("0.0.0.0", vec![], "neither a token nor TLS"),
        ("0.0.0.0", vec![("token_file", &token)], "there is no TLS"),
        ("0.0.0.0", vec![("tls_cert", &cert), ("tls_key", &key)], "there is no token"),
        ("127.0.0.1", vec![("token_file", &short)], "no token of 16 to 512 visible ASCII characters"),
        ("127.0.0.1", vec![("token_file", &open)], "every user of this machine may read it"),
        ("127.0.0.1", vec![("token_file", &absent)], "there is no such file"),
        ("127.0.0.1", vec![("token_file", &token), ("read_token_file", &token)], "have the same token"),
        ("127.0.0.1", vec![("tls_cert", &absent), ("tls_key", &key)], "absent"),
        ("127.0.0.1", vec![("tls_cert", &key), ("tls_key", &key)], "there is no certificate in it"),
        ("127.0.0.1", vec![("tls_cert", &cert), ("tls_key", &cert)], "cert.pem"),
    ] {
        let keys: Vec<(&str, &Path)> = keys.iter().map(|(name, file)| (*name, file.as_path())).collect();
        let ended = Site::with(Files::new(), &listen(port, address, &keys)).ended();
        // File, line and column come first.
        ended.refused(2, &[says, "appliance.toml:", "remedy: "]);
    }
}

/// What `explain` says to a server with this configuration, given these options.
fn explain(port: u16, host: &str, options: &[&str]) -> crate::common::Ended {
    let at = format!("https://{host}:{port}");
    pascaline(&[&["explain", "1", "--admin", &at], options].concat())
}

#[test]
fn what_init_makes_works_with_explain_and_a_reload_takes_up_another() {
    let made = |files: &Files, name: &str| {
        let file = files.path("made.toml");
        let init = ["init", "--tls", "--name", name, "--interface", "lo", "-o", file.to_str().unwrap()];
        assert_eq!(pascaline(&init).code, Some(0));
        ["cert.pem", "key.pem", "token"].map(|name| files.path(name))
    };
    let (files, port) = (Files::new(), free_port());
    let [cert, key, token] = made(&files, "appliance.test");
    assert_eq!(pascaline(&["check", files.path("made.toml").to_str().unwrap()]).code, Some(0));
    let again = files.path("made.toml");
    pascaline(&["init", "--tls", "-o", again.to_str().unwrap()]).refused(1, &["is there already"]);
    let keys = [("tls_cert", cert.as_path()), ("tls_key", &key), ("token_file", &token)];
    let mut site = Site::with(files, &listen(port, "127.0.0.1", &keys)).ready();
    let with = |cert: &Path, token: &Path| {
        explain(port, "localhost", &["--ca", cert.to_str().unwrap(), "--token-file", token.to_str().unwrap()])
    };
    assert_eq!(with(&cert, &token).code, Some(0));
    // Another pair takes the place of the first.
    let others = Files::new();
    let [cert_2, key_2, token_2] = made(&others, "appliance.test");
    with(&cert_2, &token).refused(1, &["not signed by those of --ca", "remedy: give --ca"]);
    let old = site.files.write("old.pem", &std::fs::read_to_string(&cert).unwrap());
    for (from, to) in [(&cert_2, &cert), (&key_2, &key), (&token_2, &token)] {
        std::fs::copy(from, to).unwrap();
    }
    site.signal(nix::sys::signal::Signal::SIGHUP);
    crate::common::until("the reload", std::time::Duration::from_secs(10), || {
        site.log().contains("admin.token_file admin.tls_cert").then_some(())
    });
    assert_eq!(with(&cert_2, &token_2).code, Some(0));
    with(&old, &token_2).refused(1, &["not signed by those of --ca"]);
    // What cannot be used is refused, and the old pair stays in force.
    std::fs::write(&key, "").unwrap();
    site.signal(nix::sys::signal::Signal::SIGHUP);
    crate::common::until("the refusal", std::time::Duration::from_secs(10), || {
        site.log().contains("there is no private key in it").then_some(())
    });
    assert_eq!(with(&cert_2, &token_2).code, Some(0));
}

#[test]
fn what_openssl_makes_works_as_it_is() {
    let (files, port) = (Files::new(), free_port());
    let (cert, key, token) = (files.path("cert.pem"), files.path("key.pem"), token(&files));
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=appliance", "-days", "30"])
        .args([Path::new("-keyout"), &key, Path::new("-out"), &cert])
        .output();
    assert!(made.unwrap().status.success());
    let keys = [("tls_cert", cert.as_path()), ("tls_key", &key), ("token_file", &token)];
    let _site = Site::with(files, &listen(port, "127.0.0.1", &keys)).ready();
    let options = ["--ca", cert.to_str().unwrap(), "--token-file", token.to_str().unwrap()];
    assert_eq!(explain(port, "localhost", &options).code, Some(0));
    assert_eq!(explain(port, "127.0.0.1", &options).code, Some(0));
}
