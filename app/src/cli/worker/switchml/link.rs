//! A client of SwitchML's over a kernel UDP socket.

use core::net::{Ipv4Addr, SocketAddrV4};
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nix::ifaddrs::getifaddrs;
use pascaline_worker::switchml::Client;

use crate::switchml::mac_to_u64;

/// The longest datagram of the protocol: a header of 8 bytes, 2 of exponents, 256 integers.
const LONGEST: usize = 8 + 2 + 1024;
/// The least time that a socket waits: 0 would be for ever.
const LEAST: Duration = Duration::from_micros(100);

/// The MAC of the interface that has an address, as the controller wants it.
pub(super) fn mac_of(address: Ipv4Addr) -> anyhow::Result<u64> {
    let all: Vec<_> = getifaddrs().context("listing interfaces")?.collect();
    let has = |found: &&nix::ifaddrs::InterfaceAddress| {
        found.address.and_then(|held| held.as_sockaddr_in().map(|held| held.ip() == address)) == Some(true)
    };
    let Some(interface) = all.iter().find(has) else {
        bail!("--bind {address}: no interface has this address\n  remedy: `ip address` lists them");
    };
    let links = all.iter().filter(|found| found.interface_name == interface.interface_name);
    let mac = links.filter_map(|found| found.address?.as_link_addr()?.addr()).find(|mac| *mac != [0; 6]);
    match mac {
        Some(mac) => Ok(mac_to_u64(mac)),
        None => bail!(
            "--bind {address}: {} has no MAC\n  remedy: choose an address of an Ethernet interface",
            interface.interface_name
        ),
    }
}

/// A socket, and when it was opened.
#[derive(Debug)]
pub(super) struct Link {
    socket: UdpSocket,
    began: Instant,
    out: Vec<u8>,
}

impl Link {
    pub(super) fn new(own: SocketAddrV4, appliance: SocketAddrV4) -> anyhow::Result<Self> {
        let socket = UdpSocket::bind(own).with_context(|| format!("--bind {own}"))?;
        socket.connect(appliance).with_context(|| format!("no way to the appliance at {appliance}"))?;
        Ok(Self { socket, began: Instant::now(), out: Vec::with_capacity(LONGEST) })
    }

    /// Runs an operation to its end. Returns the seconds that it took.
    pub(super) fn run(&mut self, client: &mut Client, deadline: Duration) -> anyhow::Result<f64> {
        let begun = Instant::now();
        let mut datagram = [0; LONGEST];
        loop {
            let now = self.began.elapsed();
            client.handle_timeout(now);
            while client.poll_transmit(now, &mut self.out) {
                // What is not sent is sent again.
                let _ = self.socket.send(&self.out);
            }
            let Some(next) = client.poll_timeout() else {
                return Ok(begun.elapsed().as_secs_f64());
            };
            let left = deadline.saturating_sub(begun.elapsed());
            if left.is_zero() {
                bail!(
                    "not all sums have come within {deadline:?}\n  remedy: are all workers here, with the \
                        same --elements, --window and --packet, and a --window no larger than the job's? \
                        `pascaline explain` says who is late"
                );
            }
            let wait = next.saturating_sub(now).min(left).max(LEAST);
            self.socket.set_read_timeout(Some(wait)).context("setting the time to wait")?;
            match self.socket.recv(&mut datagram) {
                Ok(len) => client.handle(self.began.elapsed(), datagram.get(..len).unwrap_or_default()),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    bail!("the appliance's host refuses the port\n  remedy: is --udp-port the job's?");
                }
                Err(error) => return Err(error).context("receiving"),
            }
        }
    }
}
