//! Sealed packets between the server's process and the appliance: in between, all is plain.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pascaline_seal::{Fault, KeyFile, LONGER, MemberEnd};
use pascaline_wire::control::SERVER_RANK;
use tracing::{info, warn};

use crate::config::Config;

/// The server's ends, by job; none of jobs whose packets are not sealed.
pub(super) struct Seals {
    ends: BTreeMap<u16, End>,
    /// Datagrams that were not as their job demands.
    pub(super) refused: u64,
}

struct End {
    end: MemberEnd,
    file: Option<KeyFile>,
    /// It has been said that the appliance does not take what this server seals.
    told: bool,
}

impl Seals {
    /// For a server's session, of which nothing has been sealed before.
    pub(super) fn new(config: &Config, session: u64) -> Self {
        let ends = config.jobs.iter().filter_map(|job| {
            let (id, keys) = (job.spec.id, job.spec.keys.as_ref()?);
            let file = job.key_file.as_deref().map(Arc::from);
            let file = file.map(|file| KeyFile::new(file, id, SERVER_RANK, keys.protection()));
            Some((id, End { end: MemberEnd::new(keys.holder(SERVER_RANK), session), file, told: false }))
        });
        Self { ends: ends.collect(), refused: 0 }
    }

    /// Takes other keys that are in the files now, as soon as the appliance does.
    pub(super) fn poll(&mut self, now: Duration) {
        for (job, End { end, file, .. }) in &mut self.ends {
            let read = file.as_mut().and_then(|file| file.poll(now));
            match read.map(|read| read.map(|holder| end.renew(holder))) {
                Some(Ok(true)) => info!(job, "another key"),
                Some(Err(error)) => warn!(job, %error, "continues with the key that it has"),
                None | Some(Ok(false)) => {}
            }
        }
    }

    /// Opens a datagram of the appliance's where it lies, and returns the plain one; `None` if it is dropped.
    pub(super) fn open<'a>(&mut self, datagram: &'a mut [u8]) -> Option<&'a [u8]> {
        let Some((job, sealed)) = job_of(datagram).and_then(|job| Some((job, self.ends.get_mut(&job)?)))
        else {
            return Some(datagram);
        };
        match sealed.end.open(datagram) {
            Ok(len) => {
                sealed.told = false;
                datagram.get(..len)
            }
            Err(fault) => {
                self.refused += 1;
                if let (Fault::Unproven(_), false) = (fault, sealed.told) {
                    sealed.told = true;
                    warn!(job, "the appliance has other security for this job, or another key");
                }
                None
            }
        }
    }

    /// Seals a datagram to the appliance.
    pub(super) fn seal(&mut self, datagram: &mut Vec<u8>) {
        let Some(sealed) = job_of(datagram).and_then(|job| self.ends.get_mut(&job)) else { return };
        let len = datagram.len();
        datagram.resize(len + LONGER, 0);
        // What this server writes is a datagram, and there is room.
        let sealed = sealed.end.seal(datagram, len).unwrap_or_default();
        datagram.truncate(sealed);
    }
}

/// The job that a datagram names.
fn job_of(datagram: &[u8]) -> Option<u16> {
    datagram.get(4..6)?.try_into().ok().map(u16::from_be_bytes)
}
