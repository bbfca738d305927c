//! The jobs that appliances have, those that they should have, and the difference.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Ask, Core, Health, Method, Note, Purpose};
use crate::network::Appliance;
use crate::tree::{Node, Tree};

/// The keys of a job in an appliance's answer that a tree decides.
const TOLD: [&str; 3] = ["name", "fan_in", "members"];
/// The keys of a job that hold for its packets between appliances as well.
const SEALED: [&str; 2] = ["security", "key_file"];

impl Core {
    /// An appliance has answered.
    pub(super) fn note_answer(&mut self, ask: &Ask, status: u16, body: &Value, now: Duration) {
        let at = ask.appliance;
        let name = self.network.appliances[at].name.clone();
        let seen = &mut self.seen[at];
        seen.heard = now;
        let before = core::mem::replace(&mut seen.health, Health::Up);
        self.unsettled |= before != Health::Up;
        if before == Health::Down {
            self.moved(now, format!("appliance {name} answers again"));
        }
        let done = (200..300).contains(&status);
        match ask.purpose {
            Purpose::Look if done => {
                self.seen[at].problem = None;
                self.looked(at, body);
            }
            Purpose::Load if done => self.loaded(at, body, now),
            Purpose::Read(job) if done => self.read(at, job, body, now),
            Purpose::Create(job) | Purpose::Change(job) if done => {
                self.remember(&name, job, ask.body.as_ref().map(without_null));
                self.moved(now, format!("job {job}: appliance {name} got its part"));
                self.again(at, now);
            }
            Purpose::Remove(job) if done || status == 404 => {
                self.remember(&name, job, None);
                self.moved(now, format!("job {job}: removed from appliance {name}"));
            }
            // Gone since the list was made: the next check sees it.
            Purpose::Read(_) if status == 404 => self.again(at, now),
            _ => {
                let said = |key: &str| body[key].as_str().unwrap_or("?").to_owned();
                let path = &ask.path;
                self.seen[at].problem =
                    Some(format!("{path}: status {status}: {}; {}", said("error"), said("remedy")));
            }
        }
    }

    fn remember(&mut self, name: &str, job: u16, body: Option<Value>) {
        if !self.leadership.leads() {
            return;
        }
        let key = (name.to_owned(), job);
        match &body {
            Some(body) => drop(self.pushed.insert(key, body.clone())),
            None => drop(self.pushed.remove(&key)),
        }
        self.notes.push(Note::Pushed(name.to_owned(), job, body));
    }

    /// Checks an appliance at once.
    pub(super) fn again(&mut self, at: usize, now: Duration) {
        self.seen[at].look_at = self.seen[at].look_at.min(now);
    }

    /// The jobs that an appliance has: missing ones are made, those without a part removed.
    fn looked(&mut self, at: usize, body: &Value) {
        let name = self.network.appliances[at].name.clone();
        // Jobs formed by workers have no terms to change: they are made, like missing ones.
        let ids = body["jobs"].as_array().into_iter().flatten().filter(|job| job["origin"] != "formed");
        let there: BTreeSet<u16> =
            ids.filter_map(|job| job["id"].as_u64().and_then(|id| u16::try_from(id).ok())).collect();
        let wanted: BTreeSet<u16> =
            self.trees.iter().filter(|(_, tree)| tree.part(&name).is_some()).map(|(id, _)| *id).collect();
        let ours = self.pushed.keys().filter(|(appliance, _)| *appliance == name).map(|(_, job)| *job);
        let leads = self.leadership.leads();
        // Jobs that no controller has pushed are left alone.
        let over: Vec<u16> = ours.filter(|job| !wanted.contains(job)).collect();
        let mut queue = vec![Ask::get(at, "/api/v1/status".to_owned(), Purpose::Load)];
        for &job in &wanted {
            if there.contains(&job) {
                queue.push(Ask::get(at, format!("/api/v1/jobs/{job}"), Purpose::Read(job)));
            } else if leads && let Some(body) = self.body(&name, job) {
                let (path, purpose) = ("/api/v1/jobs".to_owned(), Purpose::Create(job));
                queue.push(Ask { appliance: at, method: Method::Post, path, body: Some(body), purpose });
            }
        }
        for job in over {
            if there.contains(&job) && leads {
                let (method, path) = (Method::Delete, format!("/api/v1/jobs/{job}"));
                queue.push(Ask { appliance: at, method, path, body: None, purpose: Purpose::Remove(job) });
            } else {
                self.remember(&name, job, None);
            }
        }
        let seen = &mut self.seen[at];
        seen.in_force.retain(|job, _| wanted.contains(job) && there.contains(job));
        seen.queue = queue.into();
    }

