use std::path::Path;

use super::*;
use crate::config::Config;

const HEAD: &str = "[appliance]\naddresses = [\"10.77.0.254\"]\n\n[dataplane]\nmain_core = 0\ncores = [1]\n\n\
                    [[ports]]\nname = \"p0\"\ndevice = \"net_af_packet0,iface=veth0\"\n";

/// The jobs of a file in today's words, which is accepted.
fn jobs(old: &str) -> String {
    let text = converted(&format!("{HEAD}{old}")).unwrap();
    Config::parse(Path::new("new.toml"), &text).unwrap_or_else(|error| panic!("{old}: {error}\n{text}"));
    assert_eq!(converted(&text).unwrap(), text, "a second time changes nothing");
    text.strip_prefix(HEAD).unwrap_or_else(|| panic!("the rest has changed:\n{text}")).to_owned()
}

fn job(keys: &str) -> String {
    let head = "[[jobs]]\nid = 1\nfan_in = 4\n";
    let new = jobs(&format!("{head}{keys}\n[ps]\nmode = \"external\"\naddress = \"10.77.0.9\"\n"));
    let new = new.strip_suffix("[ps]\nmode = \"external\"\naddress = \"10.77.0.9\"\n").unwrap();
    new.strip_prefix(head).unwrap_or_else(|| panic!("{new}")).trim_end().to_owned()
}

#[test]
fn each_old_job_becomes_one_of_a_kind() {
    for (old, new) in [
        ("", ""),
        ("profile = \"switchml\"", "kind = \"region\""),
        ("profile = \"dsa\"", "kind = \"dsa\""),
        ("profile = \"panama\"", "kind = \"panama\""),
        ("addressing = \"shared\"", "kind = \"dsa\""),
        (
            "profile = \"dsa\"\nquota = 9",
            "kind = \"shared\"\n\n[jobs.shared]\nconflict = \"preempt\"\nquota = 9",
        ),
        (
            "server = false\naddressing = \"shared\"",
            "kind = \"shared\"\n\n[jobs.shared]\nconflict = \"first-come\"\nserver = false",
        ),
        ("profile = \"dsa\"\nconflict = \"coin\"", "kind = \"shared\"\n\n[jobs.shared]\nconflict = \"coin\""),
        ("region_slots = 64 # few", "kind = \"region\"\n\n[jobs.region]\nslots = 64 # few"),
        ("order = \"rank\"", "\n[jobs.region]\norder = \"rank\""),
        ("threshold = 0.94", "kind = \"early\"\n\n[jobs.early]\nthreshold = 0.94"),
        (
            "profile = \"panama\"\npartial_after = \"1ms\"",
            "kind = \"panama\"\n\n[jobs.early]\npartial_after = \"1ms\"",
        ),
        ("profile = \"iswitch\"\norder = \"rank\"", "kind = \"region\"\n\n[jobs.region]\norder = \"rank\""),
        ("mode = \"olaf\"\nparameters = 9", "kind = \"updates\"\n\n[jobs.updates]\nparameters = 9"),
        ("mode = \"sync\"\nprotocol = \"pascaline\"", ""),
        (
            "protocol = \"switchml\"\ncontroller = \"192.0.2.1:50099\"\nregion_slots = 2048",
            "kind = \"switchml\"\n\n[jobs.switchml]\ncontroller = \"192.0.2.1:50099\"\nslots = 2048",
        ),
    ] {
        assert_eq!(job(old).trim(), new.trim(), "{old}");
    }
}

/// 4,096 slots, and regions of 1,024.
#[test]
fn jobs_that_left_their_place_open_are_where_they_were() {
    let several =
        |count: u16| (1..=count).map(|id| format!("[[jobs]]\nid = {id}\nfan_in = 2\n")).collect::<String>();
    assert_eq!(jobs(&several(4)), several(4));
    assert_eq!(jobs(&several(5)).matches("kind = \"dsa\"").count(), 5);
    let none = jobs(&format!("[ps]\nmode = \"none\"\n{}", several(5)));
    assert_eq!(none.matches("[jobs.shared]\nconflict = \"first-come\"\nserver = false").count(), 5, "{none}");
    let formed = "[admission]\njobs = \"9\"\nfrom = [\"::/0\"]\n";
    assert_eq!(jobs(&format!("{formed}{}", several(3))).matches("kind = \"dsa\"").count(), 3);
    assert_eq!(jobs(&format!("{formed}{}", several(2))).matches("kind").count(), 0);
}

#[test]
fn what_is_no_toml_is_refused_with_its_place() {
    let error = converted("[[jobs]\nid = 1").unwrap_err();
    assert!(error.span().is_some(), "{error}");
}

/// Every key that is gone is refused where it stands, with today's words.
#[test]
fn an_old_key_is_refused_with_todays_words() {
    for (key, today) in GONE {
        let text = format!("{HEAD}[[jobs]]\nid = 1\nfan_in = 4\n{key} = 1\n");
        let error = Config::parse(Path::new("old.toml"), &text).unwrap_err();
        let line = text.lines().count();
        assert_eq!(error.place(), Some((line, 1)), "{error}");
        assert!(error.remedy().contains(today) && error.remedy().contains("--convert"), "{error}");
    }
}
