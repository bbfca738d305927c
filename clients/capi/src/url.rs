//! Where to join, as what: `pascaline://appliance:16420?job=1&rank=0&ranks=4`. Backups follow a comma, the
//! appliances of further trees a semicolon.

use core::fmt::Display;
use core::str::FromStr;
use core::time::Duration;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Instant;

use pascaline_wire::DType;
use pascaline_worker::masked::Key;
use pascaline_worker::{Addresses, Appliances, Config, CongestionControl, Narrow, Protection, Seals};

use crate::handle::thread;
use crate::status::{Fault, pascaline_status as Status};
use crate::tensor::narrow;

const SCHEME: &str = "pascaline://";
const EXAMPLE: &str = "pascaline://appliance:16420?job=1&rank=0&ranks=4";
const KEYS: &str = "job, rank, ranks, payload, in_flight, congestion, spread, udp_ports, dscp, bind, \
                    timeout, join_timeout, linger, silence, partial, wire, security, key";
const THREADS_GONE: &str =
    "threads is gone: one thread serves all trees of a worker; leave it out (a stream has its own)";

/// What a URL says.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) config: Config,
    /// The type in which sums of `float` travel, if another one.
    pub(crate) wire: Option<Narrow>,
    /// What hides tensors from the appliance, if anything does.
    pub(crate) key: Option<Key>,
}

/// What a URL says, for this many streams. Asks DNS if the host is a name: that time counts as part of
/// joining.
pub(crate) fn config(url: &str, streams: u16) -> Result<Told, Fault> {
    let begun = Instant::now();
    let rest = url.strip_prefix(SCHEME).ok_or_else(|| wrong(format_args!("it begins with {SCHEME}")))?;
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let pairs = pairs(query)?;
    let required = |key: &str| -> Result<u16, Fault> {
        let found = pairs.iter().find(|(name, _)| *name == key);
        number(key, found.ok_or_else(|| wrong(format_args!("{key} is missing")))?.1)
    };
    let (job, rank, ranks) = (required("job")?, required("rank")?, required("ranks")?);
    // The name last, after all checks that need no DNS.
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let mut config = Config { accept_partial: false, ..Config::new(nowhere, job, rank, ranks) };
    for (key, value) in &pairs {
        set(&mut config, key, value)?;
    }
    // In any order: `timeout` is for both.
    if let Some((key, value)) = pairs.iter().find(|(key, _)| *key == "join_timeout") {
        config.join_deadline = time(key, value)?;
    }
    let wire = pairs.iter().find(|(key, _)| *key == "wire").map_or(Ok(None), |(_, value)| wire(value))?;
    let security = security(&pairs)?;
    let key = match security {
        Security::Masked(file) => Some(Key::read(file).map_err(wrong)?),
        Security::None | Security::Sealed(..) => None,
    };
    if key.is_some() && wire.is_some() {
        return Err(wrong(NO_WIRE));
    }
    if let Security::Sealed(protection, file) = security {
        let trees = 1 + place.matches(';').count();
        let jobs = trees * usize::from(streams);
        config.seals = Some(Seals::read(file, (job, rank), jobs, protection).map_err(wrong)?);
    }
    let left = config.join_deadline;
    let left = || left.saturating_sub(begun.elapsed());
    let resolve = |place: &str| address(place, left());
    let mut config = config.among(Appliances::read(place.strip_suffix('/').unwrap_or(place), resolve)?);
    config.check().map_err(|error| Fault::new(Status::PASCALINE_ERR_URL, error))?;
    config.join_deadline = left();
    Ok(Told { config, wire, key })
}

/// The keys with their values, each once.
fn pairs(query: &str) -> Result<Vec<(&str, &str)>, Fault> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| wrong(format_args!("{pair:?} is no key=value")))?;
        if pairs.iter().any(|(other, _)| *other == key) {
            return Err(wrong(format_args!("{key} is there twice")));
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}

fn set(config: &mut Config, key: &str, value: &str) -> Result<(), Fault> {
    match key {
        // Read before all others, or after them.
        "job" | "rank" | "ranks" | "join_timeout" | "wire" | "security" | "key" => {}
        "payload" => config.payload = number(key, value)?,
        "in_flight" => config.in_flight = number(key, value)?,
        "congestion" => {
            let control = CongestionControl::from_name(value);
            let names = CongestionControl::ALL.map(CongestionControl::name).join(", ");
            config.congestion = Some(
                control.ok_or_else(|| wrong(format_args!("congestion={value}: expected one of {names}")))?,
            );
        }
        "spread" => config.spread = number(key, value)?,
        "udp_ports" => config.udp_ports = number(key, value)?,
        "dscp" => config.dscp = number(key, value)?,
        "bind" => {
            let bare = value.trim_start_matches('[').trim_end_matches(']');
            let any_port = || bare.parse::<IpAddr>().map(|address| SocketAddr::new(address, 0));
            let bind = value.parse().or_else(|_| any_port());
            config.bind = Some(bind.map_err(|_| wrong(format_args!("bind={value}: expected an address")))?);
        }
        "timeout" => {
            config.deadline = time(key, value)?;
            config.join_deadline = config.deadline;
        }
        "silence" => config.silence = time(key, value)?,
        "linger" => config.linger = time(key, value)?,
        "partial" => {
            config.accept_partial = match value {
                "0" => false,
                "1" => true,
                _ => return Err(wrong(format_args!("partial={value}: expected 0 or 1"))),
            }
        }
        "threads" => return Err(wrong(THREADS_GONE)),
        _ => return Err(wrong(format_args!("{key:?} is no key; keys are {KEYS}"))),
    }
    Ok(())
}

