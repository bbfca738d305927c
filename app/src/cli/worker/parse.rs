//! Arguments that clap does not know.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::Context as _;

pub(super) fn appliance(name: &str) -> anyhow::Result<SocketAddr> {
    let port = pascaline_wire::DEFAULT_PORT;
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, port));
    }
    let with_port = || (name, port).to_socket_addrs();
    let mut addresses = name
        .to_socket_addrs()
        .or_else(|_| with_port())
        .with_context(|| format!("--appliance {name}: not an address, and no host of this name"))?;
    addresses.next().with_context(|| format!("--appliance {name}: the name has no address"))
}

pub(super) fn bind(text: &str) -> Result<SocketAddr, String> {
    let with_any_port = || text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 0));
    text.parse().or_else(|_| with_any_port()).map_err(|_| "expected ADDR or ADDR:PORT".to_owned())
}

/// Splits a number from its unit.
fn number_and_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim())
}

pub(super) fn size(text: &str) -> Result<usize, String> {
    let (number, unit) = number_and_unit(text);
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

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = number_and_unit(text);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        _ => return Err("expected a number with a unit: us, ms, s or m, such as 30s".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| "expected a number, such as 30s".to_owned())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}
