//! Events of frames.

use pascaline_seal::MemberEnd;
use pascaline_wire::control::Control;
use pascaline_wire::frame::{Frame, Net};
use pascaline_wire::switchml::{Packet, UDP_PORT};
use pascaline_wire::{Header, Kind, header};

use super::World;
use super::event::What;
use crate::attacker::{self, Way};
use crate::faults::{Fault, Reach};
use crate::host::{Host, port_mac};
use crate::sabotage::Sabotage;
use crate::violation::Violation;

impl World<'_> {
    /// The network, upwards: the fate of a frame that a worker sends.
    pub(super) fn send_up(&mut self, worker: usize, mut bytes: Vec<u8>) {
        self.trace.note(self.now, 2, &bytes, || format!("worker {worker} sends {}", words(&bytes)));
        let mut extra = None;
        if self.client(worker).is_some() {
            self.saboteur.tamper_with_client(&mut bytes, &mut self.random);
        } else {
            extra = self.saboteur.tamper_up(worker, &mut bytes, &self.workers, &mut self.random);
        }
        if let Some((worker, bytes)) = extra {
            self.wheel.push(self.now, What::Up { worker, bytes, bad_checksum: false });
        }
        let bytes = self.seal(worker, bytes);
        if self.is_cut((worker, self.target(worker, &bytes))) {
            return;
        }
        let Some(link) = self.up.get_mut(worker) else { return };
        for arrival in link.send(self.now, bytes, &mut self.random, &mut self.faults) {
            let what = What::Up { worker, bytes: arrival.bytes, bad_checksum: arrival.bad_checksum };
            self.wheel.push(arrival.at, what);
        }
    }

    /// A frame of a worker as it is on the wire, where the attacker sees it.
    fn seal(&mut self, worker: usize, bytes: Vec<u8>) -> Vec<u8> {
        let plan = self.job(worker);
        let Some((plan, of)) = plan.zip(self.workers.get_mut(worker)) else { return bytes };
        if self.saboteur.what == Sabotage::RepeatNumbers
            && let Some((_, session)) = of.sealed.take()
        {
            let holder = attacker::holder(plan, (of.keyed, of.rank), of.renewed);
            of.sealed = holder.map(|holder| (MemberEnd::new(holder, session), session));
        }
        let Some(bytes) = of.seal(&bytes) else {
            if self.attacker.has_script() {
                self.show_stranger(worker, &bytes);
            }
            return bytes;
        };
        if let (Sabotage::HoldKeys, Some((_, session))) = (self.saboteur.what, &of.sealed)
            && let Some(forged) = datagram(&bytes)
                .and_then(|datagram| attacker::with_keys(plan, (of.keyed, of.rank), *session, datagram))
            && let Some((head, body)) = forged.split_first_chunk::<{ header::LEN }>()
        {
            let bytes = of.host.send(head, body);
            self.wheel.push(self.now, What::Up { worker, bytes, bad_checksum: false });
        }
        self.show(Way::Up, worker, &bytes);
        bytes
    }

    /// Shows the attacker a frame of a sealed job. It sends one of its own then, perhaps.
    fn show(&mut self, way: Way, number: usize, bytes: &[u8]) {
        let life = self.life_of(self.plan.node_of(number));
        let worker = self.workers.get(number);
        let Some((worker, datagram)) = worker.zip(datagram(bytes)) else { return };
        let Some((_, session)) = worker.sealed else { return };
        match self.attacker.see(way, (session, life), datagram) {
            Err(found) => self.found = self.found.take().or(Some(found)),
            Ok(None) => {}
            Ok(Some((after, forged))) => {
                self.reached.add(Reach::Forged, 1);
                let at = self.now + after;
                let what = match (way, forged.split_first_chunk::<{ header::LEN }>()) {
                    (_, None) => return,
                    (Way::Up, Some((head, body))) => {
                        let bytes = worker.host.send(head, body);
                        What::Up { worker: number, bytes, bad_checksum: false }
                    }
                    (Way::Down, Some(_)) => What::Down { worker: number, bytes: worker.host.forge(&forged) },
                };
                self.wheel.push(at, what);
            }
        }
    }

    /// Shows the attacker a frame of a job without seals. It sends one from an address of its own then,
    /// perhaps.
    fn show_stranger(&mut self, worker: usize, bytes: &[u8]) {
        let stranger = Host::new(self.plan.links.len() + 1, self.plan.ports, self.plan.v6);
        let Some(seen) = datagram(bytes) else { return };
        let forged = self.attacker.see(Way::Up, (0, 0), seen).ok().flatten();
        let parts = forged.as_ref().map(|(after, forged)| (*after, forged.split_first_chunk()));
        if let Some((after, Some((head, body)))) = parts {
            self.reached.add(Reach::Forged, 1);
            let bytes = stranger.send(head, body);
            self.wheel.push(self.now + after, What::Up { worker, bytes, bad_checksum: false });
        }
    }

    /// A number of an appliance's life, which no other appliance has: each has keys of its own.
    fn life_of(&self, node: usize) -> u64 {
        self.nodes.get(node).map_or(0, |one| one.life << 16 | node as u64)
    }

    /// Shows the attacker a frame between two appliances. It sends one that is as long then, perhaps.
    fn show_across(&mut self, from: usize, to: usize, up: bool, bytes: &[u8]) {
        let sealed = self.plan.jobs.iter().any(|job| job.sealed.is_some());
        let Some(seen) = datagram(bytes).filter(|_| sealed) else { return };
        // What goes up has numbers of the appliance's life, whatever the session.
        let (way, life) = (if up { Way::Up } else { Way::Down }, self.life_of(from));
        match self.attacker.see(way, (life, life), seen) {
            Err(found) => self.found = self.found.take().or(Some(found)),
            Ok(Some((after, forged))) if forged.len() == seen.len() => {
                self.reached.add(Reach::Forged, 1);
                let mut bytes = bytes.to_vec();
                let at = bytes.len() - forged.len();
                bytes[at..].copy_from_slice(&forged);
                self.wheel.push(self.now + after, What::Across { node: to, bytes });
            }
            Ok(_) => {}
        }
    }

    /// The network, downwards, or between two appliances.
    pub(super) fn send_down(&mut self, node: usize, mut bytes: Vec<u8>) -> Result<(), Violation> {
        self.trace.note(self.now, 6, &bytes, || format!("appliance {node} sends {}", words(&bytes)));
        if let Some(to) = self.plan.tree.as_ref().and_then(|_| Host::node_in(&bytes)) {
            self.send_across(node, to, bytes);
            return Ok(());
        }
        if let Some([first, ..]) = bytes.first_chunk::<6>()
            && first & 1 > 0
        {
            self.send_to_group(node, &bytes);
            return Ok(());
        }
        // Frames to a host that does not exist are lost.
        let Some(worker) = Host::number_in(&bytes).filter(|&number| number < self.up.len()) else {
            return Ok(());
        };
        if self.client(worker).is_some() {
            self.saboteur.tamper_with_sum(&mut bytes, &mut self.random);
        } else if let Some(host) = worker.checked_sub(self.workers.len()) {
            self.departs_for_cluster(host, &bytes)?;
        }
        if let Some((other, forged)) = self.saboteur.tamper_down(worker, &mut bytes, &self.workers) {
            let framed = self.workers.get(other).map(|other| other.host.forge(&forged)).unwrap_or_default();
            self.wheel.push(self.now, What::Down { worker: other, bytes: framed });
        }
        if self.is_cut((worker, node)) {
            return Ok(());
        }
        self.carry_down(worker, bytes);
        Ok(())
    }
}

