use std::path::Path;

use super::*;

const EXAMPLE: &str = include_str!("../../../../conf/controller.toml");

fn parsed(text: &str) -> Result<Config, String> {
    Config::parse(Path::new("c.toml"), text).map_err(|error| error.to_string())
}

#[test]
fn the_example_is_accepted_and_has_every_key() {
    let config = parsed(EXAMPLE).unwrap();
    assert_eq!((config.network.appliances.len(), config.network.hosts.len(), config.jobs.len()), (4, 3, 2));
    assert_eq!(config.network.appliances[0].address.to_string(), "10.82.0.254:16420");
    // Links are known at both ends.
    assert_eq!(config.network.switches[0].links, [2, 3]);
}

#[test]
fn what_it_shows_to_appliances_has_a_key() {
    let text = EXAMPLE.replacen("# certificate =", "certificate =", 1).replacen("# key =", "key =", 1);
    let (certificate, key) = parsed(&text).unwrap().identity.unwrap();
    assert_eq!(certificate, Path::new("/etc/pascaline/controller.pem"));
    assert_eq!(key, Path::new("/etc/pascaline/controller.key"));
}

/// A mistake, made by a replacement in the example: the message, and the line that it names.
fn mistake(from: &str, to: &str, said: &str) {
    assert!(EXAMPLE.contains(from), "{from} is not in the example");
    let text = EXAMPLE.replacen(from, to, 1);
    let error = parsed(&text).err().unwrap_or_else(|| panic!("{to} is accepted"));
    assert!(error.contains(said), "{to}: {error}");
    assert!(error.contains("\n  remedy: "), "{to}: {error}");
    let line = error.strip_prefix("c.toml:").and_then(|rest| rest.split(':').next()?.parse::<usize>().ok());
    let line = line.unwrap_or_else(|| panic!("no place: {error}"));
    assert!(line > 4 && line <= text.lines().count(), "{error}");
}

#[test]
fn mistakes_are_told_with_their_place() {
    mistake("ranks = [\"w0\", \"w1\", \"w2\"]", "ranks = [\"w0\", \"w9\"]", "there is no host \"w9\"");
    mistake(
        "ranks = [\"w0\", \"w1\", \"w2\"]",
        "ranks = [\"w0\", \"w1\", \"w0\"]",
        "rank 2 is host \"w0\", as rank 0 is",
    );
    mistake("ranks = [\"w0\", \"w1\", \"w2\"]", "ranks = []", "0 ranks");
    mistake("id = 2", "id = 1", "there are two jobs 1");
    mistake("name = \"bert\"", "name = \"resnet\"", "the job \"resnet\" is there twice");
    mistake("name = \"spine1\"", "name = \"spine0\"", "the switch \"spine0\" is there twice");
    mistake("at = \"spine0\"", "at = \"spine7\"", "there is no switch \"spine7\"");
    mistake("links = [\"spine0\", \"spine1\"]", "links = [\"leaf0\"]", "a switch linked to itself");
    mistake("parent = \"spine0-a\"", "parent = \"spine9-a\"", "there is no appliance \"spine9-a\"");
    mistake(
        "parent = \"spine0-a\" }]",
        "parent = \"leaf0-a\" }, { appliance = \"leaf1-a\", parent = \"spine0-a\" }]",
        "\"leaf1-a\" has two parents",
    );
    mistake("parent = \"spine0-a\" }]", "parent = \"spare\" }]", "is spare");
    mistake(
        "parent = \"spine0-a\" }]",
        "parent = \"spine0-a\" }, { appliance = \"spine0-a\", parent = \"leaf0-a\" }]",
        "makes a loop",
    );
    mistake("order = \"rank\"", "server = true", "backups, and terms with server = true");
    mistake("window = 512", "kind = \"dsa\"", "backups, and terms with a kind that has a server");
    mistake("window = 512", "fan_in = 3", "terms has fan_in, which the tree decides");
    for never in ["learning_rate = nan", "after = [1.0, inf]", "queue = { threshold = -inf }"] {
        mistake("window = 512", never, "with a number that is not finite");
    }
    let (mac, router) = ("mac = \"02:00:00:00:82:fe\"", "router = \"02:50:00:00:00:01\"");
    let error = parsed(&EXAMPLE.replacen(mac, "", 1).replacen(router, "", 1)).unwrap_err();
    assert!(error.contains("nothing says how appliance \"leaf1-a\" reaches \"spine0-a\""), "{error}");
    mistake("\"unix:/run/pascaline/controller.sock\"", "\"0.0.0.0:9471\"", "without a token");
    let both = "# certificate = \"/etc/pascaline/controller.pem\"";
    mistake(both, "certificate = \"c.pem\"", "certificate without key");
    mistake(both, "key = \"c.key\"", "key without certificate");
    mistake("down_after = \"3s\"", "down_after = \"1s\"", "one late answer would be a failure");
    mistake("interval = \"1s\"", "interval = \"soon\"", "no time between");
    mistake("address = \"10.80.0.10\"", "address = \"10.80.0\"", "is not an IP address");
    mistake("address = \"10.80.0.10\"", "address = \"::\"", "is not the address of one machine");
    mistake("address = \"10.80.0.253\"", "address = \"10.80.0.254\"", "at 10.80.0.254 as well");
    mistake("admin = \"10.80.0.253:9466\"", "admin = \"10.80.0.254:9466\"", "at 10.80.0.254:9466 as well");
    mistake("admin = \"10.80.0.253:9466\"", "admin = \"10.80.0.253\"", "is no admin API");
    mistake("ca = \"/etc/pascaline/ca.pem\"", "", "there is no ca to know the appliance by");
    mistake("mac = \"02:00:00:00:82:fe\"", "mac = \"02:00:00:82:fe\"", "is not a MAC address");
    mistake("router = \"02:50:00:00:00:01\"", "router = \"here\"", "is not a MAC address");
    let six = "one of appliance \"leaf0-a\" and \"spine0-a\" above it is at an IPv6 address";
    mistake("address = \"10.82.0.254\"", "address = \"fd00::254\"", six);
    let leaf1 = "name = \"leaf1\"\nlinks = [\"spine0\", \"spine1\"]";
    mistake(leaf1, "name = \"leaf1\"", "no links lead from appliance");
    mistake("spare = true", "spair = true", "unknown field");
    mistake("tree = [{", "plan = \"p.json\"\ntree = [{", "both a tree and a plan");
    mistake("terms = { window = 512, shared = { order = \"rank\" } }", "plan = \"none.json\"", "none.json");
}

