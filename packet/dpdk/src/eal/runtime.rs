//! The directory with EAL's files of a run, which EAL itself leaves behind.

use core::ffi::CStr;
use core::mem::MaybeUninit;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pascaline_dpdk_sys as sys;

/// The directory of this run, once EAL has started.
pub(super) fn directory() -> PathBuf {
    // SAFETY: EAL runs, and keeps the string for the rest of the process.
    let path = unsafe { CStr::from_ptr(sys::rte_eal_get_runtime_dir()) };
    PathBuf::from(OsStr::from_bytes(path.to_bytes()))
}

/// Removes the directories beside `own` that runs of the same name have left which were killed.
pub(super) fn remove_left(own: &Path) {
    let Some((name, _)) = parts(own) else { return };
    let beside = own.parent().and_then(|parent| fs::read_dir(parent).ok());
    for other in beside.into_iter().flatten().flatten().map(|entry| entry.path()) {
        let dead = |pid: u32| !Path::new("/proc").join(pid.to_string()).exists();
        if parts(&other).is_some_and(|(of, pid)| of == name && dead(pid)) && !is_locked(&other) {
            remove(&other);
        }
    }
}

/// Removes such a directory. What stays takes space, and no more.
pub(super) fn remove(directory: &Path) {
    if let Err(error) = fs::remove_dir_all(directory) {
        tracing::debug!(%error, "{} stays", directory.display());
    }
}

/// The name of a run and its process.
fn parts(directory: &Path) -> Option<(&str, u32)> {
    let (name, pid) = directory.file_name()?.to_str()?.rsplit_once('-')?;
    Some((name, pid.parse().ok()?))
}

/// Whether a process holds it that is not in this one's /proc: in another container, say.
#[expect(clippy::cast_possible_truncation, reason = "the kinds of locks are small numbers")]
fn is_locked(directory: &Path) -> bool {
    let Ok(config) = File::options().read(true).write(true).open(directory.join("config")) else {
        return false;
    };
    // SAFETY: numbers, for which zero is valid.
    let mut lock: libc::flock = unsafe { MaybeUninit::zeroed().assume_init() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    // SAFETY: the descriptor is open, and the lock is a live variable.
    let asked = unsafe { libc::fcntl(config.as_raw_fd(), libc::F_GETLK, &raw mut lock) };
    asked != 0 || lock.l_type != libc::F_UNLCK as libc::c_short
}

#[cfg(test)]
mod tests;
