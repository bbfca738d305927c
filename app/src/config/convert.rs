//! Files whose jobs were described before there were kinds, in today's words.
//!
//! Until then a job had a `profile`, an `addressing` and single keys that override them; where nothing said
//! which, jobs had regions as long as there was room for all of them. Comments and order of a file stay.

use toml_edit::{DocumentMut, Item, Key, Table, TableLike, TomlError, Value};

/// Keys of jobs that are in a kind's table now, or gone: with what to write.
pub(super) const GONE: [(&str, &str); 14] = [
    ("profile", "kind = \"dsa\", \"atp\", \"iswitch\" or \"panama\"; \"switchml\" is kind = \"region\""),
    ("addressing", "kind = \"region\" or kind = \"shared\" with its table [jobs.shared]"),
    ("region_slots", "slots in the table of the job's kind, [jobs.region] or [jobs.early]"),
    ("conflict", "kind = \"shared\", and conflict in [jobs.shared]"),
    ("order", "order in the table of the job's kind, [jobs.region] or [jobs.shared]"),
    ("quota", "kind = \"shared\", and quota in [jobs.shared]"),
    ("server", "kind = \"shared\", and server in [jobs.shared]"),
    ("threshold", "kind = \"early\", and threshold in [jobs.early]"),
    ("partial_after", "kind = \"early\", and partial_after in [jobs.early]"),
    ("mode", "kind = \"updates\" for what was mode = \"olaf\"; leave \"sync\" out"),
    ("parameters", "kind = \"updates\", and parameters in [jobs.updates]"),
    ("protocol", "kind = \"switchml\" with its table [jobs.switchml]"),
    ("controller", "kind = \"switchml\", and controller in [jobs.switchml]"),
    ("udp_port", "kind = \"switchml\", and udp_port in [jobs.switchml]"),
];

/// The keys that a job had, with their comments.
struct Old(Vec<(Key, Item)>);

impl Old {
    fn take(job: &mut dyn TableLike) -> Self {
        Self(GONE.iter().filter_map(|(key, _)| taken(job, key)).collect())
    }

    fn get(&self, key: &str) -> Option<&Item> {
        self.0.iter().find(|(old, _)| old.get() == key).map(|(_, item)| item)
    }

