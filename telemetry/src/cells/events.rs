//! The counts of a job.

use crate::named::named;

named! {
    /// Counted of a job in addition to the contributions of its ranks.
    JobEvent, "job_";
    /// Results of a job that were completed here.
    Results => "results",
    /// Bytes of the payloads of these results, each result once.
    ResultBytes => "result_bytes",
    /// Contributions in results of a job that were completed here.
    Aggregated => "contributions_aggregated",
    /// Bytes of the payloads of these contributions.
    AggregatedBytes => "aggregated_bytes",
    /// Results of a job in which an integer saturated.
    Overflowed => "results_overflowed",
    /// Results of a job with an infinity or NaN; an estimate from every eighth result.
    NonFinite => "results_nonfinite",
    /// Results of a job that were sent out without all ranks.
    Released => "results_released",
    /// Cached results of a job sent again to a rank that asked or retransmitted.
    Replayed => "results_replayed",
    /// Results of a job that came from its parameter server, or from a rank that had cached them.
    Installed => "results_installed",
    /// Packets of the parameter server with a result of a job.
    ServerResults => "server_results",
    /// Contributions of a job that found all slots of their set taken.
    Collisions => "collisions",
    /// Contributions of a job that held all the slots of its quota.
    OverQuota => "over_quota",
    /// Contributions of a job that held its share of the slots of their set, and others theirs.
    OverShare => "over_share",
    /// Partials of a job evicted because it held more than its share, and another job wanted its own.
    GivenBack => "given_back",
    /// Contributions of a job for which the ring of their set's owner was full.
    Contended => "contended",
    /// Contributions of a job sent to the parameter server because they found no slot.
    Spilled => "contributions_spilled",
    /// Bytes of the payloads of these contributions.
    SpilledBytes => "spilled_bytes",
    /// Partials of a job evicted by another PSN.
    Preempted => "preemptions",
    /// Contributions of a job sent to the parameter server because their partial was evicted.
    Evicted => "contributions_evicted",
    /// Bytes of the payloads of these contributions.
    EvictedBytes => "evicted_bytes",
    /// Partials of a job that were discarded; the ranks send again.
    GivenUp => "partials_given_up",
    /// Contributions that a job's ranks sent past the pool to the parameter server.
    Bypassed => "contributions_bypassed",
    /// Bytes of the payloads of these contributions.
    BypassedBytes => "bypassed_bytes",
    /// Bytes of the payloads of an asynchronous job's updates.
    UpdateBytes => "update_bytes",
    /// Answers of an asynchronous job's server to updates that it has taken in.
    Answers => "answers",
    /// Sums or updates of a job's ranks here sent to the appliance above, and results that ranks had kept.
    SentUp => "sums_sent_up",
    /// Sums of a job sent to the appliance above once more.
    SentUpAgain => "sums_sent_up_again",
    /// Results, reminders and answers to updates of a job that came from the appliance above.
    FromAbove => "from_above",
    /// Packets of a job that the parameter server had no room for.
    ServerFull => "server_full",
}
