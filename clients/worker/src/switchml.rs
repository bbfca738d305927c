//! A client that speaks SwitchML's UDP protocol, to a job with `protocol = "switchml"`: a state machine,
//! datagrams and times in, datagrams out.
//!
//! It sends the packets of SwitchML's own client, but does not corrupt sums as that one does (by a result
//! that comes twice, or a retransmission that carries another packet's data): a result is taken once, by its
//! operation and packet, and a packet that is sent again is the same packet.
//!
//! **Floats.** A block's exponent travels a window ahead of its values: packet *i* has the exponent of block
//! *i* and the values of block *i − batch*, as integers, scaled by the largest exponent of all workers so
//! that their sum fits. So an operation takes one window of packets more than it has blocks.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use pascaline_wire::switchml::{Body, MOST_WORKERS, Mark, PLACES, Place, Size};

/// The terms that a client shares with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Workers; 1 to 32.
    pub workers: u16,
    /// The most packets in flight at a time; the same at all workers.
    pub window: u16,
    /// How long a packet is.
    pub size: Size,
    /// How long to wait for a result before its packet is sent again.
    pub timeout: Duration,
}

/// Terms that no client can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadTerms {
    /// Too few or too many workers.
    #[error("{0} workers: SwitchML has 1 to 32")]
    Workers(u16),
    /// No window, or one that needs more slots than a packet can name.
    #[error("a window of {0} packets: 1 to 16,384")]
    Window(u16),
}

/// The tensor to sum.
#[derive(Debug)]
enum Tensor {
    Integers(Vec<i32>),
    Floats {
        values: Vec<f32>,
        /// By block: the largest exponent of all workers, once that is known.
        exponents: Vec<i8>,
    },
}

/// An operation in flight.
#[derive(Debug)]
struct Operation {
    tensor: Tensor,
    blocks: u32,
    /// Packets that are sent before there is any result.
    batch: u32,
    packets: u32,
    /// Of the first batch, how many have been sent.
    begun: u32,
    /// Packets that have their results.
    done: u32,
    /// Packets without a result, with the time at which they are sent again.
    waiting: BTreeMap<u32, Duration>,
    /// Of these, the packets to send now.
    due: VecDeque<u32>,
}

/// Event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets sent.
    pub sent: u64,
    /// Of these, sent before.
    pub again: u64,
    /// Results taken.
    pub results: u64,
    /// Datagrams that were no result of a packet in flight: duplicates, and stray ones.
    pub ignored: u64,
}

/// One worker.
#[derive(Debug)]
pub struct Client {
    terms: Terms,
    /// Number of the operation; packets have its lowest byte.
    number: u8,
    /// The place in the ring of both sets at which the operation began.
    shift: u32,
    operation: Option<Operation>,
    counters: Counters,
}

impl Client {
    /// A client that has registered.
    ///
    /// # Errors
    /// [`BadTerms`].
    pub const fn new(terms: Terms) -> Result<Self, BadTerms> {
        if terms.workers == 0 || terms.workers > MOST_WORKERS {
            return Err(BadTerms::Workers(terms.workers));
        }
        if terms.window == 0 || terms.window as u32 > PLACES {
            return Err(BadTerms::Window(terms.window));
        }
        let counters = Counters { sent: 0, again: 0, results: 0, ignored: 0 };
        Ok(Self { terms, number: 0, shift: 0, operation: None, counters })
    }

    /// Begins to sum integers; sums wrap. An operation in flight is given up.
    pub fn start_integers(&mut self, values: Vec<i32>) {
        let blocks = self.blocks(values.len());
        self.start(Tensor::Integers(values), blocks, false);
    }

    /// Begins to sum floats. An operation in flight is given up.
    pub fn start_floats(&mut self, values: Vec<f32>) {
        let blocks = self.blocks(values.len());
        let exponents = vec![i8::MIN; blocks as usize];
        self.start(Tensor::Floats { values, exponents }, blocks, true);
    }