/// The place before the question mark: `host`, `host:port`, `[IPv6]`, `[IPv6]:port`.
fn address(place: &str, deadline: Duration) -> Result<Addresses, Fault> {
    let (host, port) = match place.strip_prefix('[') {
        Some(literal) => {
            let (host, rest) = literal.split_once(']').ok_or_else(|| wrong("the ] is missing"))?;
            let port = match rest {
                "" => None,
                _ => Some(rest.strip_prefix(':').ok_or_else(|| wrong("behind the ] comes :port"))?),
            };
            (host, port)
        }
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err(wrong("the appliance's address is missing"));
    }
    let port = port.map_or(Ok(pascaline_wire::DEFAULT_PORT), |port| match number("the port", port)? {
        0 => Err(wrong("the port is 0")),
        port => Ok(port),
    })?;
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, port).into());
    }
    let unknown = |why: &dyn Display| {
        let text = format_args!("{host}: not an address, and no host of this name: {why}");
        Fault::new(Status::PASCALINE_ERR_RESOLVE, text)
    };
    let name = host.to_owned();
    let found = within(deadline, move || (name.as_str(), port).to_socket_addrs())?;
    let late = || unknown(&"no answer before the deadline of joining");
    let found = found.ok_or_else(late)?.map_err(|error| unknown(&error))?;
    Addresses::of(found).ok_or_else(|| unknown(&"the name has no address"))
}

/// The result of a slow function, if it ends in time; its thread may continue.
fn within<T: Send + 'static>(
    deadline: Duration,
    slow: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Fault> {
    let (done, ended) = channel();
    // The caller may have given up.
    thread("pascaline-dns", move || drop(done.send(slow())))?;
    Ok(ended.recv_timeout(deadline).ok())
}

fn wire(value: &str) -> Result<Option<Narrow>, Fault> {
    let unknown = || wrong(format_args!("wire={value}: expected f32, f16, bf16, mxfp8 or mxint8"));
    narrow(DType::from_name(value).ok_or_else(unknown)?).map_err(|_| unknown())
}

/// Why the two do not go together.
pub(crate) const NO_WIRE: &str = "wire does not go with security=masked, which sends words of 32 bits";

/// What protects tensors, and the file of its key.
#[derive(Clone, Copy)]
enum Security<'a> {
    None,
    Masked(&'a Path),
    Sealed(Protection, &'a Path),
}

fn security<'a>(pairs: &[(&str, &'a str)]) -> Result<Security<'a>, Fault> {
    let find = |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    let (name, file) = (find("security").unwrap_or("none"), find("key").map(Path::new));
    match (name, Protection::from_name(name), file) {
        ("none", _, None) => Ok(Security::None),
        ("none", _, Some(_)) => Err(wrong("key goes with security=masked, mac or encrypt")),
        ("masked", _, Some(file)) => Ok(Security::Masked(file)),
        (_, Some(protection), Some(file)) => Ok(Security::Sealed(protection, file)),
        ("masked", ..) | (_, Some(_), None) => {
            Err(wrong(format_args!("security={name} takes key=FILE, which all ranks have")))
        }
        _ => Err(wrong(format_args!("security={name}: expected none, masked, mac or encrypt"))),
    }
}

fn number<T: FromStr<Err: Display>>(key: &str, value: &str) -> Result<T, Fault> {
    value.parse().map_err(|error| wrong(format_args!("{key}={value}: {error}")))
}

/// With a unit (`500ms`), or in seconds.
fn time(key: &str, value: &str) -> Result<Duration, Fault> {
    if let Ok(seconds) = value.parse::<u32>() {
        return Ok(Duration::from_secs(seconds.into()));
    }
    humantime::parse_duration(value).map_err(|error| wrong(format_args!("{key}={value}: {error}")))
}

fn wrong(why: impl Display) -> Fault {
    Fault::new(Status::PASCALINE_ERR_URL, format_args!("the URL is not understood: {why} (e.g. {EXAMPLE})"))
}

#[cfg(test)]
mod tests;
