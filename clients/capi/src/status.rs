//! What a call returns, and the text that belongs to it.

use core::ffi::CStr;
use core::fmt::Display;
use std::any::Any;

use pascaline_worker::masked::Fault as Masked;
use pascaline_worker::{AllreduceError, Failure, JoinError, JoinFailure, Reason, StartError};

use pascaline_status as Status;

/// What a call returns. `pascaline_strerror` has a text for each, `pascaline_last_error` more about the
/// latest error of a handle.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "the names of the header")]
pub enum pascaline_status {
    /// Done.
    PASCALINE_OK = 0,
    /// A pointer is null that must not be, or a handle is.
    PASCALINE_ERR_NULL = 1,
    /// The URL is not understood.
    PASCALINE_ERR_URL = 2,
    /// The host's name has no address.
    PASCALINE_ERR_RESOLVE = 3,
    /// Buffers overlap, there is no such root or layer, or the parts do not make up the tensor.
    PASCALINE_ERR_ARGUMENT = 4,
    /// The elements do not fit into memory, or need too many packets; or not 1 to 64 streams.
    PASCALINE_ERR_COUNT = 5,
    /// There is no such element type or operation, or the appliance does not have it.
    PASCALINE_ERR_UNSUPPORTED = 6,
    /// Another thread is in a call on this handle.
    PASCALINE_ERR_BUSY = 7,
    /// The handle has no such request, or too many.
    PASCALINE_ERR_REQUEST = 8,
    /// The appliance does not answer.
    PASCALINE_ERR_UNREACHABLE = 9,
    /// Not all ranks joined in time.
    PASCALINE_ERR_INCOMPLETE = 10,
    /// The operation's deadline passed.
    PASCALINE_ERR_TIMEOUT = 11,
    /// The appliance refuses this rank.
    PASCALINE_ERR_REJECTED = 12,
    /// The ranks disagree: on the type, the count, the operation, the payload or the number of ranks.
    PASCALINE_ERR_MISMATCH = 13,
    /// A rank has restarted. The handle stays usable. Nothing begins until every request that failed this way
    /// has been waited for; the next operation is then the first one of all ranks.
    PASCALINE_ERR_GENERATION = 14,
    /// Ranks have died, or have left before the operation.
    PASCALINE_ERR_RANKS_LOST = 15,
    /// Packets of this payload do not fit into the path.
    PASCALINE_ERR_TOO_LONG = 16,
    /// The handle can no longer be used: an earlier error, or it was made before a fork.
    PASCALINE_ERR_STATE = 17,
    /// The operating system returned an error.
    PASCALINE_ERR_SYSTEM = 18,
    /// A defect of the library: the handle can no longer be used.
    PASCALINE_ERR_INTERNAL = 19,
    /// With `security=masked`: what arrived is not the sum of what the ranks sent.
    PASCALINE_ERR_INTEGRITY = 20,
}

/// The text of a code, which need not be one.
pub(crate) fn text(code: i32) -> &'static CStr {
    match code {
        0 => c"done",
        1 => c"a pointer or a handle is null",
        2 => c"the URL is not understood",
        3 => c"the host's name has no address",
        4 => c"buffers overlap, there is no such root or layer, or the parts do not make up the tensor",
        5 => c"the elements do not fit into memory or need too many packets, or not 1 to 64 streams",
        6 => c"no such element type or operation",
        7 => c"another thread is in a call on this handle",
        8 => c"the handle has no such request, or too many",
        9 => c"the appliance does not answer",
        10 => c"not all ranks joined in time",
        11 => c"the operation's deadline passed",
        12 => c"the appliance refuses this rank",
        13 => c"the ranks disagree on type, count, operation, payload or their number",
        14 => c"a rank has restarted: the next operation is the first one of all ranks",
        15 => c"ranks have died, or have left before the operation",
        16 => c"packets of this payload do not fit into the path",
        17 => c"the handle can no longer be used: an earlier error, or a fork",
        18 => c"the operating system returned an error",
        19 => c"a defect of the library",
        20 => c"what arrived is not the sum of what the ranks sent",
        _ => c"no status of this library",
    }
}