#[test]
fn trees_are_as_many_as_there_are_roots_and_numbers_for() {
    assert!(parsed(EXAMPLE).unwrap().jobs.iter().all(|job| job.trees == 1));
    let one = "\ntrees = 1 ";
    mistake(one, "\ntrees = 0 ", "0 trees");
    mistake(one, "\ntrees = 9 ", "9 trees");
    let apart = EXAMPLE.replacen("id = 2\n", "id = 7\n", 1);
    let with = |keys: &str| {
        parsed(&apart.replacen(one, &format!("\n{keys} "), 1)).map_err(|error| error.replace('\n', " "))
    };
    let refused = |keys: &str| with(keys).err().unwrap_or_else(|| panic!("{keys} is accepted"));
    let few = refused("trees = 3");
    assert!(few.contains("3 trees, and appliances for 1: with spine0-a as roots"), "{few}");
    assert!(few.contains("add an appliance") && few.contains("or write trees = 1"), "{few}");
    assert_eq!(with("trees = 1").unwrap().jobs[0].numbers().collect::<Vec<_>>(), [1]);
    for terms in ["kind = \"updates\"", "kind = \"switchml\"", "kind = \"dsa\"", "multicast = \"239.1.1.1\""]
    {
        let text = apart.replacen(one, "\ntrees = 2 ", 1).replacen("\nbackups = true", "\n", 1).replacen(
            "window = 512",
            terms,
            1,
        );
        let error = parsed(&text).unwrap_err();
        assert!(error.contains("2 trees, and terms with ") && error.contains("remedy: leave"), "{error}");
    }
    let high = apart.replacen("id = 1\n", "id = 65535\n", 1).replacen(one, "\ntrees = 2 ", 1);
    assert!(parsed(&high).unwrap_err().contains("each has the next job's number"));
    let more = "\n[[appliances]]\nname = \"spine1-a\"\nat = \"spine1\"\naddress = \"10.82.1.254\"\n\
                admin = \"10.82.1.254:9466\"\nmac = \"02:00:00:00:82:ff\"\n";
    let two = parsed(&(EXAMPLE.replacen(one, "\ntrees = 2 ", 1) + more)).unwrap_err();
    assert!(two.contains("there are two jobs 2"), "{two}");
    let apart = apart.replacen(one, "\ntrees = 2 ", 1) + more;
    let called = parsed(&apart.replacen("\"bert\"", "\"resnet tree 2\"", 1)).unwrap_err();
    assert!(
        called.contains("a tree of job 1 is called \"resnet tree 2\"") && called.contains("remedy: give")
    );
    let two = parsed(&apart).unwrap();
    assert_eq!(two.jobs[0].numbers().collect::<Vec<_>>(), [1, 2]);
    let trees = two.jobs[0].all_trees(&two.network, &|at| !two.network.appliances[at].spare).unwrap();
    assert_eq!(
        trees.iter().map(|tree| &*tree.root().unwrap().appliance).collect::<Vec<_>>(),
        ["spine0-a", "spine1-a"]
    );
}

