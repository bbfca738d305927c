//! Sums that the appliance cannot read, by request: ranks that share a [`Key`] send words that look random
//! and add up to the sum.
//!
//! **An operation** has two parts, and keeps nothing for the next one.
//!
//! 1. Each rank draws a salt, 128 fresh random bits, and all ranks get all of them in an allgather, each with
//!    what the rank calls and the largest magnitude of its elements, encrypted and authenticated
//!    (`announcement`). Ranks that call different things, have different keys, or have numbers that are none
//!    learn it there, all of them alike.
//! 2. With the salts every rank derives keys, and all make an allreduce of `u32` words, which the appliance
//!    adds modulo 2³². The ranks are a ring, and the edge between r − 1 and r has the key Eᵣ, made of the
//!    salts of both; the keys G and C are made of all. With F(K) as the keystream of a key, rank r sends
//!    xᵣ + F(Eᵣ) − F(Eᵣ₊₁), and rank 0 also adds F(G). The edges cancel in the sum, and every rank takes F(G)
//!    off: so the appliance can neither read what a rank sends, nor the sum.
//!
//! Floats become whole numbers with a scale that all ranks share (`fixed`, which has the error). Copied bytes
//! are words to which others add zeros. Behind every 1,024 words come four that prove their sum (`check`).
//!
//! **No keystream is used twice.** Whatever the appliance hands out as the others' announcements, new ones,
//! old ones or its own, everything that a rank sends is masked with F(Eᵣ) − F(Eᵣ₊₁), and both keys are made
//! of the rank's own salt, which is drawn anew in each operation; as is G, which masks rank 0's. A keystream
//! that it has used before would need the same 128 random bits. Two edges differ by their number, also where
//! they join the same two ranks. The masks of N contributions, N − 1 from the edges and F(G), are independent
//! of each other. Members know the job's key, and so everything: nothing here is hidden from one of them.
//!
//! **What the appliance can do** is to fail operations: [`Fault`] says which way. Replayed, exchanged or left
//! out contributions are sums of other masks, and pass the check with a probability of 2⁻³³ for each rank.

use core::time::Duration;
use std::time::Instant;

use pascaline_wire::{Collective as Kind, DType};
use zerocopy::IntoBytes as _;

use crate::Op;
use crate::allreduce::Report;
use crate::collective::{Collective, Parts, Plan};
use crate::identity::Identity;
use crate::pieces::Pieces;
use crate::session::StartError;

mod announcement;
mod check;
mod fault;
mod fixed;
mod key;
mod masking;
mod stream;
#[cfg(test)]
mod tests;

pub use announcement::{BYTES, Called};
pub use fault::Fault;
pub use key::Key;

use announcement::{Agreed, Announcement, Salt};
use check::Check;
use fixed::Form;
use masking::{Masking, Masks};
use stream::Stream;

/// Whether an operation can be masked, which it also says before it begins.
///
/// # Errors
/// [`Fault::Unmaskable`] of minima and maxima, and of sums of `f64`, `u32` and blocks.
pub fn check(collective: &Collective<'_>, dtype: DType) -> Result<(), Fault> {
    let op = match *collective {
        Collective::Allreduce(op) | Collective::Reduce { op, .. } | Collective::ReduceScatter { op, .. } => {
            op
        }
        Collective::Broadcast { .. } | Collective::Barrier | Collective::Allgather { .. } => return Ok(()),
    };
    let added = match dtype {
        DType::F32 | DType::F16 | DType::Bf16 | DType::I32 => true,
        DType::F64 | DType::MxFp8 | DType::MxInt8 | DType::U32 => false,
    };
    if added && op.adds() { Ok(()) } else { Err(Fault::Unmaskable { dtype, op: op.name() }) }
}

