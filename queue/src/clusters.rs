//! The table of clusters: where the update of each waits, and when it last sent. 8 bytes each.

/// One cluster's line in the table.
#[derive(Debug, Clone, Copy)]
struct Cluster {
    /// The number, modulo 2³², of this cluster's last appended update. It stays when that update departs: the
    /// queue has the numbers that still wait, and their clusters.
    appended: u32,
    /// The period in which it last sent; 0 for never.
    heard: u32,
}

/// Olaf's cluster_status, for any number of clusters in constant time.
#[derive(Debug)]
pub(crate) struct Clusters {
    table: Box<[Cluster]>,
    /// Length of a period in nanoseconds.
    period_ns: u64,
    /// The present period, from 2: neither it nor the one before is ever 0.
    period: u32,
    /// When the present period ends.
    ends_ns: u64,
    /// Clusters heard in the present period.
    heard_now: u32,
    /// Clusters heard in the period before, but not since.
    heard_before: u32,
}

impl Clusters {
    pub(crate) fn new(clusters: u32, period_ns: u64) -> Self {
        let table = vec![Cluster { appended: 0, heard: 0 }; clusters as usize].into_boxed_slice();
        Self { table, period_ns, period: 2, ends_ns: 0, heard_now: 0, heard_before: 0 }
    }

    pub(crate) fn has(&self, cluster: u32) -> bool {
        (cluster as usize) < self.table.len()
    }

    /// The number of the cluster's last appended update; any number if it has none.
    #[inline]
    pub(crate) fn appended(&self, cluster: u32) -> u32 {
        self.table.get(cluster as usize).map_or(0, |cluster| cluster.appended)
    }

    #[inline]
    pub(crate) fn append(&mut self, cluster: u32, number: u32) {
        if let Some(cluster) = self.table.get_mut(cluster as usize) {
            cluster.appended = number;
        }
    }

    /// Notes that a cluster has sent. Returns what [`appended`](Self::appended) does.
    #[inline]
    pub(crate) fn note_activity(&mut self, cluster: u32, now_ns: u64) -> u32 {
        if now_ns >= self.ends_ns {
            self.turn(now_ns);
        }
        let period = self.period;
        let Some(cluster) = self.table.get_mut(cluster as usize) else { return 0 };
        if cluster.heard != period {
            self.heard_before -= u32::from(cluster.heard == period - 1);
            self.heard_now += 1;
            cluster.heard = period;
        }
        cluster.appended
    }

    /// Clusters heard in this period or the one before.
    pub(crate) fn active(&mut self, now_ns: u64) -> u32 {
        if now_ns >= self.ends_ns {
            self.turn(now_ns);
        }
        self.heard_now + self.heard_before
    }

    /// Begins the period that holds `now_ns`. A clock that is set back prolongs the present one.
    #[cold]
    fn turn(&mut self, now_ns: u64) {
        let missed = now_ns - self.ends_ns >= self.period_ns;
        self.ends_ns = (now_ns / self.period_ns).saturating_add(1).saturating_mul(self.period_ns);
        self.heard_before = if missed { 0 } else { self.heard_now };
        self.heard_now = 0;
        // If a period was missed, no cluster was active in the one before, whatever the table says.
        let step = if missed { 2 } else { 1 };
        self.period = match self.period.checked_add(step) {
            Some(period) => period,
            None => self.forget(),
        };
    }

    /// Begins counting periods anew: once in 2³² of them.
    fn forget(&mut self) -> u32 {
        for cluster in &mut self.table {
            cluster.heard = 0;
        }
        self.heard_before = 0;
        2
    }
}

#[cfg(test)]
mod tests;
