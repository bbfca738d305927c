//! An appliance with an admin API, and a client that sends what it is told to.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::common::appliance::cores;
use crate::common::{Ended, Files, Process, until};

/// For anything that is a matter of milliseconds on an idle machine.
pub(crate) const SOON: Duration = Duration::from_secs(15);

/// Two jobs in the shared part, and one with a region.
const JOBS: &str = r#"
[[jobs]]
id = 1
name = "one"
fan_in = 2
window = 64
kind = "shared"
[jobs.shared]
server = false

[[jobs]]
id = 2
fan_in = 2
window = 64
kind = "shared"
[jobs.shared]
server = false

[[jobs]]
id = 3
fan_in = 2
window = 16
[jobs.region]
slots = 64
"#;

/// The status line's number, the head, and the body.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Self { status, head, body: bytes[end + 4..].to_vec() })
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }
}

/// Sends bytes and reads until the other side closes; none if it says nothing.
pub(crate) fn exchange(mut stream: impl Read + Write, bytes: &[u8]) -> Option<Response> {
    // It may refuse before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    Response::parse(&answer)
}

/// A request with a body, if it is not empty.
pub(crate) fn request(method: &str, path: &str, more: &str, body: &str) -> String {
    let json = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{json}{more}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Asks the API on a socket.
pub(crate) fn ask(socket: &Path, method: &str, path: &str, body: &str) -> Option<Response> {
    let stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(SOON)).unwrap();
    exchange(stream, request(method, path, "", body).as_bytes())
}

/// An appliance with an admin API.
pub(crate) struct Site {
    process: Process,
    pub(crate) files: Files,
    config: String,
}

impl Site {
    /// Starts one on a Unix socket.
    pub(crate) fn start() -> Self {
        let files = Files::new();
        let socket = files.path("admin.sock");
        let this = Self::with(files, &format!("listen = \"unix:{}\"", socket.display()));
        this.ready()
    }

    /// Starts one with this in `[admin]`.
    pub(crate) fn with(files: Files, admin: &str) -> Self {
        let cores = cores();
        let (main, last) = (cores[0], cores[cores.len() - 1]);
        let config = format!(
            "[appliance]\nname = \"{}\"\naddresses = [\"10.77.0.254\"]\n[dataplane]\n\
             main_core = {main}\ncores = [{last}]\nfloat = true\n\
             hugepages = \"no\"\nmemory_mb = 96\ndrain = \"1s\"\n[[ports]]\nname = \"p0\"\n\
             device = \"net_null0,no-rx=1\"\n[pool]\nslots = 1024\n{JOBS}\n[admin]\n{admin}\n",
            crate::common::unique()
        );
        let file = files.write("appliance.toml", &config);
        let process = Process::start(None, &["run", "-c", file.to_str().unwrap()]);
        Self { process, files, config }
    }

    /// Waits until it is ready.
    pub(crate) fn ready(mut self) -> Self {
        self.process.wait_for("ready", SOON);
        self
    }

    pub(crate) fn ended(mut self) -> Ended {
        self.process.wait(SOON)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.files.path("admin.sock")
    }

    pub(crate) fn log(&self) -> String {
        self.process.err()
    }

    pub(crate) fn signal(&mut self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Memory in use, in KiB.
    pub(crate) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Writes another configuration, which has these replacements.
    pub(crate) fn rewrite(&self, changes: &[(&str, &str)]) {
        let mut text = self.config.clone();
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replacen(from, to, 1);
        }
        self.files.write("appliance.toml", &text);
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.set_write_timeout(Some(SOON)).unwrap();
        stream
    }

    /// Sends bytes and reads the answer.
    pub(crate) fn send(&self, bytes: &[u8]) -> Option<Response> {
        exchange(self.connect(), bytes)
    }

    #[track_caller]
    pub(crate) fn call(&self, method: &str, path: &str, body: &str) -> Response {
        self.send(request(method, path, "", body).as_bytes()).expect("an answer")
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        let response = self.call("GET", path, "");
        assert_eq!(response.status, 200, "{path}: {}", String::from_utf8_lossy(&response.body));
        response.json()
    }

    /// The jobs' numbers.
    pub(crate) fn jobs(&self) -> Vec<u64> {
        let jobs = self.get("/api/v1/jobs");
        jobs["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect()
    }

    /// Waits until the status is as told.
    pub(crate) fn status_when(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        until(what, SOON, || Some(self.get("/api/v1/status")).filter(|status| holds(status)))
    }
}

/// A stream to a TCP port of this machine.
pub(crate) fn tcp(port: u16) -> TcpStream {
    let stream = until("a listener", SOON, || TcpStream::connect(("127.0.0.1", port)).ok());
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

/// A TCP port that nobody listens on.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}