/// A status that is not OK, with what is known about it.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) status: Status,
    pub(crate) text: String,
}

impl Fault {
    pub(crate) fn new(status: Status, text: impl Display) -> Self {
        Self { status, text: text.to_string() }
    }

    /// The failure after a panic.
    pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Self {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Self::new(Status::PASCALINE_ERR_INTERNAL, format_args!("a defect of libpascaline: {said}"))
    }
}

const fn of_reason(reason: &Reason) -> Status {
    match reason {
        Reason::RankCount | Reason::Workers | Reason::Payload | Reason::Element | Reason::Operations(_) => {
            Status::PASCALINE_ERR_MISMATCH
        }
        Reason::Generation => Status::PASCALINE_ERR_GENERATION,
        Reason::RanksLost(_) | Reason::RanksLeft(_) => Status::PASCALINE_ERR_RANKS_LOST,
        Reason::Unsupported => Status::PASCALINE_ERR_UNSUPPORTED,
        _ => Status::PASCALINE_ERR_REJECTED,
    }
}

impl From<JoinError> for Fault {
    fn from(error: JoinError) -> Self {
        let status = match &error {
            JoinError::Config(_) => Status::PASCALINE_ERR_URL,
            JoinError::Io { .. } => Status::PASCALINE_ERR_SYSTEM,
            JoinError::Failed { failure, .. } => match failure {
                JoinFailure::Rejected(rejection) => of_reason(&rejection.reason),
                JoinFailure::NoAnswer { .. } => Status::PASCALINE_ERR_UNREACHABLE,
                JoinFailure::Incomplete { .. } => Status::PASCALINE_ERR_INCOMPLETE,
                JoinFailure::NoWindow => Status::PASCALINE_ERR_REJECTED,
            },
        };
        Self::new(status, error)
    }
}

impl From<AllreduceError> for Fault {
    fn from(error: AllreduceError) -> Self {
        let status = match &error {
            AllreduceError::Failed(failure) => match failure {
                Failure::Deadline(_) => Status::PASCALINE_ERR_TIMEOUT,
                Failure::Unreachable(_) => Status::PASCALINE_ERR_UNREACHABLE,
                Failure::TooLong { .. } => Status::PASCALINE_ERR_TOO_LONG,
                Failure::Rejected { rejection, .. } => of_reason(&rejection.reason),
            },
            AllreduceError::Start(start) => match start {
                StartError::Ended { .. } => Status::PASCALINE_ERR_GENERATION,
                StartError::TooLong { .. } | StartError::Ragged { .. } => Status::PASCALINE_ERR_COUNT,
                StartError::Root { .. } | StartError::Parts { .. } | StartError::NotEmpty { .. } => {
                    Status::PASCALINE_ERR_ARGUMENT
                }
                StartError::ShortPayload { .. }
                | StartError::Subtree { .. }
                | StartError::Blocks { .. }
                | StartError::NoBlock { .. }
                | StartError::NoMean { .. }
                | StartError::Feedback
                | StartError::FeedbackLength { .. } => Status::PASCALINE_ERR_UNSUPPORTED,
                StartError::Broken | StartError::Busy => Status::PASCALINE_ERR_STATE,
            },
            AllreduceError::Masked(fault) => match fault {
                Masked::Unmaskable { .. } => Status::PASCALINE_ERR_UNSUPPORTED,
                Masked::NotFinite { .. } | Masked::Range { .. } => Status::PASCALINE_ERR_ARGUMENT,
                Masked::Absent { .. } | Masked::Foreign { .. } | Masked::Calls { .. } => {
                    Status::PASCALINE_ERR_MISMATCH
                }
                Masked::NotTheSum { .. } => Status::PASCALINE_ERR_INTEGRITY,
                Masked::Lacking { .. } => Status::PASCALINE_ERR_RANKS_LOST,
                Masked::Random(_) => Status::PASCALINE_ERR_SYSTEM,
            },
            AllreduceError::Io { .. } => Status::PASCALINE_ERR_SYSTEM,
        };
        Self::new(status, error)
    }
}
