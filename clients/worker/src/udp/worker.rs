use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime};

use core::time::Duration;

use pascaline_wire::CongestionControl;
use zerocopy::IntoBytes as _;

use super::serving::{Broken, serve};
use super::tree::Tree;
use super::{AllreduceError, CommandError, Config, JoinError};
use crate::Op;
use crate::allreduce::{Failure, Report};
use crate::collective::Collective;
use crate::counters::Counters;
use crate::deal::Work;
use crate::element::Element;
use crate::identity::Membership;
use crate::membership::Left;
use crate::pieces::Pieces;
use crate::priority::Hints;
use crate::rejection::Reason;
use crate::session::{Command, Event};

/// A member of a job, connected to its appliance.
///
/// All ranks must call [`allreduce`](Self::allreduce) and the other collectives with tensors of the same type
/// and length, and the same operation, in the same order. Between calls, reminders from other ranks wait in
/// the socket; in long pauses [`tend`](Self::tend) answers them. A worker that is dropped without
/// [`leave`](Self::leave), or fails, says that it gives up and waits for no rank: its rank is free at once,
/// but the others may miss results that only it had.
///
/// If the appliance restarts, or continues without a dead rank, the worker joins again and the allreduce
/// resumes, within the deadline. Where the job has several [trees](Config::trees), that holds for each of
/// them; but a restarted rank, and with it a generation that cannot be resumed, ends the worker: all ranks
/// join again.
pub struct Worker {
    pub(super) config: Config,
    pub(super) trees: Vec<Tree>,
    pub(super) origin: Instant,
    /// Calls of collectives so far: the same number at all ranks.
    pub(super) calls: u64,
    /// The sum of all trees' counters, if there are several.
    counters: Counters,
    /// A tensor in 16 bits.
    pub(super) narrowed: Vec<u16>,
    /// A masked tensor.
    pub(super) masked: Vec<u32>,
    /// How many generations have ended that could not be resumed, as reported to users.
    pub(super) ended: u64,
    /// The generation begun with the latest end, and the one that ended.
    pub(super) latest: (u16, u16),
    /// No operation begins: this one was requested before the end of a generation was visible.
    pub(super) outdated: bool,
    /// Set from another thread: operations in flight end at once, and no others begin.
    pub(super) aborted: Arc<AtomicBool>,
}

impl core::fmt::Debug for Worker {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Worker").field("config", &self.config).finish_non_exhaustive()
    }
}

/// How a worker left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Whether all ranks had left.
    pub left: Left,
    /// All that the worker did.
    pub counters: Counters,
}

impl Worker {
    /// Joins a job and waits until all its ranks have.
    ///
    /// # Errors
    /// See [`JoinError`]; a refusal says what disagreed.
    pub fn join(config: Config) -> Result<Self, JoinError> {
        config.check()?;
        let config = config.settled()?;
        let origin = Instant::now();
        let mut trees = Vec::with_capacity(1 + config.trees.len());
        for mut config in config.of_trees() {
            config.join_deadline = config.join_deadline.saturating_sub(origin.elapsed());
            let tree = Tree::join(&config, origin, &mut trees)?;
            trees.push(tree);
        }
        let counters = Counters::default();
        Ok(Self {
            config,
            trees,
            origin,
            calls: 0,
            counters,
            narrowed: Vec::new(),
            masked: Vec::new(),
            ended: 0,
            latest: (0, 0),
            outdated: false,
            aborted: Arc::default(),
        })
    }

    /// Replaces every element of `tensor` by the sum of that element over all ranks: [`allreduce_with`]
    /// without hints.
    ///
    /// # Errors
    /// As `allreduce_with`.
    ///
    /// [`allreduce_with`]: Self::allreduce_with
    pub fn allreduce<T: Element>(&mut self, tensor: &mut [T]) -> Result<Report, AllreduceError> {
        self.allreduce_with(tensor, Op::Sum, Hints::default())
    }

