//! A table of mistakes: where each is found, and what is said about it. What is right stays accepted.

use super::*;

/// The piece of [`GOOD`] that is replaced, what with, where the place is, what the error says, and what the
/// remedy says.
type Case = (&'static str, &'static str, &'static str, &'static str, &'static str);

#[track_caller]
fn all_found(cases: &[Case]) {
    for &(from, to, at, says, remedy) in cases {
        let (message, found) = broken(from, to);
        let (what, do_what) = message.split_once("\n  remedy: ").unwrap_or_else(|| panic!("{to}: {message}"));
        assert!(what.contains(says), "{to}: {what}");
        assert!(do_what.contains(remedy), "{to}: {do_what}");
        assert!(found.starts_with(at), "{to}: the place is at {found:?}: {message}");
        for word in ["u16", "u32", "usize", "struct", "Vdev"] {
            assert!(!message.contains(word), "{to}: {message}");
        }
    }
}

#[test]
fn addresses_that_no_host_has() {
    for (address, says) in [
        ("0.0.0.0", "stands for no host"),
        ("::", "stands for no host"),
        ("0.1.2.3", "is reserved"),
        ("240.0.0.1", "is reserved"),
        ("255.255.255.255", "broadcast"),
        ("224.0.0.1", "multicast"),
        ("ff02::1", "multicast"),
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("::ffff:10.77.0.254", "write \"10.77.0.254\""),
        ("::10.77.0.254", "write \"10.77.0.254\""),
        ("fe80::1", "is link-local"),
        ("fe80::1%eth0", "zone"),
        ("10.77.0.0/24", "without prefix length"),
        ("appliance", "without prefix length"),
        ("", "without prefix length"),
    ] {
        let text = format!("{address:?}");
        for (from, rest) in [
            ("\"10.77.0.254\"", ", \"fd00::254\"]"),
            ("\"10.77.0.1\"", ", \"10.77.0.2\"]"),
            ("\"10.77.0.2\"", "]"),
        ] {
            let (message, found) = broken(from, &text);
            assert!(message.contains(says), "{from} → {address}: {message}");
            assert_eq!(found, format!("{text}{rest}"), "{message}");
        }
        let server = format!("[ps]\nmode = \"external\"\naddress = {text}\n[telemetry]");
        let (message, found) = broken("[telemetry]", &server);
        assert!(message.contains(says) && found == text, "{address}: {found}: {message}");
    }
}

#[test]
fn addresses_that_somebody_else_has() {
    all_found(&[
        ("\"fd00::254\"", "\"10.77.0.254\"", "\"10.77.0.254\"]", "in the list already", "once"),
        ("\"fd00::254\"", "\"fd00:0::254\", \"fd00::254\"", "\"fd00::254\"]", "in the list already", "once"),
        ("\"10.77.0.2\"]", "\"10.77.0.254\"]", "\"10.77.0.254\"]", "rank 1", "the host's own"),
        ("\"10.77.0.1\"", "\"fd00::254\"", "\"fd00::254\"", "rank 0", "the host's own"),
    ]);
    let server = "[ps]\nmode = \"external\"\naddress = \"10.77.0.254\"\n[telemetry]";
    all_found(&[("[telemetry]", server, "\"10.77.0.254\"", "a parameter server", "the host's own")]);
    let one_family = GOOD.replacen(", \"fd00::254\"", "", 1).replacen("\"10.77.0.2\"", "\"fd00::2\"", 1);
    let error = parse(&one_family).unwrap_err().to_string();
    assert!(error.contains("rank 1") && error.contains("same family"), "{error}");
}

#[test]
fn addresses_that_are_fine() {
    for address in ["10.0.0.1", "169.254.1.1", "192.168.1.255", "2001:db8::1", "fd77::254", "64:ff9b::1"] {
        let text = GOOD.replacen("\"10.77.0.254\"", &format!("\"10.77.0.254\", {address:?}"), 1);
        parse(&text).unwrap_or_else(|error| panic!("{address}: {error}"));
    }
    // Two ranks on one host.
    parse(&GOOD.replacen("\"10.77.0.2\"", "\"10.77.0.1\"", 1)).unwrap();
}

#[test]
fn ports_that_nobody_can_use() {
    all_found(&[
        ("addresses =", "udp_port = 4791\naddresses =", "4791", "RoCE", "16420"),
        ("addresses =", "udp_port = 4784\nudp_ports = 8\naddresses =", "8", "4791 is among them", "udp_port"),
        ("addresses =", "udp_port = 65535\nudp_ports = 2\naddresses =", "65535", "multiple", "65534"),
        ("addresses =", "udp_port = 65536\naddresses =", "65536", "65536", "from 0 to 65535"),
        ("addresses =", "dscp = 64\naddresses =", "64", "no DSCP 64", "from 1 to 63"),
        ("addresses =", "dscp = 0\naddresses =", "0", "unmarked", "dscp = 46"),
        ("addresses =", "dscp = 300\naddresses =", "300", "no DSCP 300", "from 1 to 63"),
        ("addresses =", "udp_port = -1\naddresses =", "-1", "-1", "from 0 to 65535"),
        ("addresses =", "udp_port = \"16420\"\naddresses =", "\"16420\"", "string", "whole number"),
        ("127.0.0.1:9464", "127.0.0.1:0", "\"127.0.0.1:0\"", "an unknown port", "9464"),
        ("127.0.0.1:9464", "224.0.0.1:9464", "\"224", "no address of this machine", "127.0.0.1:9464"),
        ("127.0.0.1:9464", "10.77.0.254:9464", "\"10.77.0.254:9464\"", "the appliance's own", "127.0.0.1"),
        ("127.0.0.1:9464", "localhost:9464", "\"localhost:9464\"", "", "127.0.0.1:9464"),
    ]);
    for (page, api, fine) in [
        ("127.0.0.1:9464", "127.0.0.1:9464", false),
        ("0.0.0.0:9464", "127.0.0.1:9464", false),
        ("[::]:9464", "127.0.0.1:9464", false),
        ("[::]:9464", "[::1]:9464", false),
        ("0.0.0.0:9464", "[::1]:9464", true),
        ("127.0.0.1:9464", "127.0.0.1:9466", true),
        ("127.0.0.2:9464", "127.0.0.1:9464", true),
    ] {
        let text = GOOD.replacen("127.0.0.1:9464", page, 1);
        let error =
            parse(&format!("{text}\n[admin]\nlisten = {api:?}\n")).err().map(|error| error.to_string());
        assert_eq!(error.is_none(), fine, "{page} and {api}: {error:?}");
        assert!(error.is_none_or(|error| error.contains("is where [telemetry] listens")));
    }
}

#[test]
fn devices_that_are_none_or_another_ports() {
    const PCI: &str = "\"0000:01:00.0\"";
    all_found(&[
        (PCI, "\"\"", "\"\"", "device is empty", "net_af_packet0,iface=veth0"),
        (PCI, "\"net_null0 --no-pci\"", "\"net", "' '", "PCI address"),
        (PCI, "\"--proc-type=secondary\"", "\"--", "neither", "PCI address"),
        (PCI, "\"veth1\"", "\"veth1\"", "neither a PCI address nor a driver", "iface=veth0"),
        (PCI, "\"0000:01:00\"", "\"0000", "neither", "PCI address"),
        (PCI, "\"crypto_null0\"", "\"crypto", "neither", "PCI address"),
        (PCI, "\"net_null0\\u0000\"", "\"net", "'\\0'", "PCI address"),
        (PCI, "\"net_af_packet1,iface=veth0\"", "\"net", "the interface veth0 is a port already", "one port"),
        (PCI, "\"net_af_xdp0,iface=veth0\"", "\"net", "the interface veth0 is a port already", "one port"),
        (PCI, "\"net_af_packet0,iface=veth1\"", "\"net", "this device is a port already", "one port"),
        (PCI, "\"net_af_packet1,iface=\"", "\"net", "no interface has such a name", "ip link"),
        (PCI, "\"net_af_packet1,iface=a/b\"", "\"net", "no interface has such a name", "ip link"),
        (PCI, "\"net_af_packet1,iface=sixteen-letters-\"", "\"net", "no interface has such", "ip link"),
    ]);
    let two = GOOD.replacen("net_af_packet0,iface=veth0", "01:00.0", 1);
    assert!(parse(&two).unwrap_err().to_string().contains("this device is a port already"));
    for written in ["01:00.0", "1:0.0", "0000:01:00.0", "01:00.0,dv_flow_en=1"] {
        let config = parse(&GOOD.replacen("0000:01:00.0", written, 1)).unwrap();
        let (_, arguments) =
            written.split_once(",").map_or(("", String::new()), |(at, more)| (at, format!(",{more}")));
        let taken: Vec<_> = config.ports.iter().map(|port| port.device.value.clone()).collect();
        assert!(taken.contains(&Device::Pci(format!("0000:01:00.0{arguments}"))), "{written}: {taken:?}");
    }
    for device in
        ["01:00.1", "0000:c1:00.0,dv_flow_en=1", "net_memif0,role=server,id=1", "eth_af_packet0,iface=e0"]
    {
        parse(&GOOD.replacen("0000:01:00.0", device, 1)).unwrap_or_else(|error| panic!("{device}: {error}"));
    }
}

#[test]
fn names_that_cannot_be_told_apart_or_shown() {
    const TWO: &str = "id = 7\nname = \"a\"\nfan_in = 1\n[[jobs]]\nid = 8\n";
    let job = |name: &str| format!("{TWO}name = \"{name}\"");
    for (name, says) in [
        ("", "is empty"),
        ("a", "two jobs are called \"a\""),
        ("7", "another job's number"),
        ("9", "another job's number"),
        ("+7", "another job's number"),
        ("x\\u0007", "contains '\\u{7}'"),
        ("x\\ny", "contains '\\n'"),
        ("x\\u202Ey", "contains"),
        (" x", "begins or ends with a space"),
        ("<b>", "contains '<'"),
    ] {
        let (message, found) = broken("id = 7", &job(name));
        assert!(message.contains(says), "{name}: {message}");
        assert!(found.starts_with(&format!("\"{name}\"")), "{name}: {found}");
    }
    let (message, _) = broken("id = 7", &job(&"x".repeat(100_000)));
    assert!(message.contains("has 100000 characters, at most 64"), "{message}");
    let (message, _) = broken("id = 7", "id = 7\nname = \"job8\"\nfan_in = 1\n[[jobs]]\nid = 8");
    assert!(message.contains("two jobs are called \"job8\""), "{message}");
    for name in ["resnet-50", "8", "Größe 1", "a/b", &"x".repeat(64)] {
        parse(&GOOD.replacen("id = 7", &job(name), 1)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    all_found(&[
        ("name = \"p1\"", "name = \"\"", "\"\"", "the name of a port is empty", "letters"),
        ("name = \"p1\"", "name = \"a b\"", "\"a b\"", "contains ' '", "letters"),
        ("addresses =", "name = \"../x\"\naddresses =", "\"../x\"", "contains '/'", "letters"),
        ("addresses =", "name = \"\"\naddresses =", "\"\"", "the name of the appliance is empty", "letters"),
    ]);
}

#[test]
fn sizes_and_times_that_cannot_be() {
    all_found(&[
        ("fan_in = 2", "fan_in = 2\nwindow = 0", "0", "window = 0 is out of range", "from 1 to 16384"),
        ("fan_in = 2", "fan_in = 2\nwindow = 16385", "16385", "out of range", "from 1 to 16384"),
        (
            "fan_in = 2",
            "fan_in = 2\nwindow = 1.5",
            "1.5",
            "cannot stand here",
            "whole number from 0 to 65535",
        ),
        ("fan_in = 2", "fan_in = 2\ndead_after = \"50ms\"", "\"50ms\"", "every 100ms", "300ms"),
        ("fan_in = 2", "fan_in = 2\ndead_after = \"9years\"", "\"9years\"", "longer than a year", "shorter"),
        ("fan_in = 2", "fan_in = 2\ndead_after = 5", "5", "cannot stand here", "text in quotes"),
        ("cores = [1]", "cores = [1]\nlongest_nap = \"1h\"", "\"1h\"", "rings would run over", "100ms"),
        ("cores = [1]", "cores = [1]\nfloat = 1", "1", "cannot stand here", "true or false"),
        ("cores = [1]", "cores = 1", "1", "cannot stand here", "list in brackets"),
        ("cores = [1]", "cores = [1]\nmemory_mb = 10000000000", "10000000000", "cannot stand", "4294967295"),
        ("[[jobs]]", "[pool]\nslots = 536870912\n[[jobs]]", "536870912", "2^28", "4096"),
    ]);
}

#[test]
fn groups_that_no_results_get_to() {
    const OTHER: &str = "[[jobs]]\nid = 900\nfan_in = 2\nmulticast = \"239.77.0.1\"\n[[jobs]]";
    for (address, says) in [
        ("10.77.0.9", "is no multicast address"),
        ("fd77::1", "is no multicast address"),
        ("224.0.0.5", "protocols of the link"),
        ("ff02::1:2", "beyond an interface"),
        ("ff05::1:0:0:1", "more than the 32 bits"),
        ("239.77.0.1", "is job 900's already"),
        ("group", "without prefix length"),
    ] {
        let text = parse(&GOOD.replacen("[[jobs]]", OTHER, 1).replacen(
            "members = [",
            &format!("multicast = {address:?}\nmembers = ["),
            1,
        ));
        let error = text.unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("remedy: "), "{address}: {error}");
    }
}

#[test]
fn what_is_missing_is_named_where_it_belongs() {
    for (table, says) in [("appliance", "[appliance]"), ("dataplane", "[dataplane]"), ("ports", "[[ports]]")]
    {
        let mut whole: toml::Table = toml::from_str(GOOD).unwrap();
        whole.remove(table);
        let text = toml::to_string(&whole).unwrap();
        let error = parse(&text).unwrap_err();
        assert_eq!(error.message(), format!("there is no table {says}"));
        let (line, column) = error.place().unwrap();
        let last = text.trim_end().lines().last().unwrap();
        assert_eq!((line, column), (text.trim_end().lines().count(), last.len() + 1), "{error}");
        assert!(error.remedy().starts_with("add it"), "{error}");
    }
    all_found(&[
        ("main_core = 0\n", "", "[dataplane]", "lacks the key main_core", "main_core = 0"),
        ("fan_in = 2\n", "", "[[jobs]]", "lacks the key fan_in", "fan_in = 4"),
        ("device = \"0000:01:00.0\"\n", "", "[[ports]]", "lacks the key device", "device = \"net_af"),
    ]);
}

#[test]
fn a_file_that_is_none_says_what_it_is() {
    let folder = std::env::temp_dir().join(format!("pascaline-check-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let latin = folder.join("latin.toml");
    std::fs::write(&latin, b"[appliance]\nname = \"abc\xe9\"\n").unwrap();
    let fifo = folder.join("fifo.toml");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let said = |path: &Path| Config::load(path).unwrap_err().to_string();
    let text = said(&latin);
    assert!(
        text.contains("latin.toml:2:12: this byte is no UTF-8") && text.contains("save the file"),
        "{text}"
    );
    for (path, says) in [
        (folder.as_path(), "it is a directory"),
        (&fifo, "it is no regular file"),
        (Path::new("/dev/zero"), "it is no regular file"),
        (&folder.join("none"), "there is no such file"),
    ] {
        let text = said(path);
        assert!(text.contains(says) && text.contains("remedy: "), "{text}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
