//! What is known of a rank.

use core::time::Duration;

use pascaline_wire::frame::Address;

use super::claim::Claim;
use super::contest::Contest;
use super::job::source;
use super::offer::Offer;
use super::progress::Called;
use super::rate::Asked;
use super::reply::ControlRequest;
use crate::jobs::Endpoint;

/// A member of the present generation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joined {
    pub(super) endpoint: Endpoint,
    /// What it wants to go on with.
    pub(super) claim: Option<Claim>,
    /// The number of the Join that has made it a member.
    pub(super) number: u32,
    /// Its last control packet; of an appliance the last one that some rank of its own has led to.
    pub(super) heard: Duration,
    /// Its last Query: an appliance sends them whether anybody waits or not.
    pub(super) alive: Duration,
    /// The last heartbeat since the generation is complete; `called` is what it said.
    pub(super) beat: Option<Duration>,
    /// The workers that it stands for, if it is an appliance; else 0.
    pub(super) workers: u32,
    /// It hears the job's multicast group.
    pub(super) hears: bool,
    /// The window that it asked for.
    pub(super) window: u16,
    /// What its packets hold.
    pub(super) offer: Offer,
    /// The oldest PSN that it lacked when it last asked to go on.
    pub(super) lacked: u32,
    /// What its latest heartbeat, or its Leave, has said of its operation.
    pub(super) called: Option<Called>,
    /// When its oldest PSN without a result was last another one.
    pub(super) moved: Duration,
    /// Whether it waits for results that are kept no longer.
    pub(super) overtaken: Overtaken,
    /// When its host last said that no program has its port.
    pub(super) refused: Option<Duration>,
    /// Contributions of it that had come when they were last looked at, and since when none have.
    pub(super) sent: (u64, Duration),
    /// Another sender wants the rank.
    pub(super) contest: Option<Contest>,
}

/// Whether a member waits for results that are kept no longer, as its heartbeats say. One that was sent just
/// before much was released says so, too, when it is read; the next one does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overtaken {
    No,
    /// Since then, by a heartbeat of this number.
    Perhaps(Duration, u32),
    /// Since then, and a later heartbeat has said the same.
    Yes(Duration),
}

impl Overtaken {
    /// A heartbeat of this number says so.
    pub(super) const fn said(self, now: Duration, number: u32) -> Self {
        match self {
            Self::No => Self::Perhaps(now, number),
            Self::Perhaps(since, first) if number != first && number.wrapping_sub(first) < 1 << 31 => {
                Self::Yes(since)
            }
            before => before,
        }
    }
}

impl Joined {
    /// A worker that starts from nothing, of which nothing has been heard since.
    pub(super) const fn new(now: Duration, endpoint: Endpoint, offer: Offer, window: u16) -> Self {
        Self {
            endpoint,
            claim: None,
            number: 0,
            heard: now,
            alive: now,
            beat: None,
            workers: 0,
            hears: false,
            window,
            offer,
            lacked: 0,
            called: None,
            moved: now,
            overtaken: Overtaken::No,
            refused: None,
            sent: (0, now),
            contest: None,
        }
    }

    pub(super) const fn is_appliance(&self) -> bool {
        self.workers > 0
    }

    /// When something was last heard of it, as far as is known.
    pub(super) fn seen(&self) -> Duration {
        self.heard.max(self.sent.1)
    }
}

/// The latest session of a rank, of whatever generation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latest {
    pub(super) session: u64,
    pub(super) source: (Address, u16),
    pub(super) left: bool,
    pub(super) lost: bool,
    /// The last generation before the present one that it was in.
    pub(super) former: Option<Former>,
    pub(super) asked: Asked,
    /// The number of its latest request.
    pub(super) number: u32,
}

impl Latest {
    /// True if a request is this session's, from where it has joined.
    pub(super) fn sent(&self, request: &ControlRequest) -> bool {
        (self.session, self.source) == (request.control.session, source(&request.from))
    }
}

/// A generation that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Former {
    pub(super) epoch: u16,
    /// A death has ended it: those who were in it should resume, not start anew.
    pub(super) resumable: bool,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rank {
    pub(super) latest: Option<Latest>,
    /// Its membership in the present generation, which is its latest session's. Ranks that have left stay
    /// until all have: others may yet need a result that only they have kept.
    pub(super) joined: Option<Joined>,
    /// It has left the present generation.
    pub(super) left: bool,
    /// The present generation has lost it, or was begun without it.
    pub(super) lost: bool,
    /// Sessions that are over, so that a Join of theirs that is still under way is known.
    pub(super) retired: Retired,
    /// It wanted to go on with an earlier generation, and has been told that it cannot: in the present one it
    /// can only start from nothing.
    pub(super) anew: bool,
}

impl Rank {
    pub(super) const fn present(&self) -> bool {
        self.here().is_some()
    }

    /// Its membership, if it is here: it has neither left nor died.
    pub(super) const fn here(&self) -> Option<&Joined> {
        if self.left || self.lost { None } else { self.joined.as_ref() }
    }
}

/// The latest sessions of a rank that are over.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Retired {
    sessions: [Option<u64>; 8],
    next: usize,
}

impl Retired {
    pub(super) fn add(&mut self, session: u64) {
        if !self.contains(session) {
            self.sessions[self.next % 8] = Some(session);
            self.next = (self.next + 1) % 8;
        }
    }

    pub(super) fn contains(&self, session: u64) -> bool {
        self.sessions.contains(&Some(session))
    }
}

/// A set of epochs.
#[derive(Debug, Clone, Default)]
pub(super) struct Epochs(Vec<u64>);

impl Epochs {
    /// Those from one on that are before another.
    pub(super) fn before(first: u16, end: u16) -> Self {
        let mut some = Self::default();
        (0..end.wrapping_sub(first)).for_each(|after| some.set(first.wrapping_add(after), true));
        some
    }

    pub(super) fn set(&mut self, epoch: u16, member: bool) {
        if member {
            self.0.resize(usize::from(u16::MAX / 64) + 1, 0);
        }
        if let Some(word) = self.0.get_mut(usize::from(epoch / 64)) {
            let bit = 1 << (epoch % 64);
            *word = if member { *word | bit } else { *word & !bit };
        }
    }

    pub(super) fn contains(&self, epoch: u16) -> bool {
        self.0.get(usize::from(epoch / 64)).is_some_and(|word| word & 1 << (epoch % 64) != 0)
    }
}
