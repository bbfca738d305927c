//! The collective operations of a [`Worker`].

use zerocopy::IntoBytes as _;

use super::tree::Tree;
use super::{AllreduceError, Worker};
use crate::Op;
use crate::allreduce::{Report, Request};
use crate::collective::{Collective, Parts};
use crate::deal;
use crate::element::{DType, Element};
use crate::masked::{self, Key};
use crate::mean;
use crate::narrow::{self, Narrowing};
use crate::pieces::Pieces;
use crate::priority::Hints;
use crate::session::{Event, StartError};

impl Worker {
    /// Replaces the root's `tensor` by the combination of all ranks' tensors by `op`. Those of the others
    /// stay as they are. Every rank sends its tensor and receives the result, as in an allreduce.
    ///
    /// # Errors
    /// As [`collective`](Self::collective).
    pub fn reduce<T: Element>(
        &mut self,
        tensor: &mut [T],
        op: Op,
        root: u16,
    ) -> Result<Report, AllreduceError> {
        self.collective(&Collective::Reduce { op, root }, T::DTYPE, tensor.as_mut_bytes(), Hints::default())
    }

    /// Replaces every rank's `tensor` by the root's, bit by bit.
    ///
    /// # Errors
    /// As [`collective`](Self::collective).
    pub fn broadcast<T: Element>(&mut self, tensor: &mut [T], root: u16) -> Result<Report, AllreduceError> {
        self.collective(&Collective::Broadcast { root }, T::DTYPE, tensor.as_mut_bytes(), Hints::default())
    }

    /// Returns once every rank has called it. One round trip.
    ///
    /// # Errors
    /// As [`collective`](Self::collective).
    pub fn barrier(&mut self) -> Result<Report, AllreduceError> {
        self.collective(&Collective::Barrier, DType::I32, &mut [], Hints::default())
    }

    /// Replaces this rank's part of `tensor` by the combination of that part of all ranks' tensors by `op`.
    /// The rest stays as it is. [`Parts::of`] says where the part is.
    ///
    /// # Errors
    /// As [`collective`](Self::collective).
    pub fn reduce_scatter<T: Element>(
        &mut self,
        tensor: &mut [T],
        op: Op,
        parts: Parts<'_>,
    ) -> Result<Report, AllreduceError> {
        let collective = Collective::ReduceScatter { op, parts };
        self.collective(&collective, T::DTYPE, tensor.as_mut_bytes(), Hints::default())
    }

    /// Replaces every part of `tensor` by that of the rank whose part it is, bit by bit. [`Parts::of`] says
    /// where this rank's is.
    ///
    /// # Errors
    /// As [`collective`](Self::collective).
    pub fn allgather<T: Element>(
        &mut self,
        tensor: &mut [T],
        parts: Parts<'_>,
    ) -> Result<Report, AllreduceError> {
        self.collective(&Collective::Allgather { parts }, T::DTYPE, tensor.as_mut_bytes(), Hints::default())
    }

