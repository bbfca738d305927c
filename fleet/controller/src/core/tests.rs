//! The core with simulated appliances, in virtual time.

mod backups;
mod changes;
mod trees;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;

const EXAMPLE: &str = include_str!("../../../../conf/controller.toml");
/// One more appliance, at the other spine.
const OTHER_SPINE: &str = "[[appliances]]\nname = \"spine1-a\"\nat = \"spine1\"\naddress = \"10.82.1.254\"\n\
                           admin = \"10.82.1.254:9466\"\nrouter = \"02:50:00:00:00:03\"\n";
const STEP: Duration = Duration::from_millis(100);

/// Appliances that carry out their orders, and forget them when they are killed. A job that workers have
/// formed by their Joins has no terms (null).
struct World {
    core: Core,
    config: Config,
    stored: Stored,
    jobs: Vec<BTreeMap<u16, Value>>,
    up: Vec<bool>,
    now: Duration,
    /// Requests that changed something.
    writes: usize,
    /// Ranks that have joined a job, at any appliance.
    joined: u64,
}

impl World {
    fn new() -> Self {
        Self::of(EXAMPLE)
    }

    fn of(text: &str) -> Self {
        let config = Config::parse(std::path::Path::new("controller.toml"), text).unwrap();
        let core = Core::new(&config, Stored::default(), Duration::ZERO);
        let appliances = core.appliances();
        let (jobs, up) = (vec![BTreeMap::new(); appliances], vec![true; appliances]);
        let now = Duration::ZERO;
        Self { core, config, stored: Stored::default(), jobs, up, now, writes: 0, joined: 1 }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.ask();
            self.remember();
            self.now += STEP;
        }
    }

    /// Sends all requests that are due now.
    fn ask(&mut self) {
        for at in 0..self.jobs.len() {
            while let Next::Ask(ask) = self.core.next(at, self.now) {
                let answer = self.answer(&ask);
                self.core.answered(&ask, answer, self.now);
            }
        }
    }

    fn answer(&mut self, ask: &Ask) -> Result<(u16, Value), String> {
        let at = ask.appliance;
        if !self.up[at] {
            return Err("connection refused".to_owned());
        }
        let jobs = &mut self.jobs[at];
        let job = ask.path.rsplit('/').next().and_then(|id| id.parse::<u16>().ok());
        self.writes += usize::from(ask.method != Method::Get);
        let body = ask.body.clone().unwrap_or_default();
        Ok(match (ask.method, job) {
            (Method::Get, None) if ask.path.ends_with("status") => (200, json!({"packets": {"received": 7}})),
            (Method::Get, None) => {
                let origin = |terms: &Value| if terms.is_null() { "formed" } else { "configured" };
                let job = |(id, terms)| json!({"id": id, "origin": origin(terms)});
                (200, json!({"jobs": jobs.iter().map(job).collect::<Vec<_>>()}))
            }
            (Method::Get, Some(job)) => match jobs.get(&job) {
                Some(terms) => (200, json!({"state": "running", "joined": self.joined, "terms": terms})),
                None => (404, json!({"error": "no job", "remedy": "none"})),
            },
            (Method::Post, _) => {
                assert!(body.get("parent").is_none_or(|parent| parent["mac"].is_string()));
                let id = u16::try_from(body["id"].as_u64().unwrap()).unwrap();
                assert!(jobs.insert(id, body).is_none_or(|formed| formed.is_null()), "made twice");
                (201, json!({}))
            }
            (Method::Patch | Method::Delete, Some(job)) if jobs.get(&job).is_some_and(Value::is_null) => {
                (404, json!({"error": "no configured job", "remedy": "none"}))
            }
            (Method::Patch, Some(job)) => {
                changes::merge(jobs.get_mut(&job).expect("changed, and not there"), body);
                (200, json!({}))
            }
            (Method::Delete, Some(job)) => {
                assert!(jobs.remove(&job).is_some(), "removed, and not there");
                (200, json!({}))
            }
            _ => (404, json!({"error": "nothing here", "remedy": "none"})),
        })
    }

    /// Stores notes.
    fn remember(&mut self) {
        let notes = self.core.take_notes();
        self.core.remembered(&notes);
        for note in notes {
            match note {
                Note::Tree(job, made_for, tree) => drop(self.stored.trees.insert(job, (made_for, tree))),
                Note::Pushed(name, job, Some(body)) => drop(self.stored.pushed.insert((name, job), body)),
                Note::Pushed(name, job, None) => drop(self.stored.pushed.remove(&(name, job))),
                Note::Moved(moved) => self.stored.moves.push(moved),
            }
        }
    }

    fn restart(&mut self) {
        self.core = Core::new(&self.config, self.stored.clone(), self.now);
        self.writes = 0;
    }

    fn set(&mut self, name: &str, up: bool) {
        let at = self.config.network.appliance(name).unwrap();
        self.up[at] = up;
        if !up {
            self.jobs[at].clear();
        }
    }

    /// Every appliance that is up has exactly the parts of its trees.
    fn check(&self) {
        for (at, jobs) in self.jobs.iter().enumerate().filter(|(at, _)| self.up[*at]) {
            let name = &self.config.network.appliances[at].name;
            let wanted: BTreeMap<u16, Value> =
                self.core.trees.keys().filter_map(|&job| Some((job, self.core.body(name, job)?))).collect();
            assert_eq!(*jobs, wanted, "{name} at {:?}: {:?}", self.now, self.stored.moves);
        }
        for (job, number) in self.config.jobs.iter().flat_map(|job| job.numbers().map(move |it| (job, it))) {
            let (tree, first) = (&self.core.trees[&number], &self.core.trees[&job.id]);
            let mut ranks: Vec<u16> = tree.nodes.iter().flat_map(|node| node.ranks.clone()).collect();
            ranks.sort_unstable();
            assert!(ranks.iter().copied().eq(0..u16::try_from(job.ranks.len()).unwrap()));
            assert_eq!(tree.nodes.iter().filter(|node| node.parent.is_none()).count(), 1);
            let place = |tree: &Tree, rank| tree.place(rank).map(|(node, local)| (local, tree.fan_in(node)));
            assert!(
                ranks.iter().all(|&rank| place(tree, rank) == place(first, rank)),
                "{number}: another rank"
            );
        }
    }
}

