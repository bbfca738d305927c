//! The incidents of a schedule.

use super::World;
use super::event::What;
use crate::attacker;
use crate::faults::Fault;
use crate::plan::Upset;
use crate::violation::Violation;
use crate::wheel::Timer;

impl World<'_> {
    /// One of the plan's upsets happens, if its subject still exists.
    pub(super) fn upset(&mut self, number: usize) -> Result<(), Violation> {
        let Some(&(_, upset)) = self.plan.upsets.get(number) else { return Ok(()) };
        self.trace.note(self.now, 8, &[], || format!("{upset:?}"));
        match upset {
            Upset::RestartAppliance { node: at, down } => {
                let Some(node) = self.nodes.get_mut(at) else { return Ok(()) };
                let Some(appliance) = node.appliance.take() else { return Ok(()) };
                self.faults.count(Fault::ApplianceRestart);
                // Generations must not repeat: beyond all that this life can have reached.
                node.first_epoch =
                    node.first_epoch.wrapping_add(u16::try_from(32 + self.random.below(32)).unwrap_or(32));
                self.wheel.push(self.now + down, What::ApplianceBack { node: at });
                node.controlling.cancel();
                node.turning.fill(Timer::default());
                if at == 0 {
                    self.serving.cancel();
                }
                let total = appliance.end(false)?;
                self.note_end(&total);
            }
            Upset::RestartServer { down, queue_too } => {
                let root = self.nodes.first_mut().and_then(|root| root.appliance.as_mut());
                let server = root.and_then(|appliance| appliance.server.as_mut());
                if let Some(server) = server {
                    self.faults.count(Fault::ServerRestart);
                    server.go_away(queue_too);
                    self.wheel.push(self.now + down, What::ServerBack);
                }
            }
            Upset::ServerAway { how, down } => self.outside_away(how, down),
            Upset::Pause { part, down } => self.pause(part, down),
            Upset::CutOff { worker, node, down } => {
                let ends = self.siblings(worker).map(|worker| ((worker, node), self.now + down));
                self.cut.extend(ends);
            }
            Upset::Start { worker, patience } => return self.launch(worker, patience),
            Upset::ClientsAgain => {
                self.faults.count(Fault::ClientsAgain);
                self.start_clients();
            }
            Upset::Rekey { job } => self.rekey(job),
            Upset::Renew { worker } => self.renew(worker),
            Upset::Curtain => return self.curtain(),
            Upset::Kill { worker } => {
                if self.kill(worker, true) {
                    self.faults.count(Fault::WorkerKilled);
                }
            }
            Upset::Restart { worker, down } => {
                if self.kill(worker, false) {
                    self.faults.count(Fault::WorkerRestarted);
                    self.wheel.push(self.now + down, What::WorkerBack { worker });
                }
            }
            Upset::Command { worker, action, value } => self.command(worker, action, value),
        }
        Ok(())
    }

    /// The appliance gets another key for a job.
    fn rekey(&mut self, job: usize) {
        let machine = self.machine(0);
        let plan = self.plan.jobs.get(job).and_then(|plan| Some((plan.id, plan.keys(0, true)?)));
        let appliance = self.nodes.first_mut().and_then(|node| node.appliance.as_mut());
        let Some((id, keys)) = plan else { return };
        self.rekeyed.insert(id);
        if let (Some(outside), Some(plan)) = (&mut self.outside, self.plan.jobs.get(job)) {
            outside.renew(plan);
        }
        // One that is down finds it when it is back.
        let Some(appliance) = appliance else { return };
        appliance.rekey(machine, id, keys);
        self.faults.count(Fault::Rekeyed);
        self.arrange_control(0, self.now);
    }

    /// A rank gets another key.
    fn renew(&mut self, number: usize) {
        let (now, plan) = (self.time_of(number), self.job(number));
        let Some((plan, worker)) = plan.zip(self.workers.get_mut(number)) else { return };
        worker.renewed = true;
        if let (Some((end, _)), Some(holder)) =
            (&mut worker.sealed, attacker::holder(plan, (worker.keyed, worker.rank), true))
            && end.renew(holder)
            && let Some(session) = &mut worker.session
        {
            session.ask_soon(now);
        }
    }
}