    fn loaded(&mut self, at: usize, body: &Value, now: Duration) {
        let Some(packets) = body["packets"]["received"].as_u64() else { return };
        let seen = &mut self.seen[at];
        if let Some((then, before)) = seen.packets
            && now > then
        {
            // Fewer than before: it was restarted.
            seen.rate = packets.saturating_sub(before) as f64 / (now - then).as_secs_f64();
        }
        seen.packets = Some((now, packets));
    }

    /// A job in an appliance's answer.
    fn read(&mut self, at: usize, job: u16, found: &Value, now: Duration) {
        let name = self.network.appliances[at].name.clone();
        let told = self.pushed.get(&(name.clone(), job)).map(without_null);
        let leads = self.leadership.leads();
        let wanted = if leads { self.body(&name, job) } else { self.as_pushed(&name, job, told.as_ref()) };
        let as_it_was_told = |wanted| !leads || told.as_ref().is_none_or(|told| told == wanted);
        let fits = |wanted| !differs(wanted, &found["terms"]) && as_it_was_told(wanted);
        if !wanted.as_ref().is_some_and(fits) {
            self.seen[at].in_force.remove(&job);
            if let Some(wanted) = wanted.filter(|_| leads) {
                let body = change(wanted, told.as_ref());
                let (method, path, body) = (Method::Patch, format!("/api/v1/jobs/{job}"), Some(body));
                let purpose = Purpose::Change(job);
                self.seen[at].queue.push_back(Ask { appliance: at, method, path, body, purpose });
            }
            return;
        }
        if told.is_none() {
            // As configured, though there is no record of it.
            self.remember(&name, job, wanted);
        }
        let state = found["state"].as_str().unwrap_or("?").to_owned();
        let joined = found["joined"].as_u64().unwrap_or(0);
        self.seen[at].in_force.insert(job, (state, joined));
        self.gathered(&name, job, joined, now);
    }

    /// An appliance's job if it equals the pushed part and the present tree. A follower uses this: its own
    /// file may have other ranks and terms than the one that the tree was made for.
    fn as_pushed(&self, appliance: &str, number: u16, told: Option<&Value>) -> Option<Value> {
        let (tree, mut told) = (self.trees.get(&number)?, told?.as_object()?.clone());
        let node = tree.part(appliance)?;
        told.insert("fan_in".to_owned(), json!(tree.fan_in(node)));
        told.insert("parent".to_owned(), self.parent(tree, node, appliance).unwrap_or_default());
        Some(Value::Object(told))
    }

    /// The part of a job that the leader pushes to an appliance.
    pub(super) fn body(&self, appliance: &str, number: u16) -> Option<Value> {
        let (job, tree) = (self.job(number)?, self.trees.get(&number)?);
        let node = tree.part(appliance)?;
        let mut body = job.terms.clone();
        let kind = job.terms.get("kind").and_then(Value::as_str).unwrap_or("shared");
        let foreign = kind == "switchml";
        // A running appliance has no region left for it, and a sum that a server completes would not go up.
        if kind == "shared" {
            body.insert("kind".to_owned(), json!(kind));
            if let Some(shared) = body.entry("shared").or_insert_with(|| json!({})).as_object_mut() {
                shared.entry("server").or_insert(json!(false));
            }
        }
        body.insert("id".to_owned(), json!(number));
        body.insert("name".to_owned(), json!(job.tree_name(number)));
        body.insert("fan_in".to_owned(), json!(tree.fan_in(node)));
        // A rank that does not join a backup may be alive where the part was before.
        if !foreign && (appliance != node.appliance || node.gathering) {
            body.insert("dead_after".to_owned(), json!("0s"));
        }
        // Not for jobs that appliances also join: a new holder of a part joins from another address, and a
        // parent whose job changes ends running operations.
        if !foreign && tree.children(&node.appliance).next().is_none() {
            let hosts = node.ranks.iter().filter_map(|&rank| self.host_of(number, rank));
            let members = hosts.map(|host| self.network.hosts[host].address.to_string());
            body.insert("members".to_owned(), members.collect());
        }
        if let Some(mut parent) = self.parent(tree, node, appliance) {
            // Any of its appliances may be above any other, so all have one key.
            for key in SEALED {
                job.terms.get(key).into_iter().for_each(|value| parent[key] = value.clone());
            }
            body.insert("parent".to_owned(), parent);
        }
        Some(Value::Object(body))
    }

