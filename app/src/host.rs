//! A machine as its files show it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What ports on interfaces of the kernel need: their MTU and promiscuous mode, and raw sockets.
const FOR_INTERFACES: [(&str, u32); 2] = [("CAP_NET_ADMIN", 12), ("CAP_NET_RAW", 13)];

/// How to come by what ports on network interfaces need.
pub(crate) const RIGHTS: &str = "run the appliance by its systemd unit or with sudo; in a container, with \
    --cap-add NET_ADMIN,NET_RAW";

/// The machine whose files lie below a directory.
///
/// Paths are given without the leading slash. What cannot be read is absent: no caller could do more about it
/// than say so.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    root: PathBuf,
}

impl Host {
    /// The machine below this directory.
    pub(crate) fn below(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// A file's text without white space around it.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = fs::read(self.root.join(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// A file that holds one number.
    pub(crate) fn number<T: std::str::FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Names in a directory, sorted; empty if there is none.
    pub(crate) fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Whether there is such a file or directory.
    pub(crate) fn has(&self, path: impl AsRef<Path>) -> bool {
        self.root.join(path).exists()
    }

    /// Where a symbolic link points, as it is written.
    pub(crate) fn link(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        fs::read_link(self.root.join(path)).ok()
    }

    /// What the first of these programs that exists prints, if it ends well.
    pub(crate) fn output(&self, programs: &[&str], arguments: &[&str]) -> Option<String> {
        let program = programs.iter().map(|program| self.root.join(program)).find(|path| path.exists())?;
        let done = Command::new(program).args(arguments).output().ok()?;
        done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
    }

    /// Cores of a list such as `0-3,8`, as the kernel writes them.
    pub(crate) fn cores(&self, path: impl AsRef<Path>) -> Option<BTreeSet<usize>> {
        Some(parse_cores(&self.text(path)?))
    }

    /// NUMA node of a core; none on machines without NUMA.
    pub(crate) fn node_of(&self, core: usize) -> Option<usize> {
        let nodes = self.names("sys/devices/system/node").into_iter();
        let numbers = nodes.filter_map(|name| name.strip_prefix("node")?.parse().ok());
        numbers.into_iter().find(|node| {
            self.cores(format!("sys/devices/system/node/node{node}/cpulist"))
                .is_some_and(|cores| cores.contains(&core))
        })
    }

    /// The interfaces of the default routes, by which an operator is probably logged in: those of IPv4, then
    /// those of IPv6.
    pub(crate) fn default_routes(&self) -> Vec<String> {
        let text = |path| self.text(path).unwrap_or_default();
        let (v4, v6) = (text("proc/net/route"), text("proc/net/ipv6_route"));
        let v4 = v4.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let (interface, destination) = (words.next()?, words.next()?);
            (destination == "00000000").then_some(interface)
        });
        // Destination and length come first, the interface last. Where there is no route, one to lo says so.
        let v6 = v6.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [destination, "00", .., interface] = words[..] else { return None };
            (destination.bytes().all(|digit| digit == b'0') && interface != "lo").then_some(interface)
        });
        let mut found: Vec<String> = Vec::new();
        for interface in v4.chain(v6) {
            if !found.iter().any(|known| known == interface) {
                found.push(interface.to_owned());
            }
        }
        found
    }

    /// The interfaces that the default routes go over, with those below them: of a bond, a VLAN or a bridge
    /// the kernel links to what it is made of.
    pub(crate) fn login(&self) -> BTreeSet<String> {
        let (mut found, mut to_see) = (BTreeSet::new(), self.default_routes());
        while let Some(interface) = to_see.pop() {
            let below = self.names(format!("sys/class/net/{interface}"));
            if found.insert(interface) {
                to_see.extend(below.iter().filter_map(|name| name.strip_prefix("lower_").map(str::to_owned)));
            }
        }
        found
    }

    /// Whether this process has a capability in effect, by its number.
    pub(crate) fn has_capability(&self, number: u32) -> bool {
        let status = self.text("proc/self/status").unwrap_or_default();
        let bits = status
            .lines()
            .find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
        bits.is_some_and(|bits| bits & (1 << number) != 0)
    }

    /// The capabilities that ports on network interfaces need and this process does not have.
    pub(crate) fn missing_rights(&self) -> Option<String> {
        let missing = FOR_INTERFACES.iter().filter(|(_, number)| !self.has_capability(*number));
        let names: Vec<_> = missing.map(|(name, _)| *name).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Whether a word is on the kernel's command line, alone or with a value.
    pub(crate) fn booted_with(&self, word: &str) -> bool {
        let line = self.text("proc/cmdline").unwrap_or_default();
        line.split_whitespace()
            .any(|found| found == word || found.strip_prefix(word).is_some_and(|rest| rest.starts_with('=')))
    }
}

/// The cores of a list; what is no number is left out, as in an empty list.
pub(crate) fn parse_cores(list: &str) -> BTreeSet<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// A list of cores as people write it: `2-5,8`.
pub(crate) fn format_cores(cores: &BTreeSet<usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &core in cores {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => ranges.push((core, core)),
        }
    }
    let text = |&(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
