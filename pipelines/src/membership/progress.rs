//! How far ranks are, as their heartbeats say, and what follows from it: who is missing at a PSN, who calls
//! another operation than the others, and what cannot be complete any more because a rank has left.

use core::time::Duration;

use pascaline_wire::control::{Control, Status};
use pascaline_wire::frame::Address;
use pascaline_wire::trailer::{Operation, Operations, RankReport, RankReports, RankState};
use pascaline_wire::{Call, DType, Element};

use super::Membership;
use super::generation::{Dispute, State};
use super::job::{Decision, JobRecord, Names, source};
use super::rank::{Joined, Overtaken, Rank};
use super::reply::ControlRequest;

/// For so long the appliance waits for the descriptions of all ranks before it says which one differs: each
/// that waits describes its operation every 100 ms.
const DISPUTE: Duration = Duration::from_millis(250);
/// What a rank has sent before it left may still complete PSNs: only if nothing has come of that for so long
/// does nothing come any more.
const STANDS: Duration = Duration::from_millis(500);
/// A rank that has not been heard of for so long is silent.
const SILENT: Duration = Duration::from_secs(1);

/// What a rank has said of its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Called {
    /// The oldest PSN without a result.
    pub(super) una: u32,
    pub(super) element: Option<Element>,
    pub(super) first: u32,
    call: Call,
    bytes: u64,
}

impl Called {
    pub(super) const fn of(control: &Control) -> Self {
        let &Control { psn: una, element, first, call, bytes, .. } = control;
        Self { una, element, first, call, bytes }
    }

    /// Nothing is under way, and nothing before a PSN is lacked.
    const fn at(psn: u32) -> Self {
        Self { una: psn, element: None, first: psn, call: Call::ALLREDUCE, bytes: 0 }
    }

    /// How many PSNs the operation has.
    fn psns(&self, payload: u16) -> u32 {
        let dtype = self.element.map_or(DType::F32, |element| element.dtype);
        self.call.packets(self.bytes, dtype, payload)
    }

    pub(super) const fn is_under_way(&self) -> bool {
        self.call.is_under_way(self.bytes)
    }

    /// As far as that, and nothing under way.
    pub(super) const fn ended(self) -> Self {
        Self { call: Call::ALLREDUCE, bytes: 0, ..self }
    }

    /// A request that says so.
    pub(super) const fn describe(&self, request: Control) -> Control {
        let &Self { una: psn, element, first, call, bytes } = self;
        Control { psn, element, first, call, bytes, ..request }
    }

    const fn what(&self) -> (u32, Option<Element>, Call, u64) {
        (self.first, self.element, self.call, self.bytes)
    }

    /// One past its last PSN.
    fn end(&self, payload: u16) -> u32 {
        self.first.wrapping_add(self.psns(payload))
    }

    /// True if two operations have PSNs in common and are not the same.
    fn contradicts(&self, other: &Self, payload: u16) -> bool {
        let apart = |a: &Self, b: &Self| {
            let ahead = b.first.wrapping_sub(a.first);
            ahead < 1 << 31 && ahead >= a.psns(payload)
        };
        let under_way = self.is_under_way() && other.is_under_way();
        under_way && self.what() != other.what() && !apart(self, other) && !apart(other, self)
    }

    const fn as_operation(&self, rank: u16) -> Operation {
        let &Self { element, first, call, bytes, .. } = self;
        Operation { rank, element, first, call, bytes }
    }
}

fn oldest(all: impl Iterator<Item = Called>) -> Option<Called> {
    all.reduce(|oldest, called| if after(oldest.una, called.una) { called } else { oldest })
}

/// The oldest that names a PSN: who has only joined has named none, and is where the generation begins.
fn furthest(all: impl Iterator<Item = Called>, begin: u32) -> Called {
    oldest(all.filter(|called| *called != Called::at(0))).unwrap_or(Called::at(begin))
}

/// True if a PSN comes after another (RFC 1982).
const fn after(psn: u32, other: u32) -> bool {
    psn != other && psn.wrapping_sub(other) < 1 << 31
}

impl Membership {
    /// What is known of the ranks that keep the others of a job from getting on; nothing while nobody waits.
    #[must_use]
    pub fn missing(&self, job: u16, now: Duration) -> RankReports {
        self.jobs.get(&job).map_or(RankReports::EMPTY, |job| job.holding_up(now))
    }
}

