//! Violations of what must hold.

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A worker finished an allreduce with a wrong sum.
    #[error(
        "wrong sum: job {job} rank {rank}, operation {operation}, element {index} of {elements} is {got}, \
         the contributions make {expected}"
    )]
    WrongSum {
        /// The job.
        job: u16,
        /// The rank.
        rank: u16,
        /// The operation, from 0 where PSNs begin.
        operation: usize,
        /// The first wrong element.
        index: usize,
        /// Elements of the operation.
        elements: usize,
        /// Its value.
        got: String,
        /// The sum of all contributions.
        expected: String,
    },
    /// A worker's report about its results does not match their contents.
    #[error("job {job} rank {rank} finished operation {operation} with a wrong report: {why}")]
    WrongReport {
        /// The job.
        job: u16,
        /// The rank.
        rank: u16,
        /// The operation.
        operation: usize,
        /// The mismatch.
        why: String,
    },
    /// A worker's model is not made of its cluster's updates, or its counters do not add up.
    #[error("job {job} rank {rank}: {why}")]
    WrongModel {
        /// The job.
        job: u16,
        /// The rank.
        rank: u16,
        /// The mismatch.
        why: String,
    },
    /// Two ranks finished the same allreduce with different results.
    #[error(
        "job {job}: ranks {one} and {other} have finished operation {operation} with different results: \
         element {index} is {mine} and {theirs}"
    )]
    Differs {
        /// The job.
        job: u16,
        /// The rank that finished first.
        one: u16,
        /// The other.
        other: u16,
        /// The operation.
        operation: usize,
        /// The first element that differs.
        index: usize,
        /// Its value at the rank that finished first.
        mine: String,
        /// Its value at the other.
        theirs: String,
    },
    /// A worker finished an allreduce with a contribution of a rank that cannot have made one.
    #[error(
        "job {job} rank {rank} finished operation {operation} in generation {epoch}, \
         which rank {missing} has not joined"
    )]
    Incomplete {
        /// The job.
        job: u16,
        /// The rank that finished.
        rank: u16,
        /// The operation.
        operation: usize,
        /// The generation in which its PSNs began.
        epoch: u16,
        /// A rank that cannot have contributed.
        missing: u16,
    },
    /// Two lives of one rank were admitted to the same generation.
    #[error("job {job} rank {rank}: generation {epoch} has admitted it twice")]
    SharedGeneration {
        /// The job.
        job: u16,
        /// The rank.
        rank: u16,
        /// The generation.
        epoch: u16,
    },
    /// Ranks of one generation resume with different generations, or one of them with none.
    #[error(
        "job {job} rank {rank}: the PSNs of generation {epoch} began in generation {one} for some \
         and in {other} for others"
    )]
    HalfResumed {
        /// The job.
        job: u16,
        /// The rank that found out.
        rank: u16,
        /// The generation.
        epoch: u16,
        /// The generation in which the PSNs of the first ranks began.
        one: u16,
        /// The one in which this rank's began.
        other: u16,
    },
    /// A worker failed although nothing that excuses it happened to its job.
    #[error("job {job} rank {rank} failed without an excuse: {why}")]
    Unexcused {
        /// The job.
        job: u16,
        /// The rank.
        rank: u16,
        /// The typed error, in words.
        why: String,
    },
    /// An error names other ranks than those that were declared lost.
    #[error("job {job} rank {rank} received an error that ranks {named} died; declared lost were {lost:?}")]
    Misnamed {
        /// The job.
        job: u16,
        /// The rank that received the error.
        rank: u16,
        /// The ranks that its error names.
        named: String,
        /// Those that were declared lost, each time that some were.
        lost: Vec<Vec<u16>>,
    },
    /// A rank was declared lost although its heartbeats had arrived.
    #[error("job {job} rank {rank} was declared lost {silent_ms} ms after its last heartbeat")]
    Misjudged {
        /// The job.
        job: u16,
        /// The rank.
        rank: u16,
        /// Milliseconds since its last heartbeat.
        silent_ms: u64,
    },
    /// A worker learnt of a death too late.
    #[error("job {job} rank {rank} waited {waited_ms} ms for a dead rank; the limit is {limit_ms} ms")]
    LateNews {
        /// The job.
        job: u16,
        /// The rank that waited.
        rank: u16,
        /// Milliseconds since the other had died, or since it began to wait.
        waited_ms: u64,
        /// The job's `dead_after`, a heartbeat, and as many more as the network may lose.
        limit_ms: u64,
    },
    /// All ranks of a run were present, and it did not complete.
    #[error("run {run} has not completed, although all its ranks were present: {ends:?}")]
    NotCompleted {
        /// The run, from 1.
        run: u64,
        /// How each rank ended.
        ends: Vec<String>,
    },
    /// A worker reports that its job's multicast group reaches it, and no frame has come that way.
    #[error("job {job} rank {rank} reports that it hears its group, which has not reached it")]
    Pretended {
        /// The job.
        job: u16,
        /// The rank.
        rank: u16,
    },
    /// A worker was still busy after its deadline.
    #[error("job {job} rank {rank} is still {stage} after its deadline")]
    Overdue {
        /// The job.
        job: u16,
        /// The rank.
        rank: u16,
        /// Its stage.
        stage: &'static str,
    },
    /// Packets forwarded, absorbed, answered and dropped are not those received.
    #[error("{packets} packets unaccounted for: {account}")]
    Unaccounted {
        /// How many.
        packets: i128,
        /// The identity, written out.
        account: String,
    },
    /// The appliance has not received every packet that was delivered to it.
    #[error(
        "{delivered} packets were delivered to the lcores, {received} were received and {backlog} are left"
    )]
    Uncounted {
        /// Packets delivered to the ports, or to the queue from the parameter server.
        delivered: u64,
        /// Packets counted as received.
        received: u64,
        /// Packets not received yet.
        backlog: u64,
    },
    /// Packet buffers without a holder, or with one that should not hold them.
    #[error("{live} {what} buffers are alive, {held} are accounted for")]
    Leak {
        /// Which ones.
        what: &'static str,
        /// Alive.
        live: usize,
        /// Held by slots, by the ports and by the parameter server's queues.
        held: usize,
    },
    /// The parameter server refused a job.
    #[error("the parameter server refuses job {job}: {why}")]
    NotServed {
        /// The job.
        job: u16,
        /// Why.
        why: String,
    },
    /// A packet was sealed with a number that another one has used under the same key.
    #[error("job {job} rank {rank}: two packets were sealed with number {number:#x}")]
    NumberTwice {
        /// The job.
        job: u16,
        /// The rank.
        rank: u16,
        /// The number.
        number: u64,
    },
    /// The schedule does not end.
    #[error("no end after {events} events")]
    Endless {
        /// Events so far.
        events: u64,
    },
    /// Something panicked.
    #[error("panic: {message}")]
    Panic {
        /// Its message.
        message: String,
    },
}
