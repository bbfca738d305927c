//! The tests' appliance, its control plane: who belongs to the job, in which generation.

use std::collections::{BTreeMap, BTreeSet};

use pascaline_wire::control::{self, AT_MOST, Action, Control, Status};
use pascaline_wire::trailer::{self, Bitmap, RankReport, RankReports, RankState};
use pascaline_wire::{Element, Flags, Header, Kind, Trailer};

use crate::aggregator::{Out, packet};

#[derive(Debug, Clone, Copy)]
struct Member {
    session: u64,
    /// The generation that it wants to resume.
    claim: u32,
}

/// What follows from the death of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDeath {
    Fail,
    Continue,
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: u16,
    pub(crate) ranks: u16,
    spread: u16,
    pub(crate) epoch: u16,
    /// The first PSN of a generation that is not resumed.
    pub(crate) base: u32,
    members: BTreeMap<u16, Member>,
    left: BTreeMap<u16, u64>,
    /// Sessions that are over, in whatever generation.
    over: BTreeSet<(u16, u64)>,
    lost: BTreeSet<u16>,
    on_death: OnDeath,
}

impl Job {
    pub(crate) fn new(id: u16, ranks: u16, spread: u16, epoch: u16) -> Self {
        Self {
            id,
            ranks,
            spread,
            epoch,
            base: 0,
            members: BTreeMap::new(),
            left: BTreeMap::new(),
            over: BTreeSet::new(),
            lost: BTreeSet::new(),
            on_death: OnDeath::Fail,
        }
    }

    /// The same configuration after a start of the appliance.
    pub(crate) fn restarted(&self, epoch: u16) -> Self {
        Self { base: self.base, ..Self::new(self.id, self.ranks, self.spread, epoch) }
    }

    /// Ranks that take part.
    pub(crate) fn present(&self) -> usize {
        let lost = if self.on_death == OnDeath::Continue { self.lost.len() } else { 0 };
        usize::from(self.ranks) - lost
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.members.len() == self.present()
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = u16> + '_ {
        self.members.keys().copied()
    }

    /// A rank is found to be dead.
    pub(crate) fn lose(&mut self, rank: u16, on_death: OnDeath) {
        self.on_death = on_death;
        if let Some(member) = self.members.get(&rank) {
            self.over.insert((rank, member.session));
        }
        self.lost.insert(rank);
        if on_death == OnDeath::Continue {
            self.next_generation();
        }
    }

    fn next_generation(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.members.clear();
        self.left.clear();
    }

    /// Why a packet that is not a control packet is refused, if it is.
    pub(crate) fn refusal(&self, header: &Header) -> Option<Out> {
        let status = match () {
            () if header.epoch != self.epoch => Status::WrongEpoch,
            () if !self.members.contains_key(&header.rank) => Status::NotMember,
            () => return None,
        };
        let (expected, got) = match status {
            Status::WrongEpoch => (u32::from(self.epoch), u32::from(header.epoch)),
            _ => (0, u32::from(header.rank)),
        };
        let ack = Control { status, expected, got, ..Control::request(Action::Ack, 0) };
        Some(self.ack(header, &ack, &[]))
    }

    pub(crate) fn control(&mut self, header: &Header, request: &Control) -> Out {
        let (status, expected) = match request.action {
            Action::Join => self.join(header.rank, request),
            Action::Leave => self.leave(header, request),
            Action::Query => return self.query(header, request),
            action => panic!("a worker sent {action:?}"),
        };
        let mut ack = Control {
            status,
            answers: Some(request.action),
            number: request.number,
            payload: agreed(request.payload),
            window: self.spread,
            expected,
            psn: self.base,
            ..Control::request(Action::Ack, request.session)
        };
        if status != Status::RankLost {
            return self.ack(header, &ack, &[]);
        }
        let mut bitmap = Bitmap::new(self.ranks).unwrap();
        assert!(self.lost.iter().all(|&rank| bitmap.insert(rank)));
        let mut trailer = [0; 200];
        let len = Trailer { bitmap: Some(bitmap), ..Trailer::default() }.emit(&mut trailer).unwrap();
        (ack.expected, ack.got) =
            (u32::try_from(self.lost.len()).unwrap(), u32::from(*self.lost.first().unwrap()));
        self.ack(header, &ack, &trailer[..len])
    }

    /// Ranks that have not joined, as far as an Ack has room.
    fn query(&self, header: &Header, request: &Control) -> Out {
        let mut ranks = RankReports::EMPTY;
        for rank in (0..self.ranks).filter(|rank| !self.members.contains_key(rank)) {
            let _ = ranks.push(RankReport::new(rank, RankState::NeverJoined));
        }
        let answers = Some(Action::Query);
        let (number, psn) = (request.number, request.psn);
        let ack = Control { answers, number, psn, ..Control::request(Action::Ack, request.session) };
        if ranks.as_slice().is_empty() {
            return self.ack(header, &ack, &[]);
        }
        let mut trailer = [0; trailer::RANKS_LEN];
        let len = Trailer { ranks: Some(ranks), ..Trailer::default() }.emit(&mut trailer).unwrap();
        self.ack(header, &ack, &trailer[..len])
    }

    fn ack(&self, header: &Header, ack: &Control, trailer: &[u8]) -> Out {
        let head = Header {
            kind: Kind::Control,
            flags: if trailer.is_empty() { Flags::NONE } else { Flags::TRAILER },
            element: Element::F32_SUM,
            fan_in: self.ranks,
            count: 0,
            epoch: self.epoch,
            ..*header
        };
        let ack = Control { joined: u16::try_from(self.members.len()).unwrap(), ..*ack };
        (header.rank, [&packet(&head, &ack.to_bytes())[..], trailer].concat())
    }

    fn join(&mut self, rank: u16, request: &Control) -> (Status, u32) {
        let session = request.session;
        if self.lost.contains(&rank) || !self.lost.is_empty() && self.on_death == OnDeath::Fail {
            return (Status::RankLost, 0);
        }
        if self.over.contains(&(rank, session)) {
            return (Status::StaleSession, 0);
        }
        let known = self.members.get(&rank).is_some_and(|member| member.session == session);
        if request.got == control::ASK {
            return (Status::Pending, 0);
        }
        if control::named_generation(request.got).is_some_and(|epoch| epoch != self.epoch) {
            return (Status::WrongEpoch, u32::from(self.epoch));
        }
        if !known {
            if self.is_complete() || self.members.contains_key(&rank) || !self.left.is_empty() {
                self.next_generation();
            }
            self.members.insert(rank, Member { session, claim: request.expected });
        }
        if !self.is_complete() {
            return (Status::Pending, 0);
        }
        let mut claims = self.members.values().map(|member| member.claim);
        let first = claims.next().unwrap();
        (Status::Ok, if claims.all(|claim| claim == first) { first } else { 0 })
    }

    fn leave(&mut self, header: &Header, request: &Control) -> (Status, u32) {
        let (rank, session) = (header.rank, request.session);
        let known = self.members.get(&rank).is_some_and(|member| member.session == session);
        if header.epoch != self.epoch || !known {
            return (Status::NotMember, 0);
        }
        self.over.insert((rank, session));
        self.left.insert(rank, session);
        (if self.left.len() == self.present() { Status::Ok } else { Status::Pending }, 0)
    }
}

/// What this job's ranks send: the length that they were given, or a short packet.
fn agreed(said: u16) -> u16 {
    if said & AT_MOST == 0 { said } else { (said & !AT_MOST).min(1024) }
}
