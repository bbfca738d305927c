use pascaline_wire::frame::{Mac, VlanTags};

use super::*;
use crate::membership::{Admission, ControlRequest, JobSpec, Secret};

const JOB: u16 = 1000;
const LONG: Duration = Duration::from_secs(60);

struct Site {
    membership: Membership,
    now: Duration,
}

fn endpoint(host: u8, udp_port: u16) -> Endpoint {
    Endpoint {
        port: 0,
        mac: Mac([2, 0, 0, 0, 0, host]),
        vlan: VlanTags::default(),
        address: Address::from_v4([10, 77, 0, host]),
        udp_port,
        local: Address::from_v4([10, 77, 0, 254]),
        local_udp_port: 16420,
        dscp: 0,
    }
}

impl Site {
    /// A job that four ranks have formed, each on a host of its own, and which then are silent.
    fn formed() -> Self {
        let admission = Admission {
            jobs: JOB..=1999,
            from: vec!["10.77.0.0/24".parse().unwrap()],
            max_jobs: 4,
            max_jobs_per_host: 4,
            max_fan_in: 16,
            like: JobSpec { dead_after: Some(LONG), ..JobSpec::new(0, 1) },
            idle: Admission::IDLE,
        };
        let membership = Membership::new(vec![], Secret::new([7; 16]), 3).with_admission(admission);
        let mut site = Self { membership, now: Duration::from_secs(1) };
        for rank in 0..4 {
            site.join(rank, 4, endpoint(u8::try_from(rank).unwrap(), 4000), 1);
        }
        assert!(site.membership.status()[0].complete);
        site
    }

    /// A Join, and the one that proves where it comes from.
    fn join(&mut self, rank: u16, fan_in: u16, from: Endpoint, session: u64) {
        let about = Header::about(Kind::Control, Element::F32_SUM, JOB, 0);
        let header = Header { rank, fan_in, ..about };
        let control = Control { payload: 1024, window: 64, ..Control::request(Action::Join, session) };
        let mut request =
            ControlRequest { lcore: 0, at_ns: 0, from, header, control, padding: 0, operations: None };
        for _ in 0..2 {
            self.now += Duration::from_millis(10);
            request.header.psn += 1;
            let answer = self.membership.handle(self.now, &request).unwrap();
            request.control.cookie = answer.control.cookie;
        }
    }

    /// Two newcomers want the job. Gives the questions to its members.
    fn two_come(&mut self) -> Vec<Ask> {
        for rank in 0..2 {
            self.join(rank, 2, endpoint(100 + u8::try_from(rank).unwrap(), 4000), 2);
        }
        self.membership.take_asks()
    }

    fn refuse(&mut self, refusal: Refusal) {
        assert_eq!(self.membership.found(self.now, &Found::Refusal(refusal)), []);
    }

    fn ranks(&self) -> u16 {
        self.membership.status()[0].fan_in
    }
}

/// What the host says to which a question goes, if no program has the port.
fn refusal(ask: &Ask) -> Refusal {
    Refusal {
        job: ask.header.job,
        rank: ask.header.rank,
        address: ask.to.address,
        udp_port: ask.to.udp_port,
        session: ask.control.session,
    }
}

#[test]
fn a_job_whose_members_hosts_say_that_they_are_gone_is_formed_anew_at_once() {
    let mut site = Site::formed();
    let began = site.now;
    let asks = site.two_come();
    assert_eq!(asks.iter().map(|ask| ask.header.rank).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(site.ranks(), 4);
    for ask in &asks[..3] {
        site.refuse(refusal(ask));
    }
    assert!(site.two_come().is_empty(), "not so soon again");
    assert_eq!(site.ranks(), 4, "one may be alive");
    site.now += AGAIN;
    let again = site.two_come();
    assert_eq!(again, asks[3..], "those who are gone are asked no more");
    site.refuse(refusal(&asks[3]));
    site.two_come();
    assert_eq!((site.ranks(), site.membership.status()[0].joined), (2, 2));
    assert!(site.now - began < Duration::from_secs(1));
}

#[test]
fn what_quotes_no_question_that_is_open_proves_nothing() {
    let mut site = Site::formed();
    let early = Refusal { job: JOB, rank: 0, address: endpoint(0, 0).address, udp_port: 4000, session: 1 };
    site.refuse(early);
    let asks = site.two_come();
    for ask in &asks[1..] {
        site.refuse(refusal(ask));
    }
    let good = refusal(&asks[0]);
    for forged in [
        Refusal { session: good.session ^ 1, ..good },
        // The session of its worker, which others may know.
        Refusal { session: 1, ..good },
        Refusal { session: refusal(&asks[1]).session, ..good },
        Refusal { udp_port: 4001, ..good },
        Refusal { address: endpoint(9, 0).address, ..good },
        Refusal { rank: 4, ..good },
        Refusal { job: 1001, ..good },
    ] {
        let ignored = site.membership.ignored();
        site.refuse(forged);
        assert_eq!(site.membership.ignored(), ignored + 1, "{forged:?}");
    }
    site.two_come();
    assert_eq!(site.ranks(), 4);
    // A question that has not been repeated for some time is closed; the next one has another session.
    site.now += Duration::from_secs(5);
    let later = site.two_come();
    assert!(later.iter().all(|ask| ask.control.session != good.session));
    site.refuse(good);
    later[1..].iter().for_each(|ask| site.refuse(refusal(ask)));
    site.two_come();
    assert_eq!(site.ranks(), 4);
}

#[test]
fn a_member_that_is_heard_of_after_its_hosts_refusal_is_alive() {
    let mut site = Site::formed();
    let asks = site.two_come();
    asks.iter().for_each(|ask| site.refuse(refusal(ask)));
    // Its process has another port now, or its host's filter was mistaken.
    site.join(0, 4, endpoint(0, 4000), 1);
    site.two_come();
    assert_eq!(site.ranks(), 4);
}
