//! A worker: the real window, loss recovery and priorities over one iteration of a model.

use core::time::Duration;

use pascaline_worker::answers::{Answers, Asked};
use pascaline_worker::priority::{LEAST_REMAINING, priority, quantise};
use pascaline_worker::recovery::Recovery;
use pascaline_worker::session::REMIND_AFTER;
use pascaline_worker::window::{Standing, Window};

use super::Violation;
use super::line::NEVER;
use super::payload::Payload;
use super::server::{clock, time};
use super::setting::{LAYERS, PARTITIONS, Setting, Work};

/// A packet that a worker receives.
#[derive(Debug, Clone, Copy)]
pub(super) enum Down {
    /// A result.
    Result { psn: u32, sum: Payload },
    /// Another rank lacks the PSN; with `bypass` the server does.
    Remind { psn: u32, bypass: bool, round: u16 },
}

/// A packet that a worker sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Up {
    /// Its contribution; `again` if it has sent it before.
    Gradient { psn: u32, priority: u16, again: bool },
    /// Its contribution, for the server.
    Original { psn: u32, round: u16 },
    /// The result, for another rank or the server.
    Result { psn: u32, bypass: bool },
    /// It waits for a PSN.
    Reminder { psn: u32 },
}

/// A worker's counts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Deeds {
    /// Results received, each PSN once.
    pub(super) results: u64,
    /// Contributions sent again.
    pub(super) retransmissions: u64,
    /// When the first contribution was sent.
    pub(super) first_sent: Option<u64>,
    /// When the last result was received.
    pub(super) last_result: u64,
    /// End of the iteration: the next one's forward pass is done.
    pub(super) finished: Option<u64>,
}

/// A worker in its only iteration.
#[derive(Debug)]
pub(super) struct Worker {
    job: u16,
    rank: u16,
    ranks: u16,
    work: Work,
    /// When the job began.
    began: u64,
    /// When the gradients of the first and of the second layer are ready.
    ready: [u64; 2],
    window: Window,
    recovery: Recovery,
    answers: Answers,
    reminder: Option<u32>,
    /// The next PSN that has not been sent.
    next: u32,
    /// Of each partition, once it is being sent.
    priorities: [Option<u16>; PARTITIONS],
    /// Missing results of each layer.
    missing: [u32; 2],
    /// Time of each layer's last result.
    complete: [u64; 2],
    deeds: Deeds,
}

impl Worker {
    /// A worker whose job begins at `began`, and whose gradients are `late` late.
    pub(super) fn new(setting: &Setting, (job, rank): (u16, u16), began: u64, late: u64) -> Self {
        let work = setting.work(job);
        let mut window = Window::new(0, setting.in_flight, setting.spread());
        let mut missing = [0; 2];
        for layer in LAYERS {
            missing[layer as usize - 1] += work.packets;
        }
        window.begin(missing.iter().sum());
        let back = began + work.pass + late;
        Self {
            job,
            rank,
            ranks: setting.ranks,
            work,
            began,
            ready: [back + work.pass, back],
            window,
            recovery: Recovery::default(),
            answers: Answers::new(),
            reminder: None,
            next: 0,
            priorities: [None; PARTITIONS],
            missing,
            complete: [0; 2],
            deeds: Deeds::default(),
        }
    }

    /// PSNs whose gradients are ready. Partitions are sent in a fixed order.
    fn available(&self, now: u64) -> u32 {
        let ready = LAYERS.iter().take_while(|&&layer| self.ready[layer as usize - 1] <= now).count();
        u32::try_from(ready).unwrap_or(0) * self.work.packets
    }

    /// A partition's priority by DSA's equation 1, when its first packet is sent. The rest of the iteration
    /// is taken without contention.
    fn priority(&mut self, now: u64, psn: u32) -> u16 {
        let at = ((psn / self.work.packets) as usize).min(PARTITIONS - 1);
        let Work { communication, computation, .. } = self.work;
        let began = time(self.began);
        *self.priorities[at].get_or_insert_with(|| {
            let end = began + communication + computation;
            let remaining = end.saturating_sub(time(now)).max(LEAST_REMAINING);
            quantise(priority(remaining, (LAYERS[at], 2), communication, computation))
        })
    }

    /// A packet has arrived.
    pub(super) fn receive(&mut self, now: u64, packet: Down) -> Result<(), Violation> {
        match packet {
            Down::Result { psn, sum } => self.on_result(now, psn, sum),
            Down::Remind { psn, bypass, round } => {
                self.on_reminder(time(now), psn, bypass, round);
                Ok(())
            }
        }
    }

