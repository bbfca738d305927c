//! The state of PSNs, as long as they continue: over several generations, where those are resumed.

use pascaline_wire::CongestionControl;

use crate::answers::Answers;
use crate::cache::ResultCache;
use crate::congestion::Congestion;
use crate::identity::Membership;
use crate::partials::Partials;
use crate::recovery::Recovery;
use crate::window::Window;

/// What goes before the payload of a packet, over IPv4.
const HEADERS: u32 = 64;

#[derive(Debug)]
pub(super) struct Psns {
    pub(super) first: u32,
    pub(super) window: Window,
    pub(super) recovery: Recovery,
    pub(super) cache: ResultCache,
    /// The ranks inside partial results, if the worker accepts them.
    pub(super) partials: Option<Partials>,
    pub(super) answers: Answers,
    /// The earlier generation that this one still resumes, because it has no result yet.
    pub(super) base: Option<u16>,
}

impl Psns {
    /// Of a path without measurements yet.
    pub(super) fn new(first: u32, in_flight: u16, control: CongestionControl, terms: &Membership) -> Self {
        let Membership { identity, spread, .. } = *terms;
        let most = if in_flight == 0 { spread } else { in_flight };
        let mut window = Window::new(first, most, spread);
        let packet = u32::from(identity.payload) + HEADERS;
        let congestion = Congestion::new(control, window.limit(), packet);
        Self {
            first,
            recovery: Recovery::controlled(congestion, &mut window),
            window,
            cache: ResultCache::new(spread, identity.payload),
            partials: None,
            answers: Answers::new(),
            base: None,
        }
    }
}
