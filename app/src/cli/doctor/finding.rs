//! What the examination found.

use core::fmt;

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// As it should be.
    Ok,
    /// It works, and costs speed or surprises later.
    Warn,
    /// It will not work.
    Fail,
    /// It cannot be determined.
    Unknown,
}

/// One thing that was examined.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    /// Name of the check, the same in every run.
    pub(crate) check: &'static str,
    pub(crate) status: Status,
    /// What was found.
    pub(crate) detail: String,
    /// What to do about it; empty if nothing.
    pub(crate) remedy: String,
}

impl Finding {
    /// All is well.
    pub(crate) fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, status: Status::Ok, detail: detail.into(), remedy: String::new() }
    }

    /// It works, but.
    pub(crate) fn warn(check: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, status: Status::Warn, detail: detail.into(), remedy: remedy.into() }
    }

    /// It does not work.
    pub(crate) fn fail(check: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, status: Status::Fail, detail: detail.into(), remedy: remedy.into() }
    }

    /// It cannot be determined; the remedy is how to find out.
    pub(crate) fn unknown(check: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, status: Status::Unknown, detail: detail.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.status {
            Status::Ok => "ok     ",
            Status::Warn => "warn   ",
            Status::Fail => "FAIL   ",
            Status::Unknown => "unknown",
        };
        write!(f, "{mark} {:<16} {}", self.check, self.detail)?;
        if !self.remedy.is_empty() {
            write!(f, "\n{:25}remedy: {}", "", self.remedy)?;
        }
        Ok(())
    }
}
