//! The driver of an asynchronous worker: [`AsyncWorker`].

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::Path;
use std::time::Instant;

use core::time::Duration;

use nix::poll::PollFlags;
use pascaline_seal::{KeyError, LONGER, Protection};

use super::handshake::handshake;
use super::reach::Asker;
use super::sealing::Sealing;
use super::seals::Seals;
use super::socket::{BATCH, Socket};
use super::transfer::transient;
use super::worker::{session_number, unix_ns};
use super::{Addresses, Config, ConfigError, Interrupt, JoinError, Notice};
use crate::asynchronous::session::MOST_OUTSTANDING;
use crate::asynchronous::{
    AsyncCounters, AsyncSession, Initial, JUMBO_MTU, Policy, Push, PushError, Settings, most_floats,
};
use crate::identity::{Identity, Membership};
use crate::membership::{Join, Left};

/// Where to join, as what, and how to behave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsyncConfig {
    /// The appliance's address.
    pub appliance: SocketAddr,
    /// Further addresses of it, where its name has several, none by default. Joining takes the first of all
    /// that answers.
    pub others: Vec<SocketAddr>,
    /// The job: Olaf's cluster.
    pub job: u16,
    /// This worker's rank, below `ranks`.
    pub rank: u16,
    /// The job's rank count, 1 to 1,024.
    pub ranks: u16,
    /// The model's 32-bit floats, the same for all ranks. All of them travel in one packet.
    pub floats: usize,
    /// Updates that may be in flight, 1 by default; at most 64.
    pub outstanding: NonZeroU16,
    /// When updates are sent: at will by default.
    pub policy: Policy,
    /// The seed of transmission control's random numbers, 1 by default.
    pub seed: u64,
    /// The DSCP of this worker's packets and of the answers, 0 to 63; 0 by default.
    pub dscp: u8,
    /// The local address and port; by default, routing's choice, and any free port.
    pub bind: Option<SocketAddr>,
    /// How long to wait until all ranks have joined, 30 s by default.
    pub join_deadline: Duration,
    /// An error ends the run if no update is applied for this long; 10 s by default.
    pub patience: Duration,
    /// How long a worker that leaves waits for the others, 500 ms by default.
    pub linger: Duration,
    /// As [`Config::notice`], while it joins; later of what hinders seals.
    pub notice: Option<Notice>,
    /// As [`Config::interrupt`].
    pub interrupt: Option<Interrupt>,
    /// As [`Config::seals`].
    pub seals: Option<Seals>,
}

impl AsyncConfig {
    /// A configuration with the defaults.
    #[must_use]
    pub const fn new(appliance: SocketAddr, job: u16, rank: u16, ranks: u16, floats: usize) -> Self {
        Self {
            appliance,
            others: Vec::new(),
            job,
            rank,
            ranks,
            floats,
            outstanding: NonZeroU16::MIN,
            policy: Policy::AtWill,
            seed: 1,
            dscp: 0,
            bind: None,
            join_deadline: Duration::from_secs(30),
            patience: Duration::from_secs(10),
            linger: Duration::from_millis(500),
            notice: None,
            interrupt: None,
            seals: None,
        }
    }

    /// With the key of a job whose packets are sealed: as [`Config::sealed`].
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn sealed(self, file: &Path, protection: Protection) -> Result<Self, KeyError> {
        let seals = Seals::read(file, (self.job, self.rank), 1, protection)?;
        Ok(Self { seals: Some(seals), ..self })
    }

    /// Payload bytes of the model, as a Join has them: in multiples of 8.
    fn payload(&self) -> Option<u16> {
        u16::try_from(self.floats.checked_mul(size_of::<f32>())?.checked_next_multiple_of(8)?).ok()
    }

    fn name(&self) -> Addresses {
        Addresses { first: self.appliance, others: self.others.clone() }
    }

    /// With the one address at which an appliance answers, as [`Config::settled`].
    ///
    /// # Errors
    /// [`JoinError::Failed`] if none answers before the deadline for joining.
    pub fn settled(&self) -> Result<Self, JoinError> {
        let begun = Instant::now();
        let &Self { job, rank, ranks, bind, dscp, notice, interrupt, join_deadline: limit, .. } = self;
        let identity = Identity { job, rank, ranks, payload: 0 };
        let holder = self.seals.as_ref().and_then(|seals| seals.holder(job).cloned());
        let asker = Asker { identity, bind, dscp, limit, notice, interrupt, holder };
        let mut name = self.name();
        name.keep(bind.map(|bind| bind.is_ipv4()));
        let appliance = asker.find(&name)?;
        let join_deadline = limit.saturating_sub(begun.elapsed());
        Ok(Self { appliance, others: Vec::new(), join_deadline, ..self.clone() })
    }

    /// The most floats of a model with this MTU.
    fn most_floats(&self, mtu: usize) -> usize {
        let seal = self.seals.as_ref().map_or(0, |_| LONGER);
        most_floats(mtu.saturating_sub(seal), self.appliance.is_ipv6())
    }