    /// Replaces every element of `tensor` by the combination of that element over all ranks by `op`. An empty
    /// tensor is done at once.
    ///
    /// `f32` and `f64` sums are rounded after each addition, in the order that the appliance is configured
    /// for; `f16` and `bf16` sums are made in `f32` and rounded at the end, and once for each part that was
    /// evicted from the pool; `i32` sums saturate, which [`Counters::overflows`] tells.
    ///
    /// `hints` and the time between calls make the priority with which the tensor contends for the
    /// appliance's memory: see [`priority`](crate::priority).
    ///
    /// # Errors
    /// See [`AllreduceError`]. It never waits beyond [`Config::deadline`].
    pub fn allreduce_with<T: Element>(
        &mut self,
        tensor: &mut [T],
        op: Op,
        hints: Hints,
    ) -> Result<Report, AllreduceError> {
        self.collective(&Collective::Allreduce(op), T::DTYPE, tensor.as_mut_bytes(), hints)
    }

    /// Runs the operations that the trees' sessions have begun to their end: each with its own tensor, or
    /// none. If it fails over one tree, it does over all. Only with one tree is a tensor made in `pieces`.
    pub(super) fn drive(
        &mut self,
        work: Work<'_>,
        pieces: Option<&mut (dyn Pieces + '_)>,
    ) -> Result<Event, Broken> {
        let ended = self.carry_out(work, pieces);
        let failed = !ended.as_ref().is_ok_and(|event| !is_failure(event));
        let generation = ended.as_ref().ok().and_then(ended_generation);
        if let Some(generation) = generation {
            self.note_end(generation);
        }
        // The end of a generation does not end its worker, unless another tree's generation does not end.
        if failed && (generation.is_none() || self.trees.len() > 1) {
            self.trees.iter_mut().for_each(Tree::abandon);
        }
        self.settle();
        ended
    }

    /// The end of a generation is about to be reported to the user.
    pub(super) fn note_end(&mut self, generation: (u16, u16)) {
        self.latest = generation;
        self.ended += 1;
    }

    /// As `drive`, until it ends over all trees or fails over one.
    fn carry_out(&mut self, work: Work<'_>, pieces: Option<&mut (dyn Pieces + '_)>) -> Result<Event, Broken> {
        let pairs = self.trees.iter_mut().zip(work);
        let mut exchanges: Vec<_> = pairs.map(|(tree, tensor)| tree.exchange(tensor)).collect();
        if let ([exchange], Some(pieces)) = (&mut exchanges[..], pieces) {
            exchange.pieces = Some(pieces);
        }
        serve(&mut exchanges, self.origin, self.config.notice, &self.aborted)
    }

    /// Answers the reminders that have come since the last call, and shows that this worker is alive, without
    /// waiting: for long pauses between allreduces. Otherwise other ranks may miss a result that the
    /// appliance has evicted, and the appliance declares a worker dead that is silent for the job's
    /// `dead_after` while others wait.
    ///
    /// # Errors
    /// The operating system's, from sending or receiving.
    pub fn tend(&mut self) -> io::Result<()> {
        for tree in &mut self.trees {
            tree.tend()?;
        }
        self.settle();
        Ok(())
    }

    /// Leaves the job. Answers reminders until all ranks have left, or no rank has needed it for
    /// [`Config::linger`].
    ///
    /// Errors of the socket end the wait.
    pub fn leave(mut self) -> Departure {
        let now = self.origin.elapsed();
        for tree in &mut self.trees {
            tree.session.leave(now, self.config.linger);
        }
        let left = match self.drive(self.everywhere(), None) {
            Ok(Event::Left(left)) => left,
            _ => Left::Lingered,
        };
        Departure { left, counters: *self.counters() }
    }

    /// Commands the job: see [`Command`]. Waits for the answer, for at most [`Config::deadline`].
    ///
    /// # Errors
    /// See [`CommandError`].
    pub fn command(&mut self, command: Command) -> Result<(), CommandError> {
        self.command_each(|_| command)
    }