    fn blocks(&self, values: usize) -> u32 {
        u32::try_from(values.div_ceil(self.terms.size.elements())).unwrap_or(u32::MAX)
    }

    fn start(&mut self, tensor: Tensor, blocks: u32, ahead: bool) {
        let batch = blocks.min(u32::from(self.terms.window));
        let packets = if ahead { blocks + batch } else { blocks };
        let (waiting, due) = (BTreeMap::new(), VecDeque::new());
        let (begun, done) = (0, 0);
        self.operation = Some(Operation { tensor, blocks, batch, packets, begun, done, waiting, due });
    }

    /// The sums of the integers, once all are there.
    pub fn take_integers(&mut self) -> Option<Vec<i32>> {
        match self.finish()?.tensor {
            Tensor::Integers(values) => Some(values),
            Tensor::Floats { .. } => None,
        }
    }

    /// The sums of the floats, once all are there.
    pub fn take_floats(&mut self) -> Option<Vec<f32>> {
        match self.finish()?.tensor {
            Tensor::Floats { values, .. } => Some(values),
            Tensor::Integers(_) => None,
        }
    }

    fn finish(&mut self) -> Option<Operation> {
        let operation = self.operation.take_if(|of| of.done == of.packets)?;
        self.shift = (self.shift + operation.packets) % self.ring();
        self.number = self.number.wrapping_add(1);
        Some(operation)
    }

    /// Slots of both sets.
    const fn ring(&self) -> u32 {
        2 * self.terms.window as u32
    }

    fn place(&self, packet: u32) -> Place {
        let window = u32::from(self.terms.window);
        let at = (self.shift + packet % self.ring()) % self.ring();
        Place { slot: u16::try_from(at % window).unwrap_or(u16::MAX), second: at >= window }
    }

    /// Writes the next datagram to send over `out`; false if there is none now.
    pub fn poll_transmit(&mut self, now: Duration, out: &mut Vec<u8>) -> bool {
        let Some(operation) = &mut self.operation else { return false };
        let packet = if operation.begun < operation.batch {
            operation.begun += 1;
            operation.begun - 1
        } else {
            // A packet to the other set of a slot says that its worker has the slot's last result.
            let window = u32::from(self.terms.window);
            let free = |packet: &u32| {
                packet.checked_sub(window).is_none_or(|before| !operation.waiting.contains_key(&before))
            };
            let due = operation.due.iter().position(free).and_then(|at| operation.due.remove(at));
            let Some(due) = due else { return false };
            due
        };
        operation.waiting.insert(packet, now.saturating_add(self.terms.timeout));
        self.counters.sent += 1;
        self.write(packet, out);
        true
    }

    fn write(&self, packet: u32, out: &mut Vec<u8>) {
        let Some(operation) = &self.operation else { return };
        let Terms { size, workers, .. } = self.terms;
        let mark = Mark { operation: self.number, packet: packet.swap_bytes() };
        out.clear();
        out.extend(Body { size, mark, place: self.place(packet) }.to_bytes());
        let block = |block: u32| {
            let first = block as usize * size.elements();
            first..first + size.elements()
        };
        match &operation.tensor {
            Tensor::Integers(values) => {
                out.extend([0, 0]);
                let range = block(packet);
                let sent = range.map(|at| values.get(at).copied().unwrap_or(0));
                out.extend(sent.flat_map(i32::to_be_bytes));
            }
            Tensor::Floats { values, exponents } => {
                let own = block(packet).filter_map(|at| values.get(at));
                let exponent = if packet < operation.blocks { exponent_of(own) } else { i8::MIN };
                out.extend([exponent.cast_unsigned(), 0]);
                let earlier = packet.checked_sub(operation.batch);
                let scale = earlier.and_then(|block| exponents.get(block as usize));
                let range = block(earlier.unwrap_or(0));
                let sent = range.map(|at| match (scale, values.get(at)) {
                    (Some(&exponent), Some(&value)) => quantised(value, scale_of(exponent, workers)),
                    _ => 0,
                });
                out.extend(sent.flat_map(i32::to_be_bytes));
            }
        }
    }

