//! All clusters together.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use pascaline_wire::control::Status;
use pascaline_wire::{Element, Flags, Header, Kind, Own, Trailer, trailer};

use super::age::{Age, jain};
use super::kept::Kept;
use super::outcome::{AsyncCounters, AsyncOutcome};
use super::pace::Pace;
use super::rule::{Combined, Gradient, Judged, Model, Rule, all_finite};

/// Replies that may wait for the driver.
const MOST_REPLIES: usize = 1024;

/// The receivers of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// To all workers of the cluster (Olaf, section 7): each of them may be part of the update. An update
    /// that changes nothing is acknowledged without weights: all have them.
    Cluster,
    /// Only to the worker in whose name the update came (section 2.1). Always with weights: others may have
    /// changed them.
    Worker,
}

/// How a server trains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The rule by which updates change weights.
    pub rule: Rule,
    /// The payload of an update that stands for several.
    pub combined: Combined,
    /// The receivers of weights.
    pub audience: Audience,
    /// With Olaf's rule: how long the highest reward counts, if no update reaches it. An unreachable one,
    /// sent by mistake, must not end training.
    pub memory: Duration,
}

impl Default for Settings {
    /// Olaf's rule for sums, weights for the whole cluster, and a minute for the highest reward.
    fn default() -> Self {
        let (rule, memory) = (Rule::default(), Duration::from_secs(60));
        Self { rule, combined: Combined::Sum, audience: Audience::Cluster, memory }
    }
}

/// A generation of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsyncJob {
    /// Ranks of the job.
    pub fan_in: u16,
    /// The job's generation.
    pub epoch: u16,
    /// Bytes of the model, in multiples of 8 as ranks join with: the model may be a float shorter.
    pub payload: u16,
}

impl AsyncJob {
    /// Checks that a packet is of this generation and from a rank of the job.
    const fn admit(&self, header: &Header) -> Result<(), AsyncOutcome> {
        let Self { fan_in, epoch, .. } = *self;
        if header.epoch != epoch {
            Err(AsyncOutcome::WrongEpoch)
        } else if header.rank >= fan_in || header.fan_in != fan_in || header.count == 0 {
            Err(AsyncOutcome::WrongMember)
        } else {
            Ok(())
        }
    }
}

/// A cluster: a job with its model.
#[derive(Debug)]
pub struct Cluster {
    job: AsyncJob,
    model: Option<Model>,
    /// Whether a worker of this generation has sent a model of this length: `payload` is less exact.
    met: bool,
    /// From the first packet on.
    age: Option<Age>,
}

impl Cluster {
    /// How old the newest update received is. `None` before the first packet.
    #[must_use]
    pub const fn age(&self) -> Option<&Age> {
        self.age.as_ref()
    }

