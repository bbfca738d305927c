//! Adds one payload to another, in the memory of the first. Only this module uses the kernels.
//!
//! The first addition turns a payload into an *accumulator*: a sum of contributions, in binary32 for 16-bit
//! floats. A mean stays a sum until it departs, so it is divided and rounded once.

use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::{Combine as Add, Kernels, WideSum};
use pascaline_wire::{DType, Element, Op};

use crate::config::Combine;
use crate::update::Update;

/// The elements of an accumulator that has to be weighted.
#[derive(Debug, Clone, Copy)]
enum Float {
    F32,
    F64,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    /// Accumulators look like payloads.
    Plain,
    /// Accumulators are in binary32 and twice as long.
    Wide(WideSum),
}

/// The operations on payloads of one type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel {
    /// Adds two accumulators.
    add: Add,
    form: Form,
    /// The elements of accumulators, if payloads are means.
    mean: Option<Float>,
}

/// The kernels of a queue by element type; `None` where the type cannot be combined.
#[derive(Debug)]
pub(crate) struct Combiner {
    kernels: [Option<Kernel>; DType::ALL.len()],
}

impl Combiner {
    pub(crate) fn new(combine: Combine, kernels: &Kernels) -> Self {
        Self { kernels: DType::ALL.map(|dtype| Kernel::new(dtype, combine, kernels)) }
    }

    /// The kernel for an element; `None` if it cannot be combined.
    #[inline]
    pub(crate) fn kernel(&self, element: Element) -> Option<&Kernel> {
        let kernel = self.kernels.get(element.dtype.place())?.as_ref();
        if element.op == Op::Sum { kernel } else { None }
    }
}

impl Kernel {
    fn new(dtype: DType, combine: Combine, kernels: &Kernels) -> Option<Self> {
        // Narrower floats are added in binary32.
        let float = if dtype.size() == 8 { Float::F64 } else { Float::F32 };
        let float = dtype.is_float().then_some(float);
        let (add, form) = match kernels.wide_sum(dtype) {
            Some(wide) => (kernels.f32_sum, Form::Wide(wide)),
            None => (kernels.combine(dtype, Op::Sum)?, Form::Plain),
        };
        let mean = match combine {
            Combine::Sum => None,
            Combine::Mean => Some(float?),
        };
        Some(Self { add, form, mean })
    }

    /// Adds the payload of `from`, which it overwrites, to `into`; true if an element saturated.
    /// `accumulating` says whether `into` is an accumulator already. `None`, and `into` unchanged, if a
    /// packet has no room for one.
    #[inline]
    pub(crate) fn add<B: PacketBuf>(
        &self,
        (into, waiting, accumulating): (&mut B, &Update, bool),
        (from, update): (&mut B, &Update),
    ) -> Option<bool> {
        let weighted = self.mean.is_some() && update.count > 1;
        if weighted && !self.begin(from, update) {
            return None;
        }
        if !accumulating && !self.begin(into, waiting) {
            return None;
        }
        let sum = self.accumulator(into.bytes_mut(), waiting);
        Some(match self.form {
            Form::Wide(wide) if !weighted => (wide.next)(sum, &from.bytes()[update.payload()]),
            _ => (self.add)(sum, self.accumulator(from.bytes_mut(), update)),
        })
    }

    /// Turns a payload into an accumulator. Returns false and changes nothing if the packet has no room for
    /// it.
    #[inline]
    fn begin<B: PacketBuf>(&self, packet: &mut B, update: &Update) -> bool {
        // Most payloads are already accumulators: those need no call.
        let weighted = self.mean.is_some() && update.count > 1;
        (matches!(self.form, Form::Plain) && !weighted) || self.convert(packet, update)
    }

    /// The part of [`begin`](Self::begin) that changes the payload.
    #[inline(never)]
    fn convert<B: PacketBuf>(&self, packet: &mut B, update: &Update) -> bool {
        if let Form::Wide(wide) = self.form {
            let payload = update.payload();
            if !packet.set_len(payload.end + payload.len()) {
                return false;
            }
            (wide.widen)(self.accumulator(packet.bytes_mut(), update));
        }
        if update.count > 1
            && let Some(float) = self.mean
        {
            float.weigh(self.accumulator(packet.bytes_mut(), update), update.count);
        }
        true
    }

    /// Turns an accumulator back into a payload.
    #[inline]
    pub(crate) fn end<B: PacketBuf>(&self, packet: &mut B, update: &Update) {
        if let Some(float) = self.mean {
            float.divide(self.accumulator(packet.bytes_mut(), update), update.count);
        }
        if let Form::Wide(wide) = self.form {
            (wide.narrow)(self.accumulator(packet.bytes_mut(), update));
            packet.truncate(update.payload().end);
        }
    }

    /// The accumulator in the bytes of a packet.
    #[inline]
    fn accumulator<'a>(&self, bytes: &'a mut [u8], update: &Update) -> &'a mut [u8] {
        let payload = update.payload();
        let end = match self.form {
            Form::Plain => payload.end,
            Form::Wide(_) => payload.end + payload.len(),
        };
        &mut bytes[payload.start..end]
    }
}

impl Float {
    fn weigh(self, values: &mut [u8], count: u16) {
        match self {
            Self::F32 => each_f32(values, |value| value * f32::from(count)),
            Self::F64 => each_f64(values, |value| value * f64::from(count)),
        }
    }

    fn divide(self, values: &mut [u8], count: u16) {
        match self {
            Self::F32 => each_f32(values, |value| value / f32::from(count)),
            Self::F64 => each_f64(values, |value| value / f64::from(count)),
        }
    }
}

fn each_f32(bytes: &mut [u8], change: impl Fn(f32) -> f32) {
    for value in bytes.as_chunks_mut().0 {
        *value = change(f32::from_le_bytes(*value)).to_le_bytes();
    }
}

fn each_f64(bytes: &mut [u8], change: impl Fn(f64) -> f64) {
    for value in bytes.as_chunks_mut().0 {
        *value = change(f64::from_le_bytes(*value)).to_le_bytes();
    }
}