    /// The parent of a part, as pushed to the holder of the part; with that parent's backups.
    fn parent(&self, tree: &Tree, node: &Node, appliance: &str) -> Option<Value> {
        let above = tree.node(node.parent.as_deref()?)?;
        let (own, up) = (self.network.named(appliance)?, self.network.named(&above.appliance)?);
        let way = |to: &Appliance| own.router.as_ref().or(to.mac.as_ref()).cloned();
        let mut parent = Map::new();
        parent.insert("address".to_owned(), json!(up.address.to_string()));
        parent.insert("rank".to_owned(), json!(tree.rank_above(node)?));
        parent.insert("ranks".to_owned(), json!(tree.fan_in(above)));
        parent.insert("mac".to_owned(), json!(way(up)?));
        parent.insert("from".to_owned(), json!(own.address.ip().to_string()));
        if let Some(port) = &own.port {
            parent.insert("port".to_owned(), json!(port));
        }
        let backup = |name: &String| {
            let backup = self.network.named(name)?;
            Some(json!({ "address": backup.address.to_string(), "mac": way(backup)? }))
        };
        let backups: Vec<Value> = above.backups.iter().filter_map(backup).collect();
        if !backups.is_empty() {
            parent.insert("backups".to_owned(), json!(backups));
        }
        Some(Value::Object(parent))
    }
}

/// Whether a job at an appliance differs from the wanted one.
fn differs(wanted: &Value, found: &Value) -> bool {
    let parent = |of: &Value| of.get("parent").filter(|parent| !parent.is_null()).cloned();
    // An appliance answers with addresses only.
    let address = |backup: &Value| backup.get("address").unwrap_or(backup).clone();
    let place = |of: &Value| {
        let parent = parent(of)?;
        let backups = parent["backups"].as_array().into_iter().flatten().map(address);
        Some((["address", "rank", "ranks"].map(|key| parent[key].clone()), backups.collect::<Vec<_>>()))
    };
    let told = |of: &Value, key: &str| of.get(key).cloned().unwrap_or_default();
    TOLD.iter().any(|key| told(wanted, key) != told(found, key)) || place(wanted) != place(found)
}

/// The change that gives an appliance the wanted job: it is merged (RFC 7396), so removed keys are null. A
/// key of a job is removed only if a controller pushed it; `parent` and its keys in any case, since a tree
/// decides all of them.
fn change(mut wanted: Value, told: Option<&Value>) -> Value {
    withdraw(&mut wanted, told);
    clear(&mut wanted, ["parent", "members"].into_iter());
    if wanted["parent"].is_object() {
        clear(&mut wanted["parent"], ["port", "backups", "via"].into_iter().chain(SEALED));
    }
    wanted
}

/// Makes null the keys that were pushed once and are gone since, in tables of kinds as well.
fn withdraw(wanted: &mut Value, told: Option<&Value>) {
    for (key, told) in told.and_then(Value::as_object).into_iter().flatten() {
        match wanted.get_mut(key) {
            Some(table) if table.is_object() => withdraw(table, Some(told)),
            Some(_) => {}
            None => wanted[key.as_str()] = Value::Null,
        }
    }
}

fn clear<'a>(of: &mut Value, keys: impl Iterator<Item = &'a str>) {
    for key in keys {
        if of.get(key).is_none() {
            of[key] = Value::Null;
        }
    }
}

/// A change without the removed keys.
fn without_null(body: &Value) -> Value {
    let Value::Object(keys) = body else { return body.clone() };
    let kept = keys.iter().filter(|(_, value)| !value.is_null());
    kept.map(|(key, value)| (key.clone(), without_null(value))).collect()
}