impl JobRecord {
    /// Takes note of what a heartbeat says, and answers it if the operation cannot end well.
    pub(super) fn note_progress(&mut self, now: Duration, heartbeat: &ControlRequest) -> Option<Decision> {
        let ControlRequest { header, control, .. } = heartbeat;
        let (at, called) = (usize::from(header.rank), Called::of(control));
        let sent = self.cells.contributions_of(header.rank);
        let joined = self.ranks[at].joined.as_mut()?;
        let begun = |before: Called| (before.first, before.bytes > 0) != (called.first, called.bytes > 0);
        if sent.is_none_or(|sent| sent != joined.sent.0) || joined.called.is_none_or(begun) {
            joined.sent = (sent.unwrap_or(0), now);
        }
        if joined.called.is_none_or(|before| before.una != called.una) {
            (joined.moved, joined.overtaken) = (now, Overtaken::No);
        }
        joined.called = Some(called);
        let stands = now.saturating_sub(joined.moved) >= STANDS;
        // What an appliance says of its ranks is old where they have got on without waiting since.
        let says = called.is_under_way() && !joined.is_appliance();
        let past = says && self.state.begun().is_some_and(|running| running.window.is_past(called.una));
        joined.overtaken = if past { joined.overtaken.said(now, control.number) } else { Overtaken::No };
        let overtaken = joined.overtaken;
        if self.state.running().is_none() || !called.is_under_way() {
            return None;
        }
        let names = |status, names| Some(Decision { names, ..Decision::of(status) });
        if let Some(operations) = self.disagreement(now, at) {
            return names(Status::OperationMismatch, Names::Operations(operations));
        }
        if stands && self.has_left_before(called.una) {
            // With those that are still there: who gives up first may have waited for one of them.
            return names(Status::RankLeft, Names::Missing { psn: called.una });
        }
        if matches!(overtaken, Overtaken::Yes(since) if now.saturating_sub(since) >= STANDS) {
            return names(Status::Overtaken, Names::Nobody);
        }
        None
    }

    /// The operations of two ranks that call different ones, once these are known.
    fn disagreement(&mut self, now: Duration, at: usize) -> Option<Operations> {
        let since = match self.state.running()?.dispute {
            Dispute::Known(operations) => return Some(operations),
            Dispute::Since(since) => since,
            Dispute::None => now,
        };
        let payload = self.payload;
        let own = self.ranks[at].joined?.called?;
        let (_, other) = self.called_lately(now).find(|(_, other)| other.contradicts(&own, payload))?;
        if let State::Complete(running) = &mut self.state {
            running.dispute = Dispute::Since(since);
        }
        let first = if after(own.first, other.first) { other.first } else { own.first };
        let silent = |joined: &Joined| {
            joined.called.is_none_or(|c| !c.is_under_way() || !after(c.end(payload), first))
        };
        if now.saturating_sub(since) < DISPUTE && self.present().any(|(_, joined)| silent(joined)) {
            return None;
        }
        let called: Vec<(u16, Called)> = self.called_lately(now).collect();
        // Those that most ranks agree with; of several, those of the lowest rank.
        let votes = |one: &Called| called.iter().filter(|(_, c)| !c.contradicts(one, payload)).count();
        let &(rank, most) = called.iter().rev().max_by_key(|(_, one)| votes(one))?;
        let (other, differing) = called.iter().find(|(_, c)| c.contradicts(&most, payload))?;
        let (most, differing) = (most.as_operation(rank), differing.as_operation(*other));
        Some(self.state.settle_dispute(Operations { most, differing }))
    }

    /// What those who are here say of operations under way: whoever gets on without waiting says nothing, and
    /// what it said is over.
    pub(super) fn called_lately(&self, now: Duration) -> impl Iterator<Item = (u16, Called)> {
        let waiting = self.present().filter(move |(_, joined)| joined.waits(now));
        waiting.filter_map(|(number, joined)| Some((number, joined.called?)))
    }

    /// What the rank says that is furthest behind of those inside an operation.
    pub(super) fn oldest_called(&self, now: Duration) -> Option<Called> {
        oldest(self.called_lately(now).map(|(_, called)| called))
    }

    /// What the rank has said that is furthest behind of all, also those that have left.
    pub(super) fn furthest_behind(&self) -> Called {
        let resumed = self.state.running().is_some_and(|running| running.resumed.is_some());
        let begin = if resumed { self.lacked().0 } else { self.base };
        furthest(self.members().filter_map(|(_, joined)| joined.called), begin)
    }

    /// True if a PSN cannot be complete because a rank has left before it.
    fn has_left_before(&self, psn: u32) -> bool {
        let called = |rank: &Rank| rank.joined.filter(|_| rank.left)?.called;
        let lacks = |rank: &Rank| called(rank).is_some_and(|called| !after(called.una, psn));
        self.needed() > self.joined() && self.ranks.iter().any(lacks)
    }

    /// A member asks who is missing at a PSN.
    pub(super) fn query(&mut self, now: Duration, request: &ControlRequest) -> Result<Decision, Decision> {
        let at = self.rank(&request.header)?;
        let member = self.is_member(request);
        let Some(joined) = self.ranks[at].joined.as_mut().filter(|_| member) else {
            return Err(Decision::new(Status::NotMember, 0, u32::from(request.header.rank)).hidden());
        };
        joined.alive = now;
        let psn = request.control.psn;
        let left = self.state.running().is_some() && self.has_left_before(psn);
        let status = if left { Status::RankLeft } else { Status::Ok };
        // Ranks that are past the PSN have its result.
        let called = self.present().filter_map(|(_, joined)| joined.called);
        let ahead = called.filter(|called| after(called.una, psn)).count();
        let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
        Ok(Decision { names: Names::Missing { psn }, ..Decision::new(status, 0, ahead) })
    }

