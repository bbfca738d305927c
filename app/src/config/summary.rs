//! What a configuration amounts to, in a few lines: for `pascaline check`.

use core::fmt;

use pascaline_pipelines::PortQueue;
use pascaline_pipelines::membership::Registry;
use pascaline_ps::asynchronous::Rule;
use pascaline_queue::Combine;
use pascaline_wire::switchml::UDP_PORT;

use super::job::Told;
use super::words::Word as _;
use super::{Config, PsMode};

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} port(s), {} lcore(s), {} slots, {} job(s), payload up to {} bytes",
            self.ports.len(),
            self.cores.value.len(),
            self.pool.slots,
            self.jobs.len(),
            self.max_payload()
        )?;
        self.memory(f)?;
        self.jobs.iter().try_for_each(|job| self.show_job(job, f))?;
        self.told_queues(f)?;
        self.told_admission(f)?;
        self.told_server(f)?;
        self.told_admin(f)
    }
}

impl Config {
    fn memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buffers = self.packet_buffers();
        writeln!(
            f,
            "  pool: {} of {} slots shared; slots keep up to {} packets; {} packet buffers of {} bytes, at \
                least {} of {} MB",
            self.shared_sets as usize * self.pool.ways,
            self.pool.slots,
            self.kept_packets(),
            buffers.frames,
            buffers.frame_room,
            buffers.least_bytes().div_ceil(1 << 20),
            self.memory_mb.value
        )
    }

    /// What can be run, but will not do what it seems to.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let others = self.jobs.iter().filter_map(|job| {
            let (_, Registry { udp_port: port, .. }) = job.switchml()?;
            (port != UDP_PORT).then(|| {
                format!(
                    "job {}: SwitchML's own clients always send to UDP port {UDP_PORT}; with \
                        udp_port = {port} the job is for `pascaline worker switchml` alone",
                    job.spec.id
                )
            })
        });
        others.collect()
    }

    /// The part of everything that a job with this share is sure of while all jobs are there.
    pub(crate) fn part(&self, share: u16) -> f64 {
        let sync = self.jobs.iter().filter(|job| !job.updates());
        let all: u32 = sync.map(|job| u32::from(job.spec.share)).sum();
        f64::from(share) / f64::from(all.max(u32::from(share)).max(1))
    }

    fn told_queues(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (port, PortQueue { queue, rate }) in self.ports.iter().zip(self.port_queues().unwrap_or_default())
        {
            let discipline = queue.discipline.name();
            let combine = match queue.combine {
                Combine::Sum => "sums",
                Combine::Mean => "means",
            };
            write!(f, "  port {:?}: {discipline} queue of {} updates, {combine}", port.name, queue.segments)?;
            if queue.reward_threshold.is_finite() {
                write!(f, " of rewards within {}", queue.reward_threshold)?;
            }
            match rate {
                Some(rate) => writeln!(f, ", at {rate} bit/s")?,
                None => writeln!(f, ", at the port's own rate")?,
            }
        }
        Ok(())
    }

    fn told_admission(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(admission) = &self.admission else { return Ok(()) };
        let networks: Vec<String> = admission.from.iter().map(ToString::to_string).collect();
        let (first, last, networks) = (admission.jobs.start(), admission.jobs.end(), networks.join(", "));
        write!(f, "  jobs {first} to {last} may be formed from {networks}: up to {} at", admission.max_jobs)?;
        write!(f, " a time, {} by one host,", admission.max_jobs_per_host)?;
        writeln!(
            f,
            " of up to {} ranks, {} by one host, window {}; {}",
            admission.max_fan_in,
            admission.like.max_ranks_per_host,
            admission.like.window,
            Told(&admission.like.kind.policy(admission.like.window))
        )
    }

    fn told_server(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = &self.ps.limits;
        let olaf = self.jobs.iter().filter(|job| job.updates()).count();
        match self.ps.mode.value {
            PsMode::None => return writeln!(f, "  parameter server: none"),
            _ if limits.jobs + olaf == 0 => return writeln!(f, "  parameter server: no job uses one"),
            PsMode::Embedded => f.write_str("  parameter server: embedded")?,
            PsMode::External { address, appliance } => {
                write!(f, "  parameter server: {address}, for the appliance at {appliance}")?;
            }
        }
        if olaf > 0 {
            let rule = match self.ps.training.rule {
                Rule::Olaf { rate } => format!("Olaf's rule, rate {rate}"),
                Rule::Staleness { rate, half } => format!("by age, rate {rate}, half of it at {half:?}"),
            };
            write!(f, ", {olaf} asynchronous job(s): {rule}")?;
        }
        if limits.jobs == 0 {
            return writeln!(f);
        }
        let (entries, bytes) = (limits.share.entries, limits.share.bytes);
        writeln!(f, ", room for {entries} PSNs in {bytes} bytes for each of {} job(s)", limits.jobs)
    }

    fn told_admin(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(admin) = &self.admin else { return Ok(()) };
        let token = match (&admin.token_file, &admin.read_token_file) {
            (None, _) => "without token",
            (Some(_), None) => "with token",
            (Some(_), Some(_)) => "with a token for all and one for reading",
        };
        let tls = if admin.tls.is_some() { "with" } else { "without" };
        writeln!(f, "  admin API: {}, {token}, {tls} TLS", admin.listen.value)
    }
}