impl World<'_> {
    /// The network, from an appliance to all that have joined a group, where nothing filters that.
    fn send_to_group(&mut self, node: usize, bytes: &[u8]) {
        for number in 0..self.workers.len() {
            let Some(worker) = self.workers.get(number) else { continue };
            let (host, group) = (&worker.host, worker.joined());
            let below = self.plan.has_backup() || self.plan.node_of(number) == node;
            let to = group.filter(|group| below && bytes.starts_with(&group.mac().0));
            // Through the port that leads to it.
            if to.is_none() || bytes.get(6..12) != Some(&port_mac(host.port).0[..]) {
                continue;
            }
            let plan = self.job(number).and_then(|job| job.multicast.as_ref());
            let way = plan.and_then(|plan| plan.ways.get(usize::from(worker.rank)));
            if way.is_none_or(|way| way.is_filtered(self.now)) {
                self.faults.count(Fault::Filtered);
            } else if !self.is_cut((number, node)) {
                let mut bytes = bytes.to_vec();
                self.saboteur.tamper_with_group(&mut bytes);
                self.carry_down(number, bytes);
            }
        }
    }

    fn carry_down(&mut self, worker: usize, bytes: Vec<u8>) {
        if self.workers.get(worker).is_some_and(|worker| worker.sealed.is_some()) {
            self.show(Way::Down, worker, &bytes);
        }
        let Some(link) = self.down.get_mut(worker) else { return };
        for arrival in link.send(self.now, bytes, &mut self.random, &mut self.faults) {
            self.wheel.push(arrival.at, What::Down { worker, bytes: arrival.bytes });
        }
    }

    /// The appliance that a host's frame goes to.
    pub(super) fn target(&self, host: usize, frame: &[u8]) -> usize {
        let named = Host::node_in(frame).filter(|_| self.plan.has_backup());
        named.unwrap_or_else(|| self.plan.node_of(host))
    }

    /// Whether the way between a worker and an appliance is cut.
    fn is_cut(&mut self, between: (usize, usize)) -> bool {
        let now = self.now;
        let cut = self.cut.iter().any(|&(ends, until)| ends == between && now < until);
        if cut {
            self.faults.count(Fault::BlackedOut);
        }
        cut
    }

    /// The network between an appliance and its parent.
    fn send_across(&mut self, from: usize, to: usize, mut bytes: Vec<u8>) {
        self.saboteur.tamper_across(&mut bytes, &mut self.random);
        let up = self.plan.tree.as_ref().is_some_and(|tree| tree.is_above(to, from));
        self.show_across(from, to, up, &bytes);
        let links = if up { &mut self.climbing } else { &mut self.descending };
        let Some(link) = links.get_mut(if up { from } else { to }) else { return };
        for arrival in link.send(self.now, bytes, &mut self.random, &mut self.faults) {
            self.wheel.push(arrival.at, What::Across { node: to, bytes: arrival.bytes });
        }
    }
}

/// The datagram in a frame; `None` if there is none.
pub(crate) fn datagram(bytes: &[u8]) -> Option<&[u8]> {
    let Net::Ip(ip) = Frame::parse(bytes).ok()?.net else { return None };
    Some(ip.udp(bytes).ok()?.body)
}

/// A frame as text.
pub(super) fn words(bytes: &[u8]) -> String {
    let Some(datagram) = datagram(bytes) else {
        return format!("{} bytes that are no datagram", bytes.len());
    };
    if let Some(Packet { src_port, dst_port, body: Some(body), .. }) = Packet::parse(bytes)
        && [src_port, dst_port].contains(&UDP_PORT)
    {
        return format!("{body:?}");
    }
    match Header::parse(datagram) {
        Err(why) => format!("a datagram of {} bytes, {why:?}", datagram.len()),
        Ok((header, body)) if header.kind == Kind::Control => {
            let control = Control::parse(body);
            format!("job {} rank {} epoch {} {control:?}", header.job, header.rank, header.epoch)
        }
        Ok((header, body)) => format!("{header:?} payload {}", body.len()),
    }
}
