//! Jobs in the words of the admin API.

use std::net::SocketAddr;

use pascaline_pipelines::membership::{JobKind, JobSpec, JobStatus, Parent, Registry, ServerMode};

use super::answers::{
    EarlyTerms, JobSummary, JobTerms, ParentTerms, RegionTerms, SharedTerms, SwitchMlTerms,
};
use crate::config::JobConfig;
use crate::config::kind::Tag;
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
    // What means nothing to SwitchML's clients is left out.
    let JobSpec { id, fan_in, window, ref admitted, kind, share, .. } = job.spec;
    let JobSpec { max_ranks_per_host, dead_after, on_death, control, congestion, .. } = job.spec;
    let own = |word: &str| job.controller.is_none().then(|| word.to_owned());
    let slots = kind.place().map_or(0, |place| u64::from(place.sets) * ways as u64);
    let word = |word: &str| word.to_owned();
    let (mut region, mut shared, mut early, mut switchml) = (None, None, None, None);
    match kind {
        JobKind::Region { order, .. } => region = Some(RegionTerms { slots, order: word(order.name()) }),
        JobKind::Shared { conflict, server, order, quota } => {
            let (conflict, order) = (word(conflict.name()), word(order.name()));
            shared = Some(SharedTerms { conflict, server: server != ServerMode::None, order, quota });
        }
        JobKind::Early { needed, partial_after, .. } => {
            let partial_after_seconds = partial_after.map(|after| after.as_secs_f64());
            early = Some(EarlyTerms { slots, threshold: needed, partial_after_seconds });
        }
        JobKind::Updates { .. } => {}
        JobKind::Switchml { registry: Registry { udp_port, .. }, .. } => {
            let controller = job.controller.as_ref().map(|at| at.value.to_string()).unwrap_or_default();
            switchml = Some(SwitchMlTerms { controller, udp_port, slots });
        }
    }
    JobTerms {
        id,
        name: job.name.clone(),
        kind: word(Tag::of(&kind).name()),
        region,
        shared,
        early,
        switchml,
        fan_in,
        window,
        members: admitted.as_ref().map(|members| members.iter().map(ToString::to_string).collect()),
        max_ranks_per_host,
        share,
        dead_after_seconds: dead_after.map(|after| after.as_secs_f64()),
        on_death: own(on_death.name()),
        control: own(control.name()),
        congestion: congestion.and_then(|congestion| own(congestion.name())),
        multicast: job.spec.multicast.map(|group| group.to_string()),
        parent: job.spec.parent.as_ref().map(|parent| ParentTerms {
            address: address_of(parent),
            rank: parent.rank,
            ranks: parent.ranks,
            mac: parent.next_hop.is_none().then(|| parent.endpoint.mac.to_string()),
            via: parent.next_hop.map(|hop| hop.to_string()),
            backups: job.spec.backups.iter().map(address_of).collect(),
        }),
    }
}

fn address_of(parent: &Parent) -> String {
    SocketAddr::new(parent.endpoint.address.into(), parent.endpoint.udp_port).to_string()
}