    fn check(&self) -> Result<u16, AsyncJoinError> {
        let jumbo = self.most_floats(JUMBO_MTU);
        let too_large = |limit, mtu| AsyncJoinError::ModelTooLarge { floats: self.floats, limit, mtu, jumbo };
        if self.floats > jumbo {
            return Err(too_large(jumbo, JUMBO_MTU));
        }
        let payload = self.payload().ok_or(too_large(jumbo, JUMBO_MTU))?;
        let &Self { appliance, job, rank, ranks, bind, .. } = self;
        let several = vec![self.name()];
        let plain = Config::new(appliance, job, rank, ranks);
        let common = Config { payload, bind, dscp: self.dscp, several, ..plain };
        common.check().map_err(JoinError::from)?;
        if payload == 0 {
            return Err(JoinError::from(ConfigError::Payload { payload }).into());
        }
        if self.outstanding.get() > MOST_OUTSTANDING {
            return Err(AsyncJoinError::Outstanding { outstanding: self.outstanding.get() });
        }
        if matches!(self.policy, Policy::Olaf { threshold: Duration::ZERO, .. }) {
            return Err(AsyncJoinError::Threshold);
        }
        Ok(payload)
    }
}

/// Why an asynchronous worker could not join.
#[derive(Debug, thiserror::Error)]
pub enum AsyncJoinError {
    /// As with a synchronous worker.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// An update has to fit into one packet, and so has its acknowledgement.
    #[error(
        "a model of {floats} floats does not fit into one packet: with an MTU of {mtu} bytes \
         at most {limit} do, with jumbo frames (9000 bytes) at most {jumbo}; \
         larger models train in synchronous mode (a job with \
         mode = \"sync\", `Worker::allreduce`, `pascaline worker allreduce`)"
    )]
    ModelTooLarge {
        /// The model's floats.
        floats: usize,
        /// The most floats that fit.
        limit: usize,
        /// The path's MTU, or that of jumbo frames if these would be too small as well.
        mtu: usize,
        /// The most floats that fit into a jumbo frame.
        jumbo: usize,
    },
    /// More updates in flight than can be remembered.
    #[error("{outstanding} updates in flight: at most {MOST_OUTSTANDING}")]
    Outstanding {
        /// The number asked for.
        outstanding: u16,
    },
    /// With a threshold of 0, every update would be sent.
    #[error("a threshold of 0 s disables transmission control: choose one above 0")]
    Threshold,
}

/// A member of a job that trains asynchronously (Olaf).
///
/// No call but [`join`](Self::join), [`wait`](Self::wait) and [`leave`](Self::leave) ever waits. A packet
/// that the system does not accept at once counts as lost, as if the network had lost it. The trainer should
/// call [`push`](Self::push) or [`poll`](Self::poll) several times a second: then the appliance hears that
/// the worker is alive.
pub struct AsyncWorker {
    socket: Socket,
    session: AsyncSession,
    origin: Instant,
    buffer: Vec<u8>,
    linger: Duration,
    /// Its end of the path, if packets are sealed.
    sealing: Option<Sealing>,
    notice: Option<Notice>,
}

impl core::fmt::Debug for AsyncWorker {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("AsyncWorker").field("membership", self.session.membership()).finish_non_exhaustive()
    }
}

impl AsyncWorker {
    /// Joins a job and waits until all its ranks have.
    ///
    /// # Errors
    /// See [`AsyncJoinError`].
    pub fn join(config: &AsyncConfig, initial: Initial<'_>) -> Result<Self, AsyncJoinError> {
        let payload = config.check()?;
        let config = &config.settled()?;
        let io = |what| move |source| JoinError::Io { what, source };
        let longest = pascaline_wire::header::LEN + usize::from(payload) + pascaline_wire::trailer::MAX_LEN;
        let mut buffer = vec![0; longest.max(512) + LONGER];
        let socket = Socket::open(config.bind, config.appliance).map_err(io("cannot open a UDP socket"))?;
        socket.set_dscp(config.dscp).map_err(io("cannot set the DSCP"))?;
        socket.make_room(buffer.len() * usize::from(MOST_OUTSTANDING));
        if let Some(mtu) = socket.path_mtu() {
            let (limit, jumbo) = (config.most_floats(mtu), config.most_floats(JUMBO_MTU));
            if config.floats > limit {
                return Err(AsyncJoinError::ModelTooLarge { floats: config.floats, limit, mtu, jumbo });
            }
        }
        let AsyncConfig { job, rank, ranks, .. } = *config;
        let origin = Instant::now();
        let identity = Identity { job, rank, ranks, payload };
        let number = session_number();
        let join = Join::new(identity, number, 1, Duration::ZERO, config.join_deadline);
        let mut join = join.at(config.appliance);
        let hooks = (config.notice, config.interrupt);
        let key = config.seals.as_ref().and_then(|seals| Some((seals.holder(job)?, seals.key_file(job))));
        let mut sealing = key.map(|key| Sealing::new(key, number, Duration::ZERO));
        let ends = (&mut join, &mut [][..]);
        let membership = handshake((&socket, &[]), ends, sealing.as_mut(), origin, &mut buffer, hooks)
            .map_err(io("cannot use the UDP socket"))?
            .map_err(|failure| JoinError::Failed {
                appliance: config.appliance,
                others: Vec::new(),
                failure,
            })?;
        let settings = Settings {
            floats: config.floats,
            outstanding: config.outstanding,
            policy: config.policy,
            seed: config.seed,
            patience: config.patience,
        };
        let session = AsyncSession::new(membership, settings, initial);
        buffer.resize(session.longest() + LONGER, 0);
        if let Some(sealing) = &mut sealing {
            sealing.make_room(session.longest());
        }
        let (linger, notice) = (config.linger, config.notice);
        Ok(Self { socket, session, origin, buffer, linger, sealing, notice })
    }