/// The example's lines about etcd, in place of its store.
#[test]
fn several_controllers_remember_in_etcd() {
    let keys = |from: &str| {
        let lines = EXAMPLE.lines().skip_while(|line| *line != from).skip(1);
        let lines = lines.take_while(|line| line.starts_with("# ")).map(|line| &line[2..]);
        lines.collect::<Vec<_>>().join("\n")
    };
    let store = EXAMPLE.lines().find(|line| line.starts_with("store = ")).unwrap();
    let text = EXAMPLE.replacen(store, "", 1) + "\n[etcd]\n" + &keys("# [etcd]");
    let plain = text.replace("https://", "http://").replace("\nca = ", "\n# ").replace("\nkey = ", "\n# ");
    let plain = plain.replace("\ncertificate = ", "\n# ");
    let StoreAt::Etcd(at) = parsed(&text).unwrap().store else { panic!("not in etcd") };
    assert_eq!((at.endpoints.len(), at.member.as_str(), at.lease.as_secs()), (3, "controller-a", 4));
    assert!(at.ca.is_some() && at.identity.is_some());
    let StoreAt::Etcd(at) = parsed(&plain).unwrap().store else { panic!("not in etcd") };
    assert_eq!((&*at.endpoints[0], at.ca, at.identity), ("http://etcd0.example:2379", None, None));
    for (from, to, said) in [
        ("https://etcd0", "http://etcd0", "is not https://HOST:PORT; write https://HOST:PORT; with ca"),
        ("etcd0.example:2379", "etcd1.example:2379", "an endpoint is there twice"),
        ("\"4s\"", "\"1s\"", "no lease for less than 2"),
        ("\"4s\"", "\"2500ms\"", "whole seconds"),
        ("\"controller-a\"", "\"\"", "without a name"),
        ("\nkey = ", "\n# ", "belong together"),
        ("\nca = ", "\n# ", "etcd with TLS needs ca"),
        ("[etcd]\n", "[etcd]\npassword = 1\n", "unknown field"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = parsed(&text.replace(from, to)).unwrap_err().replace("\n  remedy: ", "; ");
        assert!(error.contains(said) && error.starts_with("c.toml:"), "{to}: {error}");
    }
    assert!(parsed(&(EXAMPLE.to_owned() + "\n[etcd]\n" + &keys("# [etcd]"))).unwrap_err().contains("both"));
    assert!(parsed(&EXAMPLE.replacen(store, "", 1)).unwrap_err().contains("where to remember"));
}

/// The workers' paths through the appliances of a plan form the tree.
#[test]
fn a_plan_is_the_tree() {
    let route = |hops: &[&str]| hops.iter().map(|hop| format!("{hop:?}")).collect::<Vec<_>>().join(",");
    let planned = |w1: &[&str]| {
        let (w0, w2) =
            (["leaf0", "leaf0's appliance", "spine0's appliance", "w"], ["spine0", "spine0's appliance"]);
        let routes = format!("{{\"w0\":[{}],\"w1\":[{}],\"w2\":[{}]}}", route(&w0), route(w1), route(&w2));
        let plan = format!("{{\"k\":1,\"tasks\":[{{\"job\":\"resnet\",\"routes\":{routes}}}]}}");
        let name = format!("pascaline-plan-{}-{}.json", std::process::id(), w1.len());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, plan).unwrap();
        let line = format!("plan = {:?}", file.display().to_string());
        let config =
            parsed(&EXAMPLE.replacen("terms = { window = 512, shared = { order = \"rank\" } }", &line, 1));
        std::fs::remove_file(&file).unwrap();
        let config = config?;
        config.jobs[0].tree(&config.network, &|_| true).map_err(|refusal| refusal.message)
    };
    let tree = planned(&["leaf0", "spine0's appliance"]).unwrap();
    assert_eq!(tree.nodes.len(), 2);
    assert_eq!((tree.nodes[0].appliance.as_str(), &*tree.nodes[0].ranks), ("spine0-a", &[1, 2][..]));
    assert_eq!((tree.nodes[1].parent.as_deref(), &*tree.nodes[1].ranks), (Some("spine0-a"), &[0][..]));
    assert!(planned(&["leaf0"]).unwrap_err().contains("no appliance is on the way of host \"w1\""));
    let loops = ["spine0's appliance", "leaf0's appliance", "x"];
    assert!(planned(&loops).unwrap_err().contains("loop"));
    assert!(planned(&["spine1's appliance", "a", "b", "c"]).unwrap_err().contains("there is none here"));
}
