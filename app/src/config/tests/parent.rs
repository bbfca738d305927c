//! Jobs whose sums go to another appliance.

use pascaline_wire::frame::Address;

use super::*;
use crate::config::kind::Tag;

const PARENT: &str =
    "parent = { address = \"10.78.0.254\", rank = 1, ranks = 2, mac = \"02:00:00:00:00:fe\" }";

fn with_keys(keys: &str) -> String {
    GOOD.replacen("members = [\"10.77.0.1\", \"10.77.0.2\"]", keys, 1)
}

#[test]
fn a_job_with_a_parent_has_a_region_and_knows_the_way() {
    let config = parse(&with_keys(PARENT)).unwrap();
    let job = &config.jobs[0];
    let parent = job.spec.parent.unwrap();
    assert_eq!((parent.rank, parent.ranks, parent.endpoint.udp_port, parent.endpoint.port), (1, 2, 16420, 0));
    assert_eq!(parent.endpoint.address.to_string(), "10.78.0.254");
    assert_eq!(parent.endpoint.local.to_string(), config.addresses[0].to_string());
    assert!(job.spec.kind.place().is_some() && Tag::of(&job.spec.kind) == Tag::Region);
    let at = PARENT.replace("10.78.0.254", "10.78.0.254:5000");
    assert_eq!(parse(&with_keys(&at)).unwrap().jobs[0].spec.parent.unwrap().endpoint.udp_port, 5000);
}

/// A backup is like the parent in what is not written.
#[test]
fn a_parent_has_backups_that_differ_in_what_is_written() {
    let backups = ", backups = [{ address = \"10.79.0.254\" }, { address = \"10.80.0.254:5000\", rank = 4, \
                   ranks = 5, mac = \"02:00:00:00:00:fd\" }] }";
    let with = |backups: &str| parse(&with_keys(&PARENT.replacen(" }", backups, 1)));
    let config = with(backups).unwrap();
    let (parent, backups) = (config.jobs[0].spec.parent.unwrap(), &config.jobs[0].spec.backups);
    let [one, other] = backups[..] else { panic!("two backups: {backups:?}") };
    assert_eq!((one.rank, one.ranks, one.endpoint.mac), (1, 2, parent.endpoint.mac));
    assert_eq!((one.endpoint.address.to_string().as_str(), one.endpoint.udp_port), ("10.79.0.254", 16420));
    assert_eq!((other.rank, other.ranks, other.endpoint.udp_port), (4, 5, 5000));
    assert_eq!(other.endpoint.mac.to_string(), "02:00:00:00:00:fd");
    for (backup, what) in [
        ("address = \"10.78.0.254\"", "10.78.0.254 is named twice"),
        ("address = \"10.79.0.254\" }, { address = \"10.79.0.254\"", "10.79.0.254 is named twice"),
        ("address = \"10.77.0.254\"", "own address"),
        ("address = \"10.79.0.254\", ranks = 1", "rank 1 of the parent is none of 1 ranks"),
        ("address = \"10.79.0.254\", rank = 2", "rank = 2 is out of range"),
        ("address = \"10.79.0.254\", backups = []", "unknown field"),
    ] {
        let error = with(&format!(", backups = [{{ {backup} }}] }}")).unwrap_err();
        assert!(error.to_string().contains(what) && error.place().is_some(), "{backup}: {error}");
    }
}

/// Without a MAC it is asked for: the parent's own, or that of a router on the way; a backup's likewise.
#[test]
fn a_mac_that_is_left_out_is_asked_for() {
    let hops = |parent: &str| {
        let config = parse(&with_keys(parent)).unwrap();
        let job = &config.jobs[0];
        let all = job.spec.parent.iter().chain(&job.spec.backups);
        let hop = |hop: Option<Address>| hop.map_or_else(String::new, |hop| hop.to_string());
        all.map(|parent| (hop(parent.next_hop), parent.endpoint.mac.to_string())).collect::<Vec<_>>()
    };
    let asked = |address: &str| (address.to_owned(), "00:00:00:00:00:00".to_owned());
    let written = (String::new(), "02:00:00:00:00:fe".to_owned());
    let backup = ", backups = [{ address = \"10.79.0.254\" }] }";
    let without = PARENT.replace(", mac = \"02:00:00:00:00:fe\"", "").replacen(" }", backup, 1);
    assert_eq!(hops(&without), [asked("10.78.0.254"), asked("10.79.0.254")]);
    let by_router = without.replace("ranks = 2", "ranks = 2, via = \"10.77.0.1\"");
    assert_eq!(hops(&by_router), [asked("10.77.0.1"), asked("10.77.0.1")]);
    let with_mac = without.replace("ranks = 2", "ranks = 2, mac = \"02:00:00:00:00:fe\"");
    assert_eq!(hops(&with_mac), [written.clone(), written.clone()]);
    let backup = with_mac.replace("\"10.79.0.254\"", "\"10.79.0.254\", via = \"10.79.0.254\"");
    assert_eq!(hops(&backup), [written, asked("10.79.0.254")]);
}

#[test]
fn what_such_a_job_cannot_have_is_refused_with_its_place() {
    for (more, what) in [
        ("kind = \"dsa\"", "parameter server"),
        ("kind = \"iswitch\"", "partial results"),
        ("kind = \"early\"\n[jobs.early]\nthreshold = 1", "partial results"),
        ("on_death = \"continue\"", "on_death"),
    ] {
        let error = parse(&with_keys(&format!("{PARENT}\n{more}"))).unwrap_err();
        assert!(error.to_string().contains(what), "{more}: {error}");
        assert!(error.place().is_some(), "{more}");
    }
    for (from, to, what) in [
        ("10.78.0.254", "10.77.0.254", "own address"),
        ("10.78.0.254", "10.78.0.254:0", "UDP port 0"),
        ("rank = 1", "rank = 2", "rank = 2 is out of range"),
        ("ranks = 2", "ranks = 0", "ranks = 0 is out of range"),
        ("02:00:00:00:00:fe", "ff:ff:ff:ff:ff:ff", "no MAC of a host"),
        ("02:00:00:00:00:fe", "02:00", "no MAC of a host"),
        ("02:00:00:00:00:fe", "00:00:00:00:00:00", "no MAC of a host"),
        (" }", ", via = \"10.77.0.1\" }", "mac and via"),
        ("mac = \"02:00:00:00:00:fe\"", "via = \"10.77.0.254\"", "own address"),
        ("mac = \"02:00:00:00:00:fe\"", "via = \"224.0.0.1\"", "224.0.0.1"),
        (" }", ", port = \"nowhere\" }", "no port called"),
        (" }", ", from = \"10.78.0.1\" }", "no own address"),
    ] {
        let error = parse(&with_keys(&PARENT.replacen(from, to, 1))).unwrap_err();
        assert!(error.to_string().contains(what), "{to}: {error}");
    }
    let looped = PARENT.replace("10.78.0.254", "10.77.0.2");
    let keys = format!("members = [\"10.77.0.1\", \"10.77.0.2\"]\n{looped}");
    let error = parse(&with_keys(&keys)).unwrap_err();
    assert!(error.to_string().contains("a loop: 10.77.0.2") && error.place().is_some(), "{error}");
}