#[test]
fn every_appliance_is_told_its_part_and_every_worker_where_to_go() {
    let mut world = World::new();
    let refused = world.core.placement(1, 2).unwrap_err();
    assert_eq!((refused.0.as_str(), refused.2), ("appliance leaf1-a does not have job 1 yet", true));
    world.run(Duration::from_secs(2));
    world.check();
    let leaf = world.config.network.appliance("leaf0-a").unwrap();
    let expected = json!({
        "address": "10.82.0.254:16420", "rank": 0, "ranks": 2, "mac": "02:50:00:00:00:00",
        "from": "10.80.0.254", "port": "up",
    });
    assert_eq!(world.jobs[leaf][&1]["parent"], expected);
    assert_eq!(world.jobs[leaf][&1]["members"], json!(["10.80.0.10", "10.80.0.11"]));
    let place = world.core.placement(1, 1).unwrap();
    assert_eq!(
        (place.way.address.as_str(), place.local_rank, place.local_ranks),
        ("10.80.0.254:16420", 1, 2)
    );
    assert_eq!(place.workers, 3);
    assert!(world.core.placement(1, 3).is_err() && world.core.placement(9, 0).is_err());
    assert!(world.core.view(world.now).jobs.iter().all(|job| job.in_force));
}

#[test]
fn the_spare_takes_the_part_of_one_that_fails_and_keeps_it() {
    let mut world = World::new();
    world.run(Duration::from_secs(2));
    let parent = |world: &World, name: &str| {
        let at = world.config.network.appliance(name).unwrap();
        world.jobs[at].get(&1).map(|job| (job["parent"]["rank"].clone(), job["fan_in"].clone()))
    };
    let before = parent(&world, "leaf0-a");
    assert_eq!(parent(&world, "spare"), before, "it has the part ready");
    let root = world.config.network.appliance("spine0-a").unwrap();
    let at_root = world.jobs[root].clone();
    world.set("leaf0-a", false);
    let killed = world.now;
    let moved = |world: &World| world.core.trees[&1].node("spare").is_some();
    while !moved(&world) && world.now < killed + Duration::from_secs(10) {
        world.run(STEP);
    }
    assert!(world.now - killed <= world.config.down_after + 2 * STEP, "{:?}", world.now - killed);
    world.run(Duration::from_secs(2));
    world.check();
    assert_eq!(world.jobs[root], at_root, "a parent need not know who its child is");
    assert_eq!(world.core.placement(1, 0).unwrap().way.appliance, "spare");
    // After its return it stands by for the other.
    world.set("leaf0-a", true);
    world.run(Duration::from_secs(3));
    world.check();
    assert_eq!(parent(&world, "leaf0-a"), before);
    assert_eq!(world.core.placement(1, 0).unwrap().way.appliance, "spare");
    world.set("spare", false);
    world.run(Duration::from_secs(6));
    world.check();
    assert_eq!(parent(&world, "leaf0-a"), before);
}