    /// How often the weights have changed.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.model.as_ref().map_or(0, Model::version)
    }

    /// The highest reward of an update that has changed the weights.
    #[must_use]
    pub fn reward(&self) -> Option<f32> {
        self.model.as_ref().and_then(Model::reward)
    }

    /// The generation.
    #[must_use]
    pub const fn job(&self) -> &AsyncJob {
        &self.job
    }

    /// Checks the values of a packet.
    fn check(&self, header: &Header, payload: &[u8]) -> Result<(), AsyncOutcome> {
        if header.element != Element::F32_SUM || !self.fits(payload.len()) {
            return Err(AsyncOutcome::WrongModel);
        }
        if all_finite(payload) { Ok(()) } else { Err(AsyncOutcome::NotFinite) }
    }

    /// Whether this is the model's length in bytes, or could be if there is none yet.
    fn fits(&self, bytes: usize) -> bool {
        match &self.model {
            Some(model) => bytes == size_of_val(model.weights()),
            None => {
                bytes > 0
                    && bytes.is_multiple_of(4)
                    && bytes.next_multiple_of(8) == usize::from(self.job.payload)
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Reply {
    job: u16,
    rank: u16,
    psn: u32,
    count: u16,
    update: trailer::Update,
    /// For how long the cluster is to pause, in units.
    pause: u16,
    /// For that rank only.
    alone: bool,
    with_weights: bool,
    /// Why it was not taken.
    why: Option<Status>,
}

/// The parameter server of asynchronous jobs.
///
/// Calling contract. Times are nanoseconds since 1970, of a clock that workers and server share: an update's
/// age is measured with it. After [`handle_datagram`](Self::handle_datagram), call
/// [`next_reply`](Self::next_reply) until there is none and send what it writes to the appliance. A lost
/// reply is a lost packet: no worker waits for it forever.
///
/// A server without a model, as after a restart, does not invent one: it answers updates with that status,
/// and takes the weights that the first worker then offers.
#[derive(Debug)]
pub struct AsyncServer {
    settings: Settings,
    clusters: BTreeMap<u16, Cluster>,
    pace: Pace,
    replies: VecDeque<Reply>,
    counters: AsyncCounters,
    /// Models for jobs that are not served yet.
    kept: BTreeMap<u16, Kept>,
}

impl AsyncServer {
    /// A server without jobs.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            clusters: BTreeMap::new(),
            pace: Pace::default(),
            replies: VecDeque::with_capacity(MOST_REPLIES),
            counters: AsyncCounters::default(),
            kept: BTreeMap::new(),
        }
    }

    /// Lets a job begin with a kept model, once its workers' model has that length.
    pub fn restore(&mut self, kept: Kept) {
        self.kept.insert(kept.job, kept);
    }

    /// A job's model for a file; `None` while there is none.
    #[must_use]
    pub fn keep(&self, job: u16) -> Option<Kept> {
        let model = self.clusters.get(&job)?.model.as_ref()?;
        let (weights, average) = (model.weights().to_vec(), model.average().to_vec());
        Some(Kept { job, version: model.version(), weights, average })
    }

    /// Serves a job, or its next generation. The model outlives generations, since a worker that starts anew
    /// does not undo the training so far, unless its length changes. The highest reward does not.
    pub fn set_job(&mut self, id: u16, job: AsyncJob) {
        match self.clusters.get_mut(&id) {
            Some(cluster) if cluster.job.payload == job.payload => {
                if let Some(model) = cluster.model.as_mut().filter(|_| cluster.job.epoch != job.epoch) {
                    model.forget_reward();
                    cluster.met = false;
                }
                cluster.job = job;
            }
            _ => {
                let mut cluster = Cluster { job, model: None, met: false, age: None };
                let fits = self.kept.get(&id).is_some_and(|kept| cluster.fits(4 * kept.weights.len()));
                let kept = fits.then(|| self.kept.remove(&id)).flatten();
                cluster.model = kept.map(|kept| Model::kept(kept.weights, kept.average, kept.version));
                self.clusters.insert(id, cluster);
            }
        }
    }

    /// Forgets a job and its model. False if there was none.
    pub fn remove_job(&mut self, id: u16) -> bool {
        self.replies.retain(|reply| reply.job != id);
        self.pace.remove(id);
        self.clusters.remove(&id).is_some()
    }

    /// Handles a datagram.
    pub fn handle_datagram(&mut self, unix_ns: u64, datagram: &[u8]) -> AsyncOutcome {
        let outcome = match Header::parse(datagram) {
            Ok((header, body)) => self.handle(unix_ns, &header, body).unwrap_or_else(|rejected| rejected),
            Err(_) => AsyncOutcome::Malformed,
        };
        self.counters.note(outcome);
        outcome
    }

    fn handle(&mut self, unix_ns: u64, header: &Header, body: &[u8]) -> Result<AsyncOutcome, AsyncOutcome> {
        let initial = header.kind == Kind::Gradient && header.flags.has(Flags::BYPASS);
        if !initial && header.kind != Kind::Update {
            return Err(AsyncOutcome::Unexpected);
        }
        let (payload, trailer) = header.payload(body).map_err(|_| AsyncOutcome::Malformed)?;
        let cluster = self.clusters.get(&header.job).ok_or(AsyncOutcome::UnknownJob)?;
        cluster.job.admit(header)?;
        let update = trailer.and_then(|trailer| trailer.update);
        let outcome = if initial {
            self.offered(unix_ns, header, payload)
        } else {
            self.updated(unix_ns, header, payload, update)
        };
        if let Err(why) = outcome {
            // The workers inside of a combined update are not known.
            let alone = header.count <= 1;
            let update = update.unwrap_or(trailer::Update { reward: 0.0, generated_ns: 0 });
            self.reply(Reply {
                alone,
                with_weights: false,
                why: why.status(),
                count: header.count,
                update,
                ..Reply::to(header)
            });
        }
        outcome
    }

    /// Initial weights.
    fn offered(
        &mut self,
        unix_ns: u64,
        header: &Header,
        payload: &[u8],
    ) -> Result<AsyncOutcome, AsyncOutcome> {
        let cluster = self.clusters.get_mut(&header.job).ok_or(AsyncOutcome::UnknownJob)?;
        // A model from before may be a float longer or shorter than that of the present workers.
        let old =
            cluster.model.take_if(|model| !cluster.met && size_of_val(model.weights()) != payload.len());
        let first = cluster.model.is_none();
        if first {
            let checked = cluster.check(header, payload);
            cluster.model = if checked.is_ok() { Some(Model::new(payload)) } else { old };
            checked?;
            cluster.age = Some(Age::new(unix_ns));
        } else if !cluster.fits(payload.len()) {
            return Err(AsyncOutcome::WrongModel);
        }
        cluster.met = true;
        self.reply(Reply::to(header));
        Ok(if first { AsyncOutcome::Initialised } else { AsyncOutcome::NotFirst })
    }

    fn updated(
        &mut self,
        unix_ns: u64,
        header: &Header,
        payload: &[u8],
        update: Option<trailer::Update>,
    ) -> Result<AsyncOutcome, AsyncOutcome> {
        let cluster = self.clusters.get_mut(&header.job).ok_or(AsyncOutcome::UnknownJob)?;
        let Settings { rule, combined, audience, memory } = self.settings;
        let update = update.filter(|update| update.reward.is_finite()).ok_or(AsyncOutcome::NoUpdate)?;
        cluster.check(header, payload)?;
        let model = cluster.model.as_mut().ok_or(AsyncOutcome::NoModel)?;
        let age = Duration::from_nanos(unix_ns.saturating_sub(update.generated_ns));
        let (count, reward, now) = (header.count, update.reward, unix_ns);
        let judged = model.apply(rule, memory, &Gradient { payload, combined, count, reward, age, now });
        if judged == Judged::Diverges {
            return Err(AsyncOutcome::Diverges);
        }
        // It has arrived, whatever the rule decides.
        cluster.met = true;
        cluster.age.get_or_insert_with(|| Age::new(unix_ns)).receive(unix_ns, update.generated_ns);
        let pause = self.pace.on_update(header.job, Duration::from_nanos(unix_ns), age);
        self.counters.contributions += u64::from(count);
        let alone = audience == Audience::Worker;
        let applied = judged == Judged::Applied;
        let outcome = if applied { AsyncOutcome::Applied } else { AsyncOutcome::LowReward };
        let (with_weights, why) = (alone || applied, outcome.status());
        self.reply(Reply { count, update, pause, alone, with_weights, why, ..Reply::to(header) });
        Ok(outcome)
    }

    fn reply(&mut self, reply: Reply) {
        if self.replies.len() == MOST_REPLIES {
            self.replies.pop_front();
            self.counters.replies_lost += 1;
        }
        self.replies.push_back(reply);
    }

    /// Replaces the content of `into` by the next reply, a datagram for the appliance. False if there is
    /// none. Weights are the present ones.
    pub fn next_reply(&mut self, into: &mut Vec<u8>) -> bool {
        let Some(reply) = self.replies.pop_front() else { return false };
        let Some(cluster) = self.clusters.get(&reply.job) else { return false };
        let weights = cluster.model.as_ref().filter(|_| reply.with_weights).map_or(&[][..], Model::weights);
        let trailer = Trailer { update: Some(reply.update), ..Trailer::default() };
        let mut end = [0; trailer::MAX_LEN];
        let length = trailer.emit(&mut end).unwrap_or(0);
        let header = Header {
            kind: Kind::Ack,
            flags: if reply.alone { Flags::TRAILER.with(Flags::BYPASS) } else { Flags::TRAILER },
            element: Element::F32_SUM,
            job: reply.job,
            rank: reply.rank,
            psn: reply.psn,
            fan_in: cluster.job.fan_in,
            count: reply.count,
            own: Own::answer(reply.why.unwrap_or(Status::Ok), reply.pause),
            epoch: cluster.job.epoch,
        };
        into.clear();
        into.extend_from_slice(&header.to_bytes());
        into.extend(weights.iter().flat_map(|weight| weight.to_le_bytes()));
        into.extend_from_slice(&end[..length]);
        self.counters.replies += 1;
        true
    }

    /// The counts so far.
    #[must_use]
    pub const fn counters(&self) -> &AsyncCounters {
        &self.counters
    }

    /// The clusters that are served, by job number.
    pub fn clusters(&self) -> impl Iterator<Item = (u16, &Cluster)> {
        self.clusters.iter().map(|(&id, cluster)| (id, cluster))
    }

    /// A cluster's weights; `None` if there is no such cluster, or none yet.
    #[must_use]
    pub fn weights(&self, job: u16) -> Option<&[f32]> {
        self.clusters.get(&job)?.model.as_ref().map(Model::weights)
    }

    /// Jain's index of the clusters' average ages up to `unix_ns`.
    #[must_use]
    pub fn fairness(&self, unix_ns: u64) -> f64 {
        let ages: Vec<f64> =
            self.clusters.values().filter_map(|cluster| Some(cluster.age()?.average(unix_ns))).collect();
        jain(&ages)
    }
}

impl Reply {
    /// The answer to initial weights: the present ones, for the sender.
    const fn to(header: &Header) -> Self {
        Self {
            job: header.job,
            rank: header.rank,
            psn: header.psn,
            count: 1,
            update: trailer::Update { reward: 0.0, generated_ns: 0 },
            pause: 0,
            alone: true,
            with_weights: true,
            why: None,
        }
    }
}
