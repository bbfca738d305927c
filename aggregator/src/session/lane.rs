//! The ring to another lcore, and the tenants of its packets.

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use crate::handoff::Sender;
use crate::share::{TENANTS, Tenant};

/// A ring that jobs share. When it is half full, a job may have no more packets in it than there are places
/// left. So one that sends without end leaves as many places as it takes, whichever others come (A. Choudhury
/// and E. Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998).
pub(crate) struct Lane<T> {
    ring: Sender<T>,
    /// The tenant of the packet that each place holds, or held last.
    whose: Box<[Tenant]>,
    /// Packets of each tenant in it, with those taken out since it was last looked at.
    held: Box<[u32; TENANTS]>,
    /// Packets put in, and those seen to be taken out; wrapping.
    put: u32,
    taken: u32,
}

impl<T> Lane<T> {
    /// The bytes that a lane with `places` places takes.
    pub(crate) const fn bytes(places: usize) -> usize {
        places * (size_of::<T>() + size_of::<Tenant>()) + size_of::<[u32; TENANTS]>()
    }

    pub(super) fn new(ring: Sender<T>) -> Self {
        let whose = vec![Tenant::default(); ring.capacity()].into_boxed_slice();
        Self { ring, whose, held: Box::new([0; TENANTS]), put: 0, taken: 0 }
    }

    /// Puts a packet of a tenant in. It is returned if there is no room for it.
    #[inline]
    pub(super) fn push(&mut self, tenant: Tenant, packet: T) -> Result<(), T> {
        if self.ring.used() * 2 >= self.whose.len() && !self.has_room(tenant) {
            return Err(packet);
        }
        self.ring.push(packet)?;
        let place = self.put as usize & (self.whose.len() - 1);
        self.whose[place] = tenant;
        self.held[usize::from(tenant.0)] += 1;
        self.put = self.put.wrapping_add(1);
        Ok(())
    }

    /// Reads how much has been taken out, and whether a tenant may put in one more.
    #[inline(never)]
    fn has_room(&mut self, tenant: Tenant) -> bool {
        let taken = self.ring.look();
        while self.taken != taken {
            let place = self.taken as usize & (self.whose.len() - 1);
            self.held[usize::from(self.whose[place].0)] -= 1;
            self.taken = self.taken.wrapping_add(1);
        }
        (self.held[usize::from(tenant.0)] as usize) < self.whose.len() - self.ring.used()
    }

    /// The ring itself.
    #[inline(always)]
    pub(super) fn ring(&mut self) -> &mut Sender<T> {
        &mut self.ring
    }

    #[inline(always)]
    pub(super) const fn is_ahead(&self) -> bool {
        self.ring.is_ahead()
    }
}
