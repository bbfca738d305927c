//! Packets as tests write them.

use core::time::Duration;

use pascaline_ps::{Action, Config, Destination, JobParams, Outcome, Server};
use pascaline_wire::trailer::Bitmap;
use pascaline_wire::{Element, Flags, Header, Kind, Trailer};

pub(crate) const JOB: u16 = 5;
pub(crate) const EPOCH: u16 = 9;
pub(crate) const PSN: u32 = 77;

pub(crate) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// What tests send and receive, owned.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Packet {
    pub(crate) header: Header,
    pub(crate) payload: Vec<u8>,
    pub(crate) bitmap: Option<Bitmap>,
}

impl Packet {
    pub(crate) fn new(kind: Kind, rank: u16, psn: u32, fan_in: u16) -> Self {
        let header = Header { rank, psn, fan_in, ..Header::about(kind, Element::F32_SUM, JOB, EPOCH) };
        Self { header, payload: Vec::new(), bitmap: None }
    }

    pub(crate) fn gradient(rank: u16, psn: u32, fan_in: u16, payload: &[u8]) -> Self {
        Self::new(Kind::Gradient, rank, psn, fan_in).count(1).payload(payload)
    }

    pub(crate) fn partial(ranks: &[u16], psn: u32, fan_in: u16, payload: &[u8]) -> Self {
        Self::new(Kind::Partial, 0, psn, fan_in).containing(ranks).payload(payload)
    }

    pub(crate) fn result(psn: u32, fan_in: u16, payload: &[u8]) -> Self {
        Self::new(Kind::Result, 0, psn, fan_in).count(fan_in).payload(payload)
    }

    pub(crate) fn reminder(rank: u16, psn: u32, fan_in: u16) -> Self {
        Self::new(Kind::Reminder, rank, psn, fan_in)
    }

    pub(crate) fn count(mut self, count: u16) -> Self {
        self.header.count = count;
        self
    }

    pub(crate) fn payload(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    pub(crate) fn flag(mut self, flag: Flags) -> Self {
        self.header.flags = self.header.flags.with(flag);
        self
    }

    pub(crate) fn containing(mut self, ranks: &[u16]) -> Self {
        let mut bitmap = Bitmap::new(self.header.fan_in.clamp(1, 1024)).unwrap();
        for &rank in ranks {
            assert!(bitmap.insert(rank));
        }
        self.bitmap = Some(bitmap);
        self.header.count = u16::try_from(ranks.len()).unwrap();
        self.flag(Flags::TRAILER)
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        let mut body = self.payload.clone();
        if self.bitmap.is_some() {
            let trailer = Trailer { bitmap: self.bitmap, ..Trailer::default() };
            body.resize(self.payload.len() + trailer.emitted_len(), 0);
            trailer.emit(&mut body[self.payload.len()..]).unwrap();
        }
        body
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        [&self.header.to_bytes()[..], &self.body()].concat()
    }

    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let (header, body) = Header::parse(bytes).unwrap();
        let (payload, trailer) = header.payload(body).unwrap();
        Self { header, payload: payload.to_vec(), bitmap: trailer.and_then(|trailer| trailer.bitmap) }
    }

    /// The ranks that are inside, ascending.
    pub(crate) fn ranks(&self) -> Vec<u16> {
        match &self.bitmap {
            Some(bitmap) => (0..bitmap.capacity()).filter(|&rank| bitmap.contains(rank)).collect(),
            None => (0..self.header.count).collect(),
        }
    }
}

impl From<&Action<'_>> for Packet {
    fn from(action: &Action<'_>) -> Self {
        let mut bytes = vec![0xa5; action.len()];
        assert!(action.write(&mut bytes[1..]).is_err(), "one byte too few");
        assert_eq!(action.write(&mut bytes), Ok(action.len()));
        let packet = Self::parse(&bytes);
        assert_eq!(packet.header, action.header);
        assert_eq!((&packet.payload[..], packet.bitmap), (action.payload, action.bitmap));
        packet
    }
}

pub(crate) fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A rank's contribution to a PSN: small whole numbers, whose sums are exact in any order.
pub(crate) fn contribution(rank: u16, psn: u32) -> Vec<u8> {
    let psn = f32::from(u16::try_from(psn % 97).unwrap());
    floats(&[f32::from(rank) + 1.0, psn * f32::from(rank + 3), -f32::from(rank) - 2.0])
}

/// The sum of contributions.
pub(crate) fn sum(parts: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut total: Vec<f32> = Vec::new();
    for part in parts {
        let values = part.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        total.resize(part.len() / 4, 0.0);
        total.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }
    floats(&total)
}

pub(crate) fn sum_of(ranks: &[u16], psn: u32) -> Vec<u8> {
    sum(ranks.iter().map(|&rank| contribution(rank, psn)))
}

/// A server with one job of this many ranks.
pub(crate) fn server(fan_in: u16) -> Server {
    server_with(JobParams::new(fan_in, EPOCH))
}

/// The configuration of a server that has been there for long, and has forgotten nothing that might still be
/// on its way: `votes` has the others.
pub(crate) fn settled() -> Config {
    Config { settle: Duration::ZERO, ..Config::default() }
}

pub(crate) fn server_with(params: JobParams) -> Server {
    let mut server = Server::new(settled());
    server.set_job(JOB, params).unwrap();
    server
}

pub(crate) fn give(server: &mut Server, now: Duration, packet: &Packet) -> Outcome {
    let outcome = server.handle_datagram(now, &packet.to_bytes());
    check_identities(server);
    outcome
}

/// Everything that the server wants to send now.
pub(crate) fn take(server: &mut Server) -> Vec<(Destination, Packet)> {
    let mut taken = Vec::new();
    while let Some(action) = server.poll_action() {
        taken.push((action.to, Packet::from(&action)));
    }
    taken
}

pub(crate) fn check_identities(server: &Server) {
    let counters = server.counters();
    assert_eq!(counters.received, counters.accounted());
    let open = server.usage(JOB).map_or(0, |usage| usage.open as u64);
    assert_eq!(counters.opened, counters.finished + counters.given_up + counters.forgotten + open);
    if let (Some(usage), Some(params)) = (server.usage(JOB), server.job(JOB)) {
        assert!(usage.bytes <= params.capacity.bytes);
        assert!(usage.open <= params.capacity.entries as usize);
    }
}