    fn word(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    fn is(&self, key: &str, word: &str) -> bool {
        self.word(key) == Some(word)
    }

    fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The table of a kind, of these keys, by their old names and their new ones.
    fn table(mut self, keys: &[(&str, &str)]) -> Table {
        let mut table = Table::new();
        for (old, new) in keys {
            if let Some(at) = self.0.iter().position(|(key, _)| key.get() == *old) {
                let (key, item) = self.0.swap_remove(at);
                let renamed = Key::new(*new).with_leaf_decor(key.leaf_decor().clone());
                table.insert_formatted(&renamed, item);
            }
        }
        table
    }
}

fn taken(job: &mut dyn TableLike, key: &str) -> Option<(Key, Item)> {
    let decor = job.key(key)?.clone();
    Some((decor, job.remove(key)?))
}

/// The text of a file in today's words.
///
/// # Errors
/// It is no TOML.
pub(crate) fn converted(text: &str) -> Result<String, TomlError> {
    let mut file: DocumentMut = text.parse()?;
    let servers = file.get("ps").and_then(|ps| ps.get("mode")).and_then(Item::as_str) != Some("none");
    let room = has_room(&file);
    match file.get_mut("jobs") {
        Some(Item::ArrayOfTables(jobs)) => jobs.iter_mut().for_each(|job| convert(job, room, servers)),
        Some(Item::Value(Value::Array(jobs))) => {
            let tables = jobs.iter_mut().filter_map(Value::as_inline_table_mut);
            tables.for_each(|job| convert(job, room, servers));
        }
        _ => {}
    }
    Ok(file.to_string())
}

fn convert(job: &mut dyn TableLike, room: bool, servers: bool) {
    let old = Old::take(job);
    let (kind, tag, table) = kind(old, job.contains_key("parent"), room, servers);
    if let Some(kind) = kind {
        job.insert("kind", toml_edit::value(kind));
    }
    if !table.is_empty() {
        job.insert(tag, Item::Table(table));
    }
}

/// What stands for a kind, its table's name and its table.
fn kind(old: Old, parent: bool, room: bool, servers: bool) -> (Option<&'static str>, &'static str, Table) {
    if old.is("protocol", "switchml") {
        let keys = [("controller", "controller"), ("udp_port", "udp_port"), ("region_slots", "slots")];
        return (Some("switchml"), "switchml", old.table(&keys));
    }
    if old.is("mode", "olaf") {
        return (Some("updates"), "updates", old.table(&[("parameters", "parameters")]));
    }
    let partial = old.has("threshold") || old.has("partial_after");
    let profile =
        ["dsa", "atp", "switchml", "iswitch", "panama"].into_iter().find(|name| old.is("profile", name));
    let region = has_region(old.word("addressing"), profile, |key| old.has(key) || key == "parent" && parent);
    let server = old.get("server").and_then(Item::as_bool);
    // Who asks for a server by name has it.
    if !region.unwrap_or(room && server != Some(true)) {
        return shared(old, profile, server.unwrap_or(servers));
    }
    let papers = profile.filter(|name| matches!(*name, "iswitch" | "panama"));
    let possible = server != Some(true) && !old.is("order", "rank");
    if partial || papers.is_some() && possible {
        let keys =
            [("region_slots", "slots"), ("threshold", "threshold"), ("partial_after", "partial_after")];
        return (papers.or(Some("early")), "early", old.table(&keys));
    }
    let table = old.table(&[("region_slots", "slots"), ("order", "order")]);
    (region.map(|_| "region"), "region", table)
}

/// A job that shared the pool.
fn shared(
    mut old: Old,
    profile: Option<&'static str>,
    server: bool,
) -> (Option<&'static str>, &'static str, Table) {
    let plain = !["conflict", "order", "quota", "server"].iter().any(|key| old.has(key));
    if let (Some(profile @ ("dsa" | "atp")), true) = (profile, plain) {
        return (Some(profile), "shared", Table::new());
    }
    if plain && server && profile.is_none() {
        return (Some("dsa"), "shared", Table::new());
    }
    // What a profile or its lack made of the conflicts is written down.
    let conflict = match profile {
        Some("dsa") => "preempt",
        None if server => "preempt",
        Some(_) | None => "first-come",
    };
    if !old.has("conflict") {
        old.0.push((Key::new("conflict"), toml_edit::value(conflict)));
    }
    if !old.has("server") && (!server || profile.is_some_and(|name| !matches!(name, "dsa" | "atp"))) {
        old.0.push((Key::new("server"), toml_edit::value(false)));
    }
    (Some("shared"), "shared", old.table(&["conflict", "server", "order", "quota"].map(|key| (key, key))))
}

/// Whether the keys of a job gave it a region; nothing if they left that open.
fn has_region(addressing: Option<&str>, profile: Option<&str>, has: impl Fn(&str) -> bool) -> Option<bool> {
    let implied = || ["region_slots", "threshold", "partial_after", "parent"].into_iter().any(&has);
    let of_profile = profile.map(|profile| !matches!(profile, "dsa" | "atp"));
    let of_keys = || if implied() { Some(true) } else { has("conflict").then_some(false) };
    addressing.map(|word| word == "region").or(of_profile).or_else(of_keys)
}

/// Whether there was room for the regions of all jobs that left their place open, with half of the pool for
/// those that share it, if any did.
fn has_room(file: &DocumentMut) -> bool {
    let pool = |key: &str, default: i64| {
        file.get("pool").and_then(|pool| pool.get(key)).and_then(Item::as_integer).unwrap_or(default)
    };
    let (slots, ways) = (pool("slots", 4096), pool("ways", 4).max(1));
    let mut left = slots;
    let mut shared = file.contains_key("admission");
    let tables = file.get("jobs").and_then(Item::as_array_of_tables);
    for job in tables.iter().flat_map(|jobs| jobs.iter()) {
        let number = |key: &str| job.get(key).and_then(Item::as_integer);
        let word = |key: &str| job.get(key).and_then(Item::as_str);
        let foreign = word("protocol") == Some("switchml");
        if word("mode") == Some("olaf") {
            continue;
        }
        if !foreign
            && has_region(word("addressing"), word("profile"), |key| job.contains_key(key)) == Some(false)
        {
            shared = true;
            continue;
        }
        let ranks = number("fan_in").unwrap_or(1).max(1);
        let window = number("window").unwrap_or_else(|| (32_768 / ranks).min(512)).max(1);
        let sets = if foreign { ways } else { 2 };
        left -= number("region_slots").unwrap_or_else(|| (sets * next_power(window)).max(ways));
    }
    left >= if shared { slots / 2 } else { 0 }
}

fn next_power(number: i64) -> i64 {
    u32::try_from(number).ok().and_then(u32::checked_next_power_of_two).map_or(i64::MAX / 8, i64::from)
}

#[cfg(test)]
mod tests;