    /// What is known of the ranks that keep others from getting on now; nothing while nobody waits.
    pub(super) fn holding_up(&self, now: Duration) -> RankReports {
        let waiting = self.called_lately(now).filter(|(_, called)| called.bytes > 0);
        let waiting = waiting.map(|(_, called)| called.una);
        let front = waiting.reduce(|front, una| if after(una, front) { una } else { front });
        match (&self.state, front) {
            (State::Forming { .. }, _) if self.joined() == 0 => RankReports::EMPTY,
            (State::Forming { .. }, _) => {
                self.reports(now, 0, |state| (state as u8) < RankState::Silent as u8)
            }
            (State::Complete(_), Some(psn)) => self.reports(now, psn, |state| state != RankState::Here),
            (State::Complete(_) | State::Broken(_), _) => {
                self.reports(now, front.unwrap_or(0), |state| state == RankState::Lost)
            }
        }
    }

    /// What is known of the ranks that keep a PSN from being complete, those first that need not be waited
    /// for.
    pub(super) fn reports(&self, now: Duration, psn: u32, which: impl Fn(RankState) -> bool) -> RankReports {
        let all = (0..).zip(&self.ranks).map(|(number, rank)| self.report(now, number, rank, psn));
        let mut missing: Vec<RankReport> = all.filter(|report| which(report.state)).collect();
        // Who is blocked does not come by itself; who is behind does.
        let hope = |state| if state == RankState::Behind { u8::MAX } else { state as u8 };
        missing.sort_by_key(|report| (hope(report.state), core::cmp::Reverse(report.behind), report.rank));
        let mut reports = RankReports::EMPTY;
        for report in self.report_of_parent(now).into_iter().chain(missing).take(RankReports::MAX) {
            let _ = reports.push(report);
        }
        reports
    }

    fn report(&self, now: Duration, number: u16, rank: &Rank, psn: u32) -> RankReport {
        let (address, port) = match (rank.joined, rank.latest) {
            (None, None) => (Address::from_v6([0; 16]), 0),
            (Some(joined), _) => source(&joined.endpoint),
            (None, Some(latest)) => latest.source,
        };
        let sent = self.cells.contributions_of(number);
        // What has come since it was last looked at may be quite recent.
        let silent = rank.joined.filter(|joined| sent.is_none_or(|sent| sent == joined.sent.0));
        // An appliance that says that it is alive is not silent, whatever its ranks do.
        let silent = silent.map(|joined| now.saturating_sub(joined.seen().max(joined.alive)));
        let silent = silent.unwrap_or_default();
        let called = rank.joined.and_then(|joined| joined.called);
        let overtaken = rank.joined.is_some_and(|joined| matches!(joined.overtaken, Overtaken::Yes(_)));
        let behind = called.map_or(0, |called| {
            // Whoever has not called the operation has not contributed to its first PSN either.
            let begun = called.is_under_way() && after(called.end(self.payload), psn);
            let lacks = psn.wrapping_sub(called.una);
            // Who has only joined so far has named no PSN, and nobody who can go on lags behind by more than
            // a window.
            let known = lacks <= u32::from(self.granted()) || overtaken && lacks < 1 << 31;
            if known { lacks + u32::from(!begun) } else { 0 }
        });
        let state = match rank {
            Rank { lost: true, .. } => RankState::Lost,
            Rank { left: true, .. } => RankState::Left,
            Rank { joined: None, latest, .. } if latest.is_some_and(|latest| latest.left) => RankState::Left,
            Rank { joined: None, .. } => RankState::NeverJoined,
            _ if silent >= SILENT => RankState::Silent,
            _ if overtaken => RankState::Overtaken,
            Rank { joined: Some(joined), .. } if joined.is_blocked(now) => RankState::Blocked,
            _ if behind > 0 => RankState::Behind,
            _ => RankState::Here,
        };
        let silent_ms = u32::try_from(silent.as_millis()).unwrap_or(u32::MAX);
        RankReport { rank: number, state, silent_ms, behind, port, address }
    }
}

impl Joined {
    /// True if it waits inside an operation, and nothing comes of what it sends for that: it sends its oldest
    /// contribution again every 100 ms at least.
    fn is_blocked(&self, now: Duration) -> bool {
        let waits = self.called.is_some_and(|called| called.bytes > 0);
        waits && now.saturating_sub(self.moved.max(self.sent.1)) >= SILENT
    }
}

#[cfg(test)]
mod tests;