    /// Any collective operation on an `f32` tensor that travels as a smaller type. [`narrow`](crate::narrow)
    /// states the loss of precision; a rank's results are rounded at the root, too. All ranks narrow in the
    /// same way, or get an error that they call different operations.
    ///
    /// # Errors
    /// As [`collective`](Self::collective).
    pub fn collective_narrow<'n>(
        &mut self,
        collective: &Collective<'_>,
        tensor: &mut [f32],
        narrowing: impl Into<Narrowing<'n>>,
        hints: Hints,
    ) -> Result<Report, AllreduceError> {
        let mut room = core::mem::take(&mut self.narrowed);
        let identity = self.membership().identity;
        let run = |call: &Collective<'_>, dtype, bytes: &mut [u8]| {
            self.run_collective((call, hints), dtype, bytes, None)
        };
        let outcome = narrow::through(&identity, collective, (tensor, narrowing.into()), &mut room, run);
        self.narrowed = room;
        outcome
    }

    /// Any collective operation that the appliance cannot read: [`masked`](crate::masked) says what that
    /// takes and gives. The same key at all ranks.
    ///
    /// # Errors
    /// As [`collective`](Self::collective), and [`Fault`](crate::masked::Fault).
    pub fn collective_masked(
        &mut self,
        key: &Key,
        collective: &Collective<'_>,
        (dtype, tensor): (DType, &mut [u8]),
        hints: Hints,
    ) -> Result<Report, AllreduceError> {
        let mut room = core::mem::take(&mut self.masked);
        let identity = self.membership().identity;
        // One for both of its operations.
        let (deadline, begun) = (self.config.deadline, self.origin.elapsed());
        let run = |call: &Collective<'_>, dtype, bytes: &mut [u8], pieces: Option<&mut dyn Pieces>| {
            self.config.deadline = deadline.saturating_sub(self.origin.elapsed().saturating_sub(begun));
            self.run_collective((call, hints), dtype, bytes, pieces)
        };
        let outcome = masked::through((key, &identity), (collective, dtype), tensor, &mut room, run);
        (self.masked, self.config.deadline) = (room, deadline);
        outcome
    }

    /// Any collective operation, on a tensor of `dtype` elements as they lie in memory. A broadcast takes any
    /// number of bytes.
    ///
    /// # Errors
    ///
    /// See [`AllreduceError`]. Ranks that call different operations, roots or parts get an error that says
    /// so. It never waits beyond [`Config::deadline`](crate::Config::deadline). If the operation has begun,
    /// and was not finished, the tensor's content is unspecified.
    pub fn collective(
        &mut self,
        collective: &Collective<'_>,
        dtype: DType,
        tensor: &mut [u8],
        hints: Hints,
    ) -> Result<Report, AllreduceError> {
        let mut room = core::mem::take(&mut self.narrowed);
        let identity = self.membership().identity;
        let run = |bytes: &mut [u8]| self.run_collective((collective, hints), dtype, bytes, None);
        let outcome = mean::guarded(&identity, (collective, dtype), tensor, &mut room, run);
        self.narrowed = room;
        outcome
    }

    /// Any collective operation, on a tensor that travels as it is, or as it is made meanwhile.
    fn run_collective(
        &mut self,
        (collective, hints): (&Collective<'_>, Hints),
        dtype: DType,
        tensor: &mut [u8],
        mut pieces: Option<&mut (dyn Pieces + '_)>,
    ) -> Result<Report, AllreduceError> {
        if self.outdated {
            let (expected, got) = self.latest;
            return Err(StartError::Ended { expected, got }.into());
        }
        let (bytes, call, deadline) = (tensor.len(), self.calls, self.config.deadline);
        let request = Request { bytes, dtype, op: Op::Sum, deadline, hints };
        if let Some(pieces) = &mut pieces
            && self.trees.len() > 1
        {
            pieces.fill(tensor, bytes);
        }
        let mut sessions: Vec<_> = self.trees.iter_mut().map(|tree| &mut tree.session).collect();
        let started = deal::start(&mut sessions, self.origin.elapsed(), call, &request, collective, tensor);
        let work = match started {
            Ok(work) => work,
            Err(error) => {
                if let StartError::Ended { expected, got } = error {
                    self.note_end((expected, got));
                }
                if self.trees.len() > 1 {
                    let given_up = self.trees.iter_mut().filter(|tree| tree.session.is_over());
                    given_up.for_each(Tree::abandon);
                }
                return Err(error.into());
            }
        };
        if work.iter().any(Option::is_some) {
            self.calls += 1;
            let event =
                self.drive(work, pieces).map_err(|(what, source)| AllreduceError::Io { what, source })?;
            if let Event::Failed(failure) = event {
                return Err(failure.into());
            }
        }
        let runs = deal::runs(bytes, dtype.size(), self.trees.len(), call);
        let reports = runs.map(|(tree, _)| *self.trees[tree].session.report());
        Ok(reports.reduce(Report::beside).unwrap_or_default())
    }
}