#[test]
fn a_restart_tells_nobody_anything_new() {
    let mut world = World::new();
    world.run(Duration::from_secs(2));
    world.set("leaf0-a", false);
    world.run(Duration::from_secs(6));
    let trees = world.core.trees.clone();
    world.restart();
    assert_eq!(world.core.trees, trees, "a tree stays where it was moved to");
    world.run(Duration::from_secs(2));
    assert_eq!(world.writes, 0);
    // Only parts that have been changed by hand meanwhile are put right.
    let at = world.config.network.appliance("leaf1-a").unwrap();
    world.jobs[at].get_mut(&1).unwrap()["parent"]["rank"] = json!(0);
    world.jobs[at].remove(&2);
    world.restart();
    world.run(Duration::from_secs(2));
    world.check();
    assert_eq!(world.writes, 2);
    // A job that is not in the file any more is removed where it was made.
    world.config.jobs.pop();
    world.restart();
    world.run(Duration::from_secs(2));
    world.check();
    assert!(world.jobs.iter().all(|jobs| !jobs.contains_key(&2)));
}

/// Workers are there before the controller is, where an appliance admits their job by itself.
#[test]
fn a_job_that_workers_have_formed_gets_the_terms_of_its_tree() {
    let mut world = World::new();
    world.run(Duration::from_secs(2));
    for told in [true, false] {
        let at = world.config.network.appliance("leaf0-a").unwrap();
        world.jobs[at] = BTreeMap::from([(1, Value::Null), (77, Value::Null)]);
        if !told {
            world.stored.pushed.clear();
            world.restart();
        }
        world.run(Duration::from_secs(2));
        // Jobs outside of trees are left alone.
        assert_eq!(world.jobs[at].remove(&77), Some(Value::Null));
        world.check();
        assert!(world.core.view(world.now).jobs.iter().all(|job| job.in_force));
    }
}

#[test]
fn without_a_spare_it_plans_anew_or_waits() {
    let mut world = World::new();
    world.run(Duration::from_secs(2));
    world.set("spare", false);
    world.set("leaf0-a", false);
    world.run(Duration::from_secs(8));
    world.check();
    // The racks of job 1 go to the nearest that is left; job 2's tree is written, and waits.
    assert_eq!(world.core.placement(1, 0).unwrap().way.appliance, "spine0-a");
    assert!(world.core.trees[&2].node("leaf0-a").is_some());
    assert!(
        world
            .stored
            .moves
            .iter()
            .any(|moved| moved.text.contains("no appliance can take the part of leaf0-a"))
    );
    world.set("leaf0-a", true);
    world.run(Duration::from_secs(3));
    world.check();
    assert!(world.core.view(world.now).jobs[1].in_force);
}

