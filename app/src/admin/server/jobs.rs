//! Jobs in the words of the admin API.

use std::net::SocketAddr;

use pascaline_pipelines::membership::{JobStatus, Parent};

use super::answers::{
    EarlyTerms, JobSummary, JobTerms, ParentTerms, RegionTerms, SharedTerms, SwitchMlTerms,
};
use crate::config::kind::Kind;
use crate::config::words::Word as _;
use crate::config::{JobConfig, SwitchMlConfig};

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
    // What means nothing to SwitchML's clients is left out.
    let own = |word: &str| job.switchml().is_none().then(|| word.to_owned());
    let slots = job.region.map_or(0, |region| u64::from(region.sets) * ways as u64);
    let word = |word: &str| word.to_owned();
    let (mut region, mut shared, mut early, mut switchml) = (None, None, None, None);
    match &job.kind {
        Kind::Region { order } => region = Some(RegionTerms { slots, order: word(order.name()) }),
        Kind::Shared { conflict, server, order, quota } => {
            let (conflict, order) = (word(conflict.name()), word(order.name()));
            shared = Some(SharedTerms { conflict, server: *server, order, quota: *quota });
        }
        Kind::Early { needed, partial_after } => {
            let partial_after_seconds = partial_after.map(|after| after.as_secs_f64());
            early = Some(EarlyTerms { slots, threshold: *needed, partial_after_seconds });
        }
        Kind::Updates => {}
        Kind::Switchml(SwitchMlConfig { controller, udp_port, .. }) => {
            let controller = controller.value.to_string();
            switchml = Some(SwitchMlTerms { controller, udp_port: *udp_port, slots });
        }
    }
    JobTerms {
        id: job.id,
        name: job.name.clone(),
        kind: word(job.kind.tag().name()),
        region,
        shared,
        early,
        switchml,
        fan_in: job.fan_in,
        window: job.window,
        members: job.members.as_ref().map(|members| members.iter().map(ToString::to_string).collect()),
        max_ranks_per_host: job.max_ranks_per_host,
        share: job.share,
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
