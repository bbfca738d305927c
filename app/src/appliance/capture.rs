//! A capture under way, and the pcap file that it becomes.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pascaline_pipelines::capture::{self, CapturedFrame, SNAP};
use pascaline_shared::guarded::Problem;

use crate::admin::server::{CaptureRequest, Captured, Reply, Respond as _};

/// Frames that one turn of the control loop writes.
const FRAMES: usize = 512;
/// `a1b23c4d`: time stamps in nanoseconds, in the writer's byte order (pcap-savefile(5)).
const MAGIC: u32 = 0xa1b2_3c4d;
/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;

/// Packets of a job on their way into a file.
pub(super) struct Capture {
    reply: Option<Reply<Captured>>,
    wanted: u64,
    packets: u64,
    pcap: Vec<u8>,
    end: Instant,
    /// The time of the lcores' clock when that of the wall was `wall`.
    clock: u64,
    wall: Duration,
}

impl Capture {
    /// Begins a capture; `clock` is the lcores' clock now.
    pub(super) fn begin(
        frames: &capture::Capture,
        job: u16,
        request: CaptureRequest,
        clock: u64,
        reply: Reply<Captured>,
    ) -> Self {
        frames.begin(job);
        Self {
            reply: Some(reply),
            wanted: u64::from(request.packets),
            packets: 0,
            pcap: head(),
            end: Instant::now() + Duration::from_secs(u64::from(request.seconds)),
            clock,
            wall: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }

    /// Writes what has come. True if that is all: then it has been answered.
    pub(super) fn turn(&mut self, frames: &capture::Capture) -> bool {
        for _ in 0..FRAMES {
            if self.packets == self.wanted {
                break;
            }
            let Some(frame) = frames.take() else { break };
            self.write(&frame);
            frames.give_back(frame);
        }
        // Nobody waits for it any more.
        let deserted = self.reply.as_ref().is_none_or(tokio::sync::oneshot::Sender::is_closed);
        if self.packets < self.wanted && Instant::now() < self.end && !deserted {
            return false;
        }
        self.finish(frames);
        true
    }

    /// Ends it with what there is.
    pub(super) fn finish(&mut self, frames: &capture::Capture) {
        frames.end();
        let (pcap, packets) = (core::mem::take(&mut self.pcap), self.packets);
        if let Some(reply) = self.reply.take() {
            reply.respond(Ok(Captured { pcap, packets, dropped: frames.missed() }));
        }
    }

    /// Refuses a second one.
    pub(super) fn refuse(reply: Reply<Captured>) {
        let remedy = "wait until it ends";
        let problem = Problem::new(axum::http::StatusCode::CONFLICT, "another capture is under way", remedy);
        reply.respond(Err(problem));
    }

    fn write(&mut self, frame: &CapturedFrame) {
        let since = Duration::from_nanos(frame.at.saturating_sub(self.clock));
        let before = Duration::from_nanos(self.clock.saturating_sub(frame.at));
        let at = (self.wall + since).saturating_sub(before);
        let seconds = u32::try_from(at.as_secs()).unwrap_or(u32::MAX);
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        for word in [seconds, at.subsec_nanos(), number(frame.bytes().len()), number(frame.len)] {
            self.pcap.extend(word.to_le_bytes());
        }
        self.pcap.extend(frame.bytes());
        self.packets += 1;
    }
}

/// The head of a pcap file, version 2.4.
fn head() -> Vec<u8> {
    let mut head = MAGIC.to_le_bytes().to_vec();
    for half in [2u16, 4] {
        head.extend(half.to_le_bytes());
    }
    let snap = u32::try_from(SNAP).unwrap_or(u32::MAX);
    for word in [0, 0, snap, ETHERNET] {
        head.extend(u32::to_le_bytes(word));
    }
    head
}