    /// Takes in a datagram.
    pub fn handle(&mut self, now: Duration, datagram: &[u8]) {
        if !self.take(now, datagram) {
            self.counters.ignored += 1;
        }
    }

    fn take(&mut self, now: Duration, datagram: &[u8]) -> bool {
        let Some(body) = Body::parse(datagram) else { return false };
        let packet = body.mark.packet.swap_bytes();
        let expected = Body {
            size: self.terms.size,
            mark: Mark { operation: self.number, ..body.mark },
            place: self.place(packet),
        };
        let workers = self.terms.workers;
        let elements = self.terms.size.elements();
        let Some(operation) = &mut self.operation else { return false };
        if body != expected || operation.waiting.remove(&packet).is_none() {
            return false;
        }
        operation.due.retain(|due| *due != packet);
        let sums = datagram.get(10..).unwrap_or_default().as_chunks::<4>().0;
        let sums = sums.iter().map(|sum| i32::from_be_bytes(*sum));
        match &mut operation.tensor {
            Tensor::Integers(values) => {
                let places = values.iter_mut().skip(packet as usize * elements);
                places.zip(sums).for_each(|(place, sum)| *place = sum);
            }
            Tensor::Floats { values, exponents } => {
                if let Some(block) = packet.checked_sub(operation.batch) {
                    let exponent = exponents.get(block as usize).copied().unwrap_or(i8::MIN);
                    let scale = scale_of(exponent, workers);
                    let places = values.iter_mut().skip(block as usize * elements);
                    places.zip(sums).for_each(|(place, sum)| *place = restored(sum, scale));
                }
                if let (Some(place), Some(exponent)) = (exponents.get_mut(packet as usize), datagram.get(8)) {
                    *place = exponent.cast_signed();
                }
            }
        }
        self.counters.results += 1;
        operation.done += 1;
        let next = packet + operation.batch;
        if next < operation.packets {
            operation.waiting.insert(next, now);
            operation.due.push_back(next);
        }
        true
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.operation.as_ref()?.waiting.values().min().copied()
    }

    /// Handles the passing of time: packets without a result are sent again.
    pub fn handle_timeout(&mut self, now: Duration) {
        let Some(operation) = &mut self.operation else { return };
        let timeout = self.terms.timeout;
        for (&packet, again) in operation.waiting.iter_mut().filter(|(_, again)| **again <= now) {
            if !operation.due.contains(&packet) {
                operation.due.push_back(packet);
                self.counters.again += 1;
            }
            *again = now.saturating_add(timeout);
        }
    }

    /// Event counts.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// The least e for which no magnitude exceeds 2^e; NaN, and values too large for that, count as the largest.
fn exponent_of<'a>(values: impl Iterator<Item = &'a f32>) -> i8 {
    let largest =
        values.map(|value| value.abs()).fold(0.0, |a: f32, b| if b > a || b.is_nan() { b } else { a });
    let biased = i16::from(u8::try_from(largest.to_bits() >> 23 & 0xff).unwrap_or(u8::MAX));
    i8::try_from(biased - 126).unwrap_or(i8::MAX)
}

fn scale_of(exponent: i8, workers: u16) -> f64 {
    f64::from(i32::MAX) / (f64::from(workers.max(1)) * f64::from(exponent).exp2())
}

#[expect(clippy::cast_possible_truncation, reason = "it saturates, and is meant to")]
fn quantised(value: f32, scale: f64) -> i32 {
    (f64::from(value) * scale).round() as i32
}

#[expect(clippy::cast_possible_truncation, reason = "rounded")]
fn restored(sum: i32, scale: f64) -> f32 {
    (f64::from(sum) / scale) as f32
}

#[cfg(test)]
mod tests;