    /// The same with a PSN that is counted from the generation's first one, of each tree its own.
    ///
    /// # Errors
    /// See [`CommandError`].
    pub fn command_from_first(&mut self, command: Command) -> Result<(), CommandError> {
        self.command_each(|at| command.counted_from(at.base))
    }

    fn command_each(&mut self, of: impl Fn(&Membership) -> Command) -> Result<(), CommandError> {
        let now = self.origin.elapsed();
        for tree in 0..self.trees.len() {
            let command = of(self.trees[tree].session.membership());
            if let Err(error) = self.trees[tree].session.command(now, command, self.config.deadline) {
                if tree > 0 {
                    self.trees.iter_mut().for_each(Tree::abandon);
                }
                return Err(error.into());
            }
        }
        let event = self.drive(self.everywhere(), None);
        match event.map_err(|(what, source)| CommandError::Io { what, source })? {
            Event::Commanded(outcome) => Ok(outcome?),
            Event::Completed | Event::Failed(_) | Event::Left(_) => Ok(()),
        }
    }

    /// Work without a tensor, at all trees.
    fn everywhere<'a>(&self) -> Work<'a> {
        self.trees.iter().map(|_| Some(&mut [][..])).collect()
    }

    /// Adds up the counters of the trees, of which none is waited for any more.
    fn settle(&mut self) {
        if self.trees.len() > 1 {
            let now = self.origin.elapsed();
            self.trees.iter_mut().for_each(|tree| tree.session.attend(now, false));
            let each = self.trees.iter().map(|tree| *tree.session.counters());
            self.counters = each.fold(Counters::default(), |sum, tree| sum + tree);
        }
    }

    /// Changes [`Config::deadline`] for the allreduces to come. Returns what it was.
    pub const fn set_deadline(&mut self, deadline: Duration) -> Duration {
        core::mem::replace(&mut self.config.deadline, deadline)
    }

    /// The terms that the appliance agreed to; of several trees, the first one's.
    #[must_use]
    pub fn membership(&self) -> &Membership {
        self.trees[0].session.membership()
    }

    /// The congestion control that it uses; of several trees, the first one's.
    #[must_use]
    pub fn control(&self) -> CongestionControl {
        self.trees[0].session.control()
    }

    /// All that the worker has done so far, over all trees.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        match &*self.trees {
            [tree] => tree.session.counters(),
            _ => &self.counters,
        }
    }

    /// The traffic of each tree so far, and its present appliance.
    pub fn trees(&self) -> impl Iterator<Item = TreeReport> {
        self.trees.iter().map(|tree| TreeReport {
            appliance: tree.appliance(),
            job: tree.session.membership().identity.job,
            counters: *tree.session.counters(),
        })
    }

    /// The address that the appliance sees, unless it is translated on the way; of several trees, at the
    /// first one.
    ///
    /// # Errors
    /// The operating system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.trees[0].local_addr()
    }
}

/// One of a worker's trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeReport {
    /// The appliance that it talks to: the tree's own, or its replacement.
    pub appliance: Option<SocketAddr>,
    /// Its job there.
    pub job: u16,
    /// Its counters.
    pub counters: Counters,
}

/// The generation that has begun, and the one that has ended with an operation in flight.
fn ended_generation(event: &Event) -> Option<(u16, u16)> {
    match event {
        Event::Failed(Failure::Rejected { rejection, .. }) if rejection.reason == Reason::Generation => {
            Some((u16::try_from(rejection.expected).ok()?, u16::try_from(rejection.got).ok()?))
        }
        _ => None,
    }
}

pub(super) const fn is_failure(event: &Event) -> bool {
    matches!(event, Event::Failed(_))
}

/// A random number: no other host knows it, and no other session of the rank has had it.
#[must_use]
pub fn session_number() -> u64 {
    // Without random numbers from the system, one that at least differs.
    getrandom::u64().unwrap_or_else(|_| unix_ns())
}

/// Nanoseconds since 1970.
pub(super) fn unix_ns() -> u64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)
}
