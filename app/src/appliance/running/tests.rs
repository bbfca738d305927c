//! What of a file a running appliance takes, and what it keeps.

use std::path::Path;

use super::*;

const HEAD: &str = "[appliance]\naddresses = [\"10.77.0.254\"]\n[dataplane]\nmain_core = 0\ncores = [1]\n";
const A: &str = "[[ports]]\nname = \"a\"\ndevice = \"net_null0\"\n";
const B: &str = "[[ports]]\nname = \"b\"\ndevice = \"net_null1\"\n";
const JOB: &str = "[[jobs]]\nid = 1\nfan_in = 2\nparent = { address = \"10.78.0.254\", rank = 0, ranks = 2, \
                   mac = \"02:00:00:00:00:fe\", port = \"b\" }\n";

fn parse(parts: &[&str]) -> Config {
    Config::parse(Path::new("test.toml"), &parts.concat()).unwrap()
}

/// Lcores keep the ports of the start in their places, so whatever names a port has to mean the same one.
#[test]
fn ports_in_another_order_stay_where_they_are() {
    let start = parse(&[HEAD, A, B, JOB]);
    let port = |config: &Config| config.jobs[0].parent.unwrap().endpoint.port;
    let running = Running::new(&start);
    let wanted = parse(&[HEAD, B, A, JOB]);
    let kept = running.differences(&wanted);
    let kept: Vec<_> = kept.iter().map(|kept| (&*kept.key, &*kept.running, &*kept.file)).collect();
    assert_eq!(kept, [("ports", "a, b", "b, a")]);
    let next = running.with_what_can_change(&wanted).unwrap();
    assert_eq!((port(&start), port(&wanted), port(&next)), (1, 0, 1));
    assert!(running.differences(&next).is_empty());
}
