//! Checks of packets before they are admitted to a job.

use pascaline_buffer::combine::Kernels;
use pascaline_wire::trailer::Bitmap;
use pascaline_wire::{Element, Flags, Header, Kind};

use crate::combine::Combiner;
use crate::config::JobParams;
use crate::outcome::{RejectReason, Rejection};
use pascaline_wire::RankSet;

/// Whether the packet is of this generation and size of the job, and names a rank of the job. The `rank` of
/// partials and results is not checked: it may be the one that they were once sent to.
pub(crate) fn membership(params: &JobParams, header: &Header) -> Result<(), Rejection> {
    if header.epoch != params.epoch {
        return Err(Rejection::new(RejectReason::WrongEpoch, params.epoch, header.epoch));
    }
    if header.fan_in != params.fan_in {
        return Err(Rejection::new(RejectReason::FanInMismatch, params.fan_in, header.fan_in));
    }
    if matches!(header.kind, Kind::Gradient | Kind::Reminder) && header.rank >= params.fan_in {
        return Err(Rejection::new(RejectReason::RankOutOfRange, params.fan_in, header.rank));
    }
    Ok(())
}

/// The combiner of the elements, if the job accepts a payload of this length.
pub(crate) fn elements(
    params: &JobParams,
    kernels: &Kernels,
    element: Element,
    payload: &[u8],
) -> Result<Combiner, Rejection> {
    let longest = usize::from(params.payload_max);
    if payload.len() > longest {
        return Err(Rejection::payload(longest, payload.len()));
    }
    Ok(Combiner::new(kernels, element))
}

/// Whether two contributions have the same element type and operation.
pub(crate) fn same_element(expected: Element, got: Element) -> Result<(), Rejection> {
    if expected == got {
        Ok(())
    } else {
        Err(Rejection::new(RejectReason::ElementMismatch, expected.code(), got.code()))
    }
}

/// Whether two contributions have the same length.
pub(crate) fn same_len(expected: usize, got: usize) -> Result<(), Rejection> {
    if expected == got { Ok(()) } else { Err(Rejection::payload(expected, got)) }
}

/// Whether two contributions are both the last ones of their ranks' operations, or neither is.
pub(crate) fn same_end(expected: Flags, got: Flags, len: usize) -> Result<(), Rejection> {
    if expected.has(Flags::FIN) == got.has(Flags::FIN) {
        Ok(())
    } else {
        Err(Rejection::new(RejectReason::OperationMismatch, 0_u16, u32::try_from(len).unwrap_or(u32::MAX)))
    }
}

/// The one rank inside a gradient.
pub(crate) fn gradient(header: &Header, bitmap: Option<&Bitmap>) -> Result<RankSet, Rejection> {
    if header.count != 1 {
        return Err(Rejection::new(RejectReason::WrongCount, 1_u16, header.count));
    }
    let mut ranks = RankSet::EMPTY;
    if !ranks.insert(header.rank) {
        return Err(RejectReason::RankOutOfRange.into());
    }
    match bitmap {
        Some(bitmap) if RankSet::from_bitmap(bitmap, header.fan_in) != Some(ranks) => {
            Err(RejectReason::WrongBitmap.into())
        }
        _ => Ok(ranks),
    }
}

/// The ranks inside a partial, by its bitmap: at least one, and as many as its count.
pub(crate) fn partial(header: &Header, bitmap: Option<&Bitmap>) -> Result<RankSet, Rejection> {
    bitmap
        .and_then(|bitmap| RankSet::from_bitmap(bitmap, header.fan_in))
        .filter(|ranks| header.count > 0 && ranks.len() == header.count)
        .ok_or_else(|| RejectReason::WrongBitmap.into())
}

/// The ranks inside a result: all, or enough by its bitmap.
pub(crate) fn result(
    params: &JobParams,
    header: &Header,
    bitmap: Option<&Bitmap>,
) -> Result<RankSet, Rejection> {
    let ranks = match bitmap {
        None if header.count == params.fan_in => RankSet::first(params.fan_in),
        None if header.count < params.needed() => return Err(RejectReason::Incomplete.into()),
        None => return Err(RejectReason::WrongBitmap.into()),
        Some(_) => partial(header, bitmap)?,
    };
    if ranks.len() < params.needed() { Err(RejectReason::Incomplete.into()) } else { Ok(ranks) }
}
