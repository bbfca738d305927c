//! Arguments that clap does not know.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use pascaline_wire::{CongestionControl, DType};
use pascaline_worker::{Addresses, Appliances};

/// Element types by their names.
pub(super) fn dtypes() -> impl TypedValueParser<Value = DType> {
    let known = |name: String| DType::from_name(&name).ok_or("no such type");
    PossibleValuesParser::new(DType::ALL.map(DType::name)).try_map(known)
}

/// Congestion controls by their names.
pub fn controls() -> impl TypedValueParser<Value = CongestionControl> {
    let known = |name: String| CongestionControl::from_name(&name).ok_or("no such control");
    PossibleValuesParser::new(CongestionControl::ALL.map(CongestionControl::name)).try_map(known)
}

/// The appliance, those that stand in for it, and those of further trees: `A,B;C,D`.
///
/// # Errors
/// As [`appliance`].
pub(super) fn appliances(list: &str) -> anyhow::Result<Appliances> {
    Appliances::read(list, appliance)
}

/// The one appliance of a command whose workers cannot turn to another.
///
/// # Errors
/// As [`appliance`], and where there are several.
pub(super) fn only_appliance(list: &str, what: &str) -> anyhow::Result<Addresses> {
    if list.contains([',', ';']) {
        bail!("--appliance {list}: {what} has no backups and no further trees\n  remedy: give one address");
    }
    appliance(list)
}

pub(super) fn appliance(name: &str) -> anyhow::Result<Addresses> {
    if name.contains('%') {
        bail!("--appliance {name}: an address with a zone, {NO_ZONE}");
    }
    let mut found = found(name)?;
    if found.iter().any(|address| address.port() == 0) {
        bail!("--appliance {name}: no appliance has UDP port 0\n  remedy: give its `udp_port`, or no port");
    }
    let found_any = !found.is_empty();
    found.retain(|address| !matches!(address.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local()));
    match Addresses::of(found) {
        None if found_any => bail!("--appliance {name}: a link-local address, {NO_ZONE}"),
        found => found.with_context(|| format!("--appliance {name}: the name has no address")),
    }
}

/// An appliance has no such address: `pascaline check` says the same.
const NO_ZONE: &str =
    "which no appliance has\n  remedy: give its unique local or global address, e.g. fd77::254";

/// All addresses of a name, or the one that it is.
fn found(name: &str) -> anyhow::Result<Vec<SocketAddr>> {
    let port = pascaline_wire::DEFAULT_PORT;
    // As it stands before a port.
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let with_port = || (name, port).to_socket_addrs();
    let found = name.to_socket_addrs().or_else(|_| with_port());
    let found =
        found.with_context(|| format!("--appliance {name}: not an address, and no host of this name"));
    Ok(found?.collect())
}

pub(super) fn bind(text: &str) -> Result<SocketAddr, String> {
    let with_any_port = || text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 0));
    text.parse().or_else(|_| with_any_port()).map_err(|_| "expected ADDR or ADDR:PORT".to_owned())
}

/// A whole number with a unit. The crate bytesize saturates where this tells that a number is too large.
///
/// # Errors
/// No number, no such unit, or too large.
pub fn size(text: &str) -> Result<usize, String> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = unit.trim();
    let factor: usize = match unit.strip_suffix('B').unwrap_or(unit) {
        "" => 1,
        "k" | "K" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return Err(format!("unknown unit {unit:?}: use k, M, G, Ki, Mi or Gi, with or without B")),
    };
    let number: usize =
        number.parse().map_err(|_| "expected a whole number, such as 4096 or 16MiB".to_owned())?;
    number.checked_mul(factor).ok_or_else(|| "too large".to_owned())
}

pub(super) fn count(text: &str) -> Result<NonZeroUsize, String> {
    NonZeroUsize::new(size(text)?).ok_or_else(|| "at least 1".to_owned())
}

/// A time with a unit, above 0.
pub(super) fn some_time(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.is_zero() { Err("more than 0".to_owned()) } else { Ok(time) }
}

/// A time with a unit.
///
/// # Errors
/// No number with a unit, such as 30s.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; such as 30s, 500ms or 2m"))
}
