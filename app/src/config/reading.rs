//! What the reader of TOML objects to, in the words of the configuration.

use super::Place;
use super::convert::GONE;

/// Tables that every configuration has, and what belongs there.
const TABLES: [(&str, &str, &str); 3] = [
    ("appliance", "[appliance]", "addresses"),
    ("dataplane", "[dataplane]", "main_core and cores"),
    ("ports", "[[ports]]", "name and device"),
];

/// Keys that must be there, as they may look.
const KEYS: [(&str, &str); 8] = [
    ("addresses", "[\"10.77.0.254\"]"),
    ("main_core", "0"),
    ("cores", "[1]"),
    ("name", "\"p0\""),
    ("device", "\"net_af_packet0,iface=veth0\""),
    ("id", "1"),
    ("fan_in", "4"),
    ("listen", "\"unix:/run/pascaline/admin.sock\""),
];

/// The types of this program, in words.
const TYPES: [(&str, &str); 10] = [
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("usize", "a whole number, 0 or more"),
    ("f64", "a number with a decimal point, e.g. 0.5"),
    ("a boolean", "true or false"),
    ("a string", "a text in quotes"),
    ("a sequence", "a list in brackets"),
    ("a spanned value", "a table"),
    ("a borrowed string", "a text in quotes"),
    ("struct", "a table"),
];

/// An objection: place, what is wrong, what to do.
pub(super) fn told(text: &str, error: &toml::de::Error) -> (Option<Place>, String, String) {
    let message = error.message().replace('\n', " ");
    let place = error.span().map(|span| Place::of(text, span.start));
    let remedy = "correct the key or value; conf/appliance.toml lists every key".to_owned();
    let missing = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    if let Some(key) = missing {
        if let Some((_, table, keys)) = TABLES.iter().find(|(name, ..)| *name == key) {
            let end = Place::of(text, text.trim_end().len());
            let remedy = format!("add it, e.g. at the end, with {keys}");
            return (Some(end), format!("there is no table {table}"), remedy);
        }
        let example = KEYS.iter().find(|(name, _)| *name == key).map_or("…", |(_, example)| example);
        return (place, format!("this table lacks the key {key}"), format!("add e.g. {key} = {example}"));
    }
    // Tables of jobs alone have all of these.
    let of_job = message.contains("`fan_in`") && message.contains("`max_ranks_per_host`");
    let unknown = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
    let gone = unknown.filter(|_| of_job).and_then(|key| GONE.iter().find(|(gone, _)| *gone == key));
    if let Some((key, today)) = gone {
        let remedy =
            format!("write {today}. `pascaline check --convert FILE` prints the whole file in today's words");
        return (place, format!("{key} stands in the table of a job's kind, or is gone"), remedy);
    }
    if let Some((said, wanted)) = message.rsplit_once("expected ")
        && let Some((_, words)) = TYPES.iter().find(|(name, _)| wanted.starts_with(name))
    {
        let said = said.trim_end_matches([',', ' ']);
        let said = said.replace("invalid type: ", "").replace("invalid value: ", "");
        let key = error.span().and_then(|span| key(text, span.start)).map(|key| format!("{key}: "));
        let said = format!("{}{said} cannot stand here", key.unwrap_or_default());
        return (place, said, format!("write {words}"));
    }
    (place, message, remedy)
}

/// The key whose value begins here, as far as it is on the same line.
fn key(text: &str, value: usize) -> Option<&str> {
    let before = text.get(..value)?.rsplit('\n').next()?;
    before.split_once('=').map(|(key, _)| key.trim())
}
