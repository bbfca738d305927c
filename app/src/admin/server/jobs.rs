//! Jobs in the words of the admin API.

use std::net::SocketAddr;
use std::time::Duration;

use pascaline_pipelines::membership::{JobStatus, Parent};

use super::answers::{JobSummary, JobTerms, ParentTerms};
use crate::config::JobConfig;
use crate::config::profile::Addressing;
use crate::config::words::Word as _;

/// How a job is.
pub(crate) fn summary(status: &JobStatus, config: Option<&JobConfig>) -> JobSummary {
    JobSummary {
        id: status.id,
        name: config.filter(|_| !status.formed).map(|job| job.name.clone()).unwrap_or_default(),
        origin: if status.formed { "formed" } else { "configured" }.to_owned(),
        state: status.state().admin_name().to_owned(),
        ranks: status.fan_in,
        joined: status.joined,
        lost: status.lost,
        needed: status.needed,
        epoch: status.epoch,
        payload: status.payload,
    }
}

/// What a job is to be like.
pub(crate) fn terms(job: &JobConfig, ways: usize) -> JobTerms {
    let addressing = job.policy.region.map_or(Addressing::Shared, |_| Addressing::Region);
    let partial_after = Duration::from_nanos(job.policy.partial_after);
    let switchml = job.switchml.as_ref();
    // What means nothing to SwitchML's clients is not told.
    let own = |word: &str| switchml.is_none().then(|| word.to_owned());
    JobTerms {
        id: job.id,
        name: job.name.clone(),
        mode: job.mode.name().to_owned(),
        protocol: switchml.map_or("pascaline", |_| "switchml").to_owned(),
        controller: switchml.map(|switchml| switchml.controller.value.to_string()),
        udp_port: switchml.map(|switchml| switchml.udp_port),
        fan_in: job.fan_in,
        window: job.window,
        members: job.members.as_ref().map(|members| members.iter().map(ToString::to_string).collect()),
        max_ranks_per_host: job.max_ranks_per_host,
        addressing: addressing.name().to_owned(),
        region_slots: job.policy.region.map(|region| u64::from(region.sets) * ways as u64),
        conflict: job.policy.conflict.name().to_owned(),
        order: job.policy.order.name().to_owned(),
        quota: job.policy.quota,
        share: job.share,
        threshold: job.needed,
        partial_after_seconds: (!partial_after.is_zero()).then_some(partial_after.as_secs_f64()),
        server: job.policy.server,
        dead_after_seconds: job.dead_after.map(|after| after.as_secs_f64()),
        on_death: own(job.on_death.name()),
        control: own(job.control.name()),
        congestion: own(job.congestion.name()),
        multicast: job.multicast.map(|group| group.to_string()),
        parent: job.parent.as_ref().map(|parent| ParentTerms {
            address: address_of(parent),
            rank: parent.rank,
            ranks: parent.ranks,
            mac: parent.next_hop.is_none().then(|| parent.endpoint.mac.to_string()),
            via: parent.next_hop.map(|hop| hop.to_string()),
            backups: job.backups.iter().map(address_of).collect(),
        }),
    }
}

fn address_of(parent: &Parent) -> String {
    SocketAddr::new(parent.endpoint.address.into(), parent.endpoint.udp_port).to_string()
}