/// For drivers: runs an operation masked. `run` runs what travels: two operations of the same kind at all
/// ranks, the second one of which is masked and unmasked by the driver while it runs. Room for words is kept
/// in `room`. The time it took includes all of it.
///
/// # Errors
/// What `run` returns, [`Fault`], and [`StartError`] where the operation could not begin.
pub fn through<E: From<StartError> + From<Fault>>(
    (key, identity): (&Key, &Identity),
    (collective, dtype): (&Collective<'_>, DType),
    tensor: &mut [u8],
    room: &mut Vec<u32>,
    mut run: impl FnMut(&Collective<'_>, DType, &mut [u8], Option<&mut dyn Pieces>) -> Result<Report, E>,
) -> Result<Report, E> {
    if *collective == Collective::Barrier {
        return run(collective, dtype, tensor, None);
    }
    check(collective, dtype)?;
    let (begun, bytes) = (Instant::now(), tensor.len());
    let mut salt = Salt::default();
    getrandom::fill(&mut salt).map_err(|error| Fault::Random(error.to_string()))?;
    let own = Own::new(key, identity, (collective, dtype), tensor, salt)?;
    let mut entries = own.entries();
    let announced = run(&Collective::Allgather { parts: Parts::Even }, DType::I32, &mut entries, None)?;
    whole(&announced)?;
    let masks = own.agree(&entries)?;
    let mut report = announced;
    if masks.words() > 0 {
        room.resize(masks.room(), 0);
        let mut masking = Masking::new(&masks, tensor);
        let travels = room.as_mut_bytes();
        let summed = run(&Collective::Allreduce(Op::Sum), DType::U32, travels, Some(&mut masking))?;
        whole(&summed)?;
        masking.finish(room.as_bytes())?;
        let (packets, counters) = (report.packets + summed.packets, report.counters + summed.counters);
        report = Report { packets, counters, ..summed };
    }
    let elapsed: Duration = begun.elapsed();
    Ok(Report { elapsed, bytes, ..report })
}

/// Whether every result contains every rank.
fn whole(report: &Report) -> Result<(), Fault> {
    report.partial.map_or(Ok(()), |partial| Err(Fault::Lacking { ranks: partial.missing }))
}

/// An operation before anything has been sent.
struct Own<'a> {
    key: &'a Key,
    identity: &'a Identity,
    plan: Plan,
    bytes: usize,
    announcement: Announcement,
    entry: [u8; BYTES],
}

impl<'a> Own<'a> {
    fn new(
        key: &'a Key,
        identity: &'a Identity,
        (collective, dtype): (&Collective<'_>, DType),
        tensor: &[u8],
        salt: Salt,
    ) -> Result<Self, StartError> {
        let (bytes, size) = (tensor.len(), dtype.size());
        let plan = Plan::new(collective, (identity.rank, identity.ranks), (bytes, dtype))?;
        let copies = plan.call.collective.copies();
        if !bytes.is_multiple_of(size) && plan.call.collective != Kind::Broadcast {
            return Err(StartError::Ragged { bytes, size });
        }
        let magnitude = if copies { 0 } else { fixed::magnitude(dtype, tensor) };
        let announcement = Announcement { called: Called::new(&plan, bytes), magnitude };
        let entry = announcement.seal(key, identity, &salt);
        Ok(Self { key, identity, plan, bytes, announcement, entry })
    }

    /// A tensor of every rank's announcement, in which this one's is in place.
    fn entries(&self) -> Vec<u8> {
        let mut entries = vec![0; BYTES * usize::from(self.identity.ranks)];
        let at = BYTES * usize::from(self.identity.rank);
        if let Some(place) = entries.get_mut(at..at + BYTES) {
            place.copy_from_slice(&self.entry);
        }
        entries
    }

    /// What follows from what has arrived.
    fn agree(self, arrived: &[u8]) -> Result<Masks, Fault> {
        let Identity { rank, ranks, .. } = *self.identity;
        let (dtype, copies) = (self.plan.element.dtype, self.plan.call.collective.copies());
        let floats = !copies && dtype != DType::I32;
        let is_finite = if floats { fixed::is_finite } else { |_| true };
        let own = (&self.announcement, &self.entry);
        let agreed = announcement::agree(self.key, self.identity, own, arrived, is_finite)?;
        let form = if copies { Form::Copies } else { Form::of_sums(dtype, agreed.largest, ranks)? };
        let keys = Keys { key: self.key, identity: self.identity, agreed: &agreed };
        Ok(Masks {
            form,
            bytes: self.bytes,
            ranks,
            before: keys.edge(rank),
            after: keys.edge(if rank + 1 < ranks { rank + 1 } else { 0 }),
            common: keys.of_all(b"common"),
            adds_common: rank == 0,
            check: Check::new(&keys.of_all(b"check")),
            plan: self.plan,
        })
    }
}

/// The keys of an operation.
struct Keys<'a> {
    key: &'a Key,
    identity: &'a Identity,
    agreed: &'a Agreed<'a>,
}

impl Keys<'_> {
    /// Of the edge between a rank and the one before it.
    fn edge(&self, rank: u16) -> Stream {
        let Identity { job, ranks, .. } = *self.identity;
        let before = if rank == 0 { ranks.saturating_sub(1) } else { rank - 1 };
        let [first, second] = [before, rank].map(|rank| self.agreed.salt(rank.into()));
        let numbers = [job, ranks, rank].map(u16::to_le_bytes);
        self.key.derive(&[b"edge", numbers.as_flattened(), &first, &second])
    }

    fn of_all(&self, label: &[u8]) -> Stream {
        let Identity { job, ranks, .. } = *self.identity;
        let numbers = [job, ranks].map(u16::to_le_bytes);
        self.key.derive(&[label, numbers.as_flattened(), &self.agreed.salts()])
    }
}
