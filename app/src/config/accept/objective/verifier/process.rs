//! The program, started and waited for.

use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::Unasked;

/// The longest that all queries of a file may take: a reload waits for them.
const TIME_LIMIT: &str = "2s";
/// Beyond that the program is stuck, and is ended.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most updates of a file up to its horizon.
const UPDATES: &str = "100000";
/// The longest answer.
const LONGEST: u64 = 16 << 20;

/// What it says in JSON.
pub(super) fn answer(file: &Path) -> Result<Vec<u8>, Unasked> {
    let program = program();
    let unasked = |why: String, remedy| Unasked { message: format!("{}: {why}", program.display()), remedy };
    let mut command = Command::new(&program);
    command.args(["verify", "--json", "--time-limit", TIME_LIMIT, "--updates", UPDATES, "--"]).arg(file);
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = started.map_err(|error| {
        let missing = error.kind() == ErrorKind::NotFound;
        let why =
            if missing { "there is no such program, which verifies".to_owned() } else { error.to_string() };
        let remedy = "install it: the package has it, and so has `cargo build --release -p pascaline-fleet`; \
                      it is looked for in PASCALINE_FLEET, beside this program, and in PATH";
        unasked(why, remedy)
    })?;
    let (sender, receiver) = mpsc::channel();
    let mut out = child.stdout.take();
    std::thread::spawn(move || {
        let mut said = Vec::new();
        let read = out.as_mut().map(|out| out.take(LONGEST).read_to_end(&mut said));
        // A late process is not waited for.
        let _ = sender.send(read.is_some_and(|read| read.is_ok()).then_some(said));
    });
    let said = receiver.recv_timeout(PATIENCE);
    // It has ended, or is not waited for.
    let _ = child.kill();
    let _ = child.wait();
    match said {
        Ok(Some(said)) => Ok(said),
        _ => Err(unasked("it does not answer".to_owned(), "try `pascaline-fleet verify FILE` by hand")),
    }
}

/// Where it is.
fn program() -> PathBuf {
    const NAME: &str = "pascaline-fleet";
    if let Some(named) = std::env::var_os("PASCALINE_FLEET") {
        return named.into();
    }
    let beside = std::env::current_exe().map(|own| own.with_file_name(NAME));
    beside.ok().filter(|path| path.is_file()).unwrap_or_else(|| NAME.into())
}
