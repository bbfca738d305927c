//! Events of `SwitchML`'s clients.

use super::World;
use super::event::What;
use crate::clients::Clients;
use crate::violation::Violation;

impl World<'_> {
    /// All are started, or started again.
    pub(super) fn start_clients(&mut self) {
        let Some(clients) = &mut self.clients else { return };
        clients.start(self.now);
        for (host, wake) in clients.wakes.iter_mut().enumerate() {
            if wake.set_earlier(self.now) {
                self.wheel.push(self.now, What::Client { host });
            }
        }
    }

    pub(super) fn client_turn(&mut self, host: usize) -> Result<(), Violation> {
        if let Some(wake) = self.clients.as_mut().and_then(|clients| clients.wakes.get_mut(host)) {
            wake.cancel();
        }
        self.settle_client(host)
    }

    /// A frame reaches a client's host.
    pub(super) fn deliver_to_client(&mut self, host: usize, frame: &[u8]) -> Result<(), Violation> {
        if let Some(clients) = &mut self.clients {
            clients.deliver(host, self.now, frame);
        }
        self.settle_client(host)
    }

    fn settle_client(&mut self, host: usize) -> Result<(), Violation> {
        let (now, machine) = (self.now, self.machine(0));
        let Some(clients) = &mut self.clients else { return Ok(()) };
        let root = self.nodes.first_mut().filter(|root| now >= root.stopped.process());
        let appliance = root.and_then(|root| root.appliance.as_mut());
        let frames = clients.turn(host, (now, machine), appliance)?;
        let due = clients.due(host, now);
        if let (Some(due), Some(wake)) = (due, clients.wakes.get_mut(host))
            && wake.set_earlier(due)
        {
            self.wheel.push(due, What::Client { host });
        }
        let begun = clients.begun;
        let root = self.nodes.first().and_then(|root| root.appliance.as_ref());
        // A real control plane turns until all lcores have the table that it has published.
        if root.is_some_and(|root| !begun || root.control_is_due()) {
            self.arrange_control(0, now);
        }
        let first = self.first_client();
        for frame in frames {
            self.send_up(first + host, frame);
        }
        Ok(())
    }

    /// The number of the first client's host.
    fn first_client(&self) -> usize {
        self.workers.len() + self.cluster.as_ref().map_or(0, |cluster| cluster.hosts.len())
    }

    /// Which client's host this is, if it is one.
    pub(super) fn client(&self, number: usize) -> Option<usize> {
        let hosts = self.clients.as_ref().map_or(0, |clients: &Clients| clients.hosts.len());
        number.checked_sub(self.first_client()).filter(|host| *host < hosts)
    }
}