    fn on_result(&mut self, now: u64, psn: u32, sum: Payload) -> Result<(), Violation> {
        sum.check(self.job, self.rank, self.ranks, psn)?;
        let Some(completion) = self.window.complete(psn, false) else { return Ok(()) };
        self.recovery.on_result(time(now), &completion, &mut self.window);
        self.deeds.results += 1;
        self.deeds.last_result = now;
        let layer = LAYERS[((psn / self.work.packets) as usize).min(PARTITIONS - 1)] as usize - 1;
        self.missing[layer] -= 1;
        if self.missing[layer] == 0 {
            self.complete[layer] = now;
        }
        if self.missing == [0; 2] {
            // The next iteration's forward pass enters the first layer as soon as that is complete.
            let first = self.complete[0] + self.work.pass;
            self.deeds.finished = Some(first.max(self.complete[1]) + self.work.pass);
        }
        Ok(())
    }

    /// Answers as a member of a job: with the result if it has it, with its contribution if it waits too. It
    /// takes any result, whatever it has promised, since sums here do not depend on the order.
    fn on_reminder(&mut self, now: Duration, psn: u32, bypass: bool, round: u16) {
        let outstanding = match self.window.standing(psn) {
            Standing::Outstanding => true,
            Standing::Done => false,
            Standing::Unsent | Standing::Outside => return,
        };
        let prompted = outstanding && !bypass;
        let last = if prompted { self.window.last_sending(psn) } else { self.window.last_answer(psn) };
        if !self.answers.admit(now, last) {
            return;
        }
        if prompted {
            return self.window.prompt(psn);
        }
        if outstanding {
            self.window.promise(psn, round);
        }
        self.window.note_answer(psn, now);
        self.answers.push(Asked { psn, bypass });
    }

    /// Time passes: finds losses.
    pub(super) fn wake(&mut self, now: u64) {
        let waiting = self.window.in_flight() > 0 || self.window.has_lost();
        let now = time(now);
        if waiting && self.recovery.poll_timeout(&self.window).is_some_and(|at| at <= now) {
            self.recovery.on_timeout(now, &mut self.window);
        }
    }

    /// When its timer is due: for possible losses, or because a gradient becomes ready.
    pub(super) fn next(&self, now: u64) -> u64 {
        let waiting = self.window.in_flight() > 0 || self.window.has_lost();
        let timeout = self.recovery.poll_timeout(&self.window).filter(|_| waiting).map(clock);
        self.ready.into_iter().filter(|&ready| ready > now).chain(timeout).min().unwrap_or(NEVER)
    }

    /// The next packet to send.
    pub(super) fn send(&mut self, now: u64) -> Option<Up> {
        if let Some(Asked { psn, bypass }) = self.answers.pop() {
            return Some(if self.window.is_done(psn) {
                Up::Result { psn, bypass }
            } else {
                Up::Original { psn, round: self.window.promised(psn) }
            });
        }
        if let Some(psn) = self.reminder.take() {
            return Some(Up::Reminder { psn });
        }
        if !self.window.has_lost() {
            if self.next >= self.available(now) {
                return None;
            }
            if self.window.in_flight() == 0 {
                // After a pause in sending, nothing earlier can show that a result is late.
                self.recovery.begin();
            }
        }
        let at = time(now);
        let sending = self.window.send(at)?;
        self.recovery.on_sent(at);
        if sending.psn == self.next {
            self.next += 1;
        }
        self.deeds.first_sent.get_or_insert(now);
        self.deeds.retransmissions += u64::from(sending.again);
        if sending.retransmissions > REMIND_AFTER && !sending.prompted {
            self.reminder = Some(sending.psn);
        }
        Some(Up::Gradient {
            psn: sending.psn,
            priority: self.priority(now, sending.psn),
            again: sending.again,
        })
    }

    /// Job and rank.
    pub(super) const fn name(&self) -> (u16, u16) {
        (self.job, self.rank)
    }

    /// The oldest PSN without a result.
    pub(super) const fn waits_for(&self) -> u32 {
        self.window.una()
    }

    /// Start of its job.
    pub(super) const fn began(&self) -> u64 {
        self.began
    }

    pub(super) const fn deeds(&self) -> &Deeds {
        &self.deeds
    }
}