    /// Offers an update that has been generated just now, and returns at once.
    ///
    /// # Errors
    /// See [`PushError`]. Errors of the network are none: they are counted, and the update is lost.
    pub fn push(&mut self, gradient: &[f32], reward: f32) -> Result<Push, PushError> {
        // An arrived answer may end the wait for an earlier update.
        self.poll();
        let push = self.session.push(self.origin.elapsed(), unix_ns(), gradient, reward)?;
        self.flush();
        Ok(push)
    }

    /// Handles arrived datagrams, and returns the newest weights and how often weights have come: 0 means
    /// that they are still the worker's own. Returns at once.
    pub fn poll(&mut self) -> (&[f32], u64) {
        self.receive();
        self.flush();
        self.session.weights()
    }

    /// Waits until something arrives or is due, or for `longest`: for a trainer that has nothing else to do.
    ///
    /// # Errors
    /// The operating system's.
    pub fn wait(&mut self, longest: Duration) -> io::Result<()> {
        let due = self.session.poll_timeout().map(|due| due.saturating_sub(self.origin.elapsed()));
        self.socket.wait(PollFlags::POLLIN, due.map_or(longest, |due| due.min(longest)))?;
        self.poll();
        Ok(())
    }

    /// Leaves the job. Waits for the appliance's answer, or for [`AsyncConfig::linger`] if other ranks
    /// continue.
    pub fn leave(mut self) -> (Left, AsyncCounters) {
        self.session.leave(self.origin.elapsed(), self.linger);
        let left = loop {
            self.flush();
            if let Some(left) = self.session.handle_timeout(self.origin.elapsed()).or_else(|| self.receive())
            {
                break left;
            }
            let due = self.session.poll_timeout().unwrap_or_default().saturating_sub(self.origin.elapsed());
            if self.socket.wait(PollFlags::POLLIN, due).is_err() {
                break Left::Lingered;
            }
        };
        (left, *self.session.counters())
    }

    /// All that the worker has done so far.
    #[must_use]
    pub const fn counters(&self) -> &AsyncCounters {
        self.session.counters()
    }

    /// How long it takes from sending an update to its acknowledgement, smoothed.
    #[must_use]
    pub const fn round_trip(&self) -> Option<Duration> {
        self.session.round_trip()
    }

    /// The terms that the appliance agreed to.
    #[must_use]
    pub const fn membership(&self) -> &Membership {
        self.session.membership()
    }

    fn receive(&mut self) -> Option<Left> {
        let mut left = None;
        // At most a few batches, even if more keep coming.
        for _ in 0..4 * BATCH {
            match transient(self.socket.receive(&mut self.buffer)) {
                Ok(Some(length)) => {
                    let now = self.origin.elapsed();
                    let opened = match &mut self.sealing {
                        Some(sealing) => sealing.open(now, &mut self.buffer[..length]),
                        None => Ok(length),
                    };
                    match opened {
                        Ok(length) => {
                            let end = self.session.handle_datagram(now, &self.buffer[..length]);
                            left = left.or(end);
                        }
                        Err(why) => self.session.counters_mut().unopened(why),
                    }
                }
                Ok(None) => break,
                Err(_) => {
                    self.session.counters_mut().unreachable += 1;
                    break;
                }
            }
        }
        let end = self.session.handle_timeout(self.origin.elapsed());
        left.or(end)
    }

    fn flush(&mut self) {
        let now = self.origin.elapsed();
        if let Some(sealing) = &mut self.sealing {
            if sealing.renew(now) {
                self.session.ask_soon(now);
            }
            if let Some(notice) = self.notice {
                sealing.notify(notice, &self.session.membership().identity, now);
            }
        }
        while let Ok(Some(length)) = self.session.poll_transmit(self.origin.elapsed(), &mut self.buffer) {
            let plain = &self.buffer[..length];
            let datagram = self.sealing.as_mut().map_or(plain, |sealing| sealing.seal(plain));
            match transient(self.socket.send(datagram)) {
                Ok(Some(_)) => {}
                Ok(None) => self.session.counters_mut().not_sent += 1,
                Err(_) => self.session.counters_mut().unreachable += 1,
            }
        }
    }
}

impl Drop for AsyncWorker {
    /// No rank has to wait for a dropped worker, and its rank is free for the next one.
    fn drop(&mut self) {
        if !self.session.is_leaving() {
            self.session.leave(self.origin.elapsed(), Duration::ZERO);
            self.flush();
        }
    }
}
