//! A request's description of the sender's operation.

use pascaline_wire::control::Control;
use pascaline_wire::{Call, Element};

use super::Session;

/// A request's description of the sender's operation.
pub(super) struct Called {
    cookie: u64,
    element: Option<Element>,
    pub(super) una: u32,
    pub(super) first: u32,
    call: Call,
    bytes: u64,
}

impl Called {
    pub(super) fn describe(&self, join: Control) -> Control {
        let &Self { cookie, element, una: psn, first, call, bytes } = self;
        Control { cookie, element, psn, first, call, bytes, ..join }
    }
}

impl Session {
    pub(super) fn called(&self) -> Called {
        let (cookie, una) = (self.membership.cookie, self.psns.window.una());
        match &self.operation {
            None => Called { cookie, element: None, una, first: una, call: Call::ALLREDUCE, bytes: 0 },
            Some(operation) => {
                let (element, call) = (Some(operation.plan.element), operation.plan.call);
                let bytes = operation.tensor_len as u64;
                Called { cookie, element, una, first: operation.start, call, bytes }
            }
        }
    }
}
