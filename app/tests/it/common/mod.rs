//! What the tests of the command share: files, processes with deadlines, and the small networks they run in.

pub(crate) mod appliance;
pub(crate) mod net;
pub(crate) mod ranks;
pub(crate) mod raw;
pub(crate) mod tree;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use self::net::Namespace;

/// The command under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_pascaline");

/// Between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(5);

/// Looks until there is something to see. Fails after `limit`.
pub(crate) fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < end, "{what}: not after {limit:?}");
        std::thread::sleep(LOOK);
    }
}

/// A number that no other part of this run has.
pub(crate) fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A directory that is gone afterwards.
#[derive(Debug)]
pub(crate) struct Files(PathBuf);

impl Files {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("pas-test-{}-files", unique()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // A directory that stays behind is no reason to fail.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How a process ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// The JSON object in the last line of standard output.
    pub(crate) fn json(&self) -> serde_json::Value {
        let line = self.out.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Fails unless the process was refused with this status and said all of this.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32, says: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for text in says {
            assert!(self.err.contains(text), "standard error lacks {text:?}:\n{}", self.err);
        }
    }
}

/// A process that this test started. It is killed, if it still runs, when this goes.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    ended: Option<ExitStatus>,
    files: Files,
}

impl Process {
    /// Starts the command under test, inside a namespace if one is given.
    pub(crate) fn start(inside: Option<&Namespace>, args: &[&str]) -> Self {
        let files = Files::new();
        let mut command = Command::new(BINARY);
        command.args(args).env_remove("RUST_LOG").env("NO_COLOR", "1").stdin(Stdio::null());
        command.stdout(File::create(files.path("out")).unwrap());
        command.stderr(File::create(files.path("err")).unwrap());
        // A process belongs to the namespace of the thread that starts it.
        let child = match inside {
            Some(namespace) => namespace.within(|| command.spawn()),
            None => command.spawn(),
        };
        Self { child: child.unwrap(), ended: None, files }
    }

    /// What it has said so far on standard error.
    pub(crate) fn err(&self) -> String {
        read(&self.files.path("err"))
    }

    pub(crate) fn is_running(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap();
        }
        self.ended.is_none()
    }

    /// Waits until it has said something on standard error.
    pub(crate) fn wait_for(&mut self, text: &str, limit: Duration) {
        until(&format!("{text:?} on standard error"), limit, || {
            // In this order: what it said before it ended counts.
            let running = self.is_running();
            let said = self.err();
            assert!(running || said.contains(text), "it ended by itself:\n{said}");
            said.contains(text).then_some(())
        });
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&mut self, signal: Signal) {
        assert!(self.is_running(), "it ended by itself:\n{}", self.err());
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self, limit: Duration) -> Ended {
        let end = Instant::now() + limit;
        while self.is_running() {
            assert!(Instant::now() < end, "still running after {limit:?}:\n{}", self.err());
            std::thread::sleep(LOOK);
        }
        let code = self.ended.and_then(|status| status.code());
        Ended { code, out: read(&self.files.path("out")), err: self.err() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

/// Runs the command under test to its end.
pub(crate) fn pascaline(args: &[&str]) -> Ended {
    Process::start(None, args).wait(Duration::from_secs(12))
}