/// Whatever fails and returns, in the end every appliance that is up has the parts of its trees.
#[test]
fn hundreds_of_failures_end_in_order() {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut world = if seed < 40 { World::new() } else { trees::world(2) };
        for _ in 0..20 {
            let at = random.usize(0..world.up.len());
            let name = world.config.network.appliances[at].name.clone();
            let up = random.bool();
            world.set(&name, up);
            if random.u8(0..8) == 0 {
                world.restart();
            }
            world.run(Duration::from_millis(random.u64(0..5000)));
        }
        for at in 0..world.up.len() {
            world.up[at] = true;
        }
        world.run(Duration::from_secs(8));
        world.check();
        assert!(world.core.view(world.now).jobs.iter().all(|job| job.in_force), "seed {seed}");
        world.restart();
        world.run(Duration::from_secs(3));
        assert_eq!(world.writes, 0, "seed {seed}");
    }
}

/// The first of two leads, until a time; the term does not matter here.
fn lead(core: &mut Core, stored: &Stored, term: i64, until: Duration, now: Duration) {
    let standing = Standing { leads_until: Some(until), term, ..Standing::default() };
    assert!(core.set_standing(standing.clone(), now), "it leads without having read");
    core.lead(stored.clone(), until, now);
    assert!(!core.set_standing(standing, now) && core.leads(now));
}

#[test]
fn one_that_follows_tells_workers_and_no_appliance_until_it_leads() {
    let mut world = World::new();
    let config = world.config.clone();
    world.core = Core::following(&config, Some("a"), Duration::ZERO);
    let mut other = Core::following(&config, Some("b"), Duration::ZERO);
    let refused = world.core.placement(1, 0).unwrap_err();
    assert!(refused.0.contains("has not read its store") && refused.2);
    lead(&mut world.core, &Stored::default(), 1, Duration::from_secs(6), world.now);
    world.run(Duration::from_secs(2));
    world.check();
    assert_eq!(world.core.view(world.now).leadership.leader.as_deref(), Some("a"));
    core::mem::swap(&mut world.core, &mut other);
    world.core.learn(world.stored.clone(), world.now);
    world.writes = 0;
    world.run(Duration::from_secs(2));
    assert_eq!(world.core.placement(1, 1), other.placement(1, 1));
    assert!(world.core.view(world.now).jobs.iter().all(|job| job.in_force));
    // It does not give away the part of one that fails either, however long that lasts.
    world.set("leaf0-a", false);
    world.run(Duration::from_secs(8));
    assert_eq!((world.writes, &world.core.trees), (0, &other.trees));
    assert!(world.core.placement(1, 0).is_err_and(|refused| refused.2));
    // It knows already which are down, and loses no time.
    let until = world.now + Duration::from_secs(6);
    lead(&mut world.core, &world.stored, 2, until, world.now);
    world.run(4 * STEP);
    world.check();
    assert_eq!(world.core.placement(1, 0).unwrap().way.appliance, "spare");
    // The first was held up all the time. It resumes with its old state, and checks the clock.
    core::mem::swap(&mut world.core, &mut other);
    world.writes = 0;
    world.run(Duration::from_secs(4));
    assert_eq!(world.writes, 0);
    assert!(!world.core.leads(world.now) && world.core.take_notes().is_empty());
    let follows = Standing { leader: Some("b".to_owned()), ..Standing::default() };
    assert!(!world.core.set_standing(follows, world.now));
    world.core.learn(world.stored.clone(), world.now);
    world.run(Duration::from_secs(2));
    assert_eq!((world.writes, &world.core.trees), (0, &other.trees));
    assert_eq!(world.core.placement(1, 0).unwrap().way.appliance, "spare");
    assert_eq!(world.core.view(world.now).leadership.leader.as_deref(), Some("b"));
}
