//! The text of a configuration.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::choose::{Choice, Port, listed, ranges};
use super::tls;

/// Where a comment behind a value begins.
const COLUMN: usize = 36;
/// Where the admin API listens, if it does so for other machines.
pub(super) const ADMIN_PORT: u16 = 9466;

/// An annotated configuration of this choice.
pub(super) fn render(choice: &Choice, addresses: &[IpAddr], ranks: u16, api: Option<&tls::Files>) -> String {
    let mut text = String::from(
        "# A Pascaline appliance, as `pascaline init` found this machine. Keys that are left out \
         have good defaults:\n\
         # the annotated example (conf/appliance.toml, /usr/share/doc/pascaline) has all of them.\n\
         # Check: pascaline check FILE; pascaline doctor -c FILE. Run: pascaline run -c FILE.\n\n\
         [appliance]\n",
    );
    let list: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
    line(
        &mut text,
        &format!("addresses = [{}]", list.join(", ")),
        "the appliance's own; no host's. Workers send here",
    );
    text += "\n[dataplane]\n";
    line(&mut text, &format!("main_core = {}", choice.main_core), "control plane, metrics");
    line(&mut text, &format!("cores = {}", listed(&choice.cores)), &choice.cores_remark);
    if choice.float {
        line(&mut text, "float = true", "everything shares one core: for trying out only");
    }
    if choice.isolated {
        line(&mut text, "idle = \"spin\"", "no other thread uses these cores");
    } else {
        let cores = ranges(&choice.cores);
        line(&mut text, "idle = \"backoff\"", &format!("with isolcpus={cores} nohz_full={cores}: \"spin\""));
    }
    line(&mut text, "hugepages = \"auto\"", "\"require\" where a start without them should be an error");
    line(&mut text, "memory_mb = 512", "for packets and rings");
    for (number, port) in choice.ports.iter().enumerate() {
        text.push('\n');
        render_port(&mut text, number, port);
    }
    text += "\n[pool]\n";
    line(&mut text, "slots = 4096", "PSNs that can be open or kept at once; a power of two");
    text += "\n[[jobs]]\nid = 1\n";
    line(&mut text, &format!("fan_in = {ranks}"), "ranks");
    line(&mut text, "# members = [\"10.77.0.1\"]", "admit only these addresses, one for each rank");
    text += "\n[telemetry]\n";
    line(&mut text, "listen = \"127.0.0.1:9464\"", "/metrics, /healthz");
    text += "\n[admin]\n";
    render_admin(&mut text, api);
    text
}

fn render_admin(text: &mut String, api: Option<&tls::Files>) {
    match api {
        None => {
            line(text, "listen = \"unix:/run/pascaline/admin.sock\"", "jobs, reload, `pascaline explain`");
        }
        Some(tls::Files { cert, key, token }) => {
            line(text, &format!("listen = \"0.0.0.0:{ADMIN_PORT}\""), "jobs, reload, `pascaline explain`");
            line(text, &format!("token_file = {token:?}"), "its holder may do all of that");
            line(text, &format!("tls_cert = {cert:?}"), "for clients: --ca; SIGHUP takes up a new one");
            line(text, &format!("tls_key = {key:?}"), "stays here");
        }
    }
}

fn render_port(text: &mut String, number: usize, port: &Port) {
    let before = if port.spare { "# " } else { "" };
    for remark in &port.remarks {
        let _ = writeln!(text, "# {remark}");
    }
    if port.spare {
        *text += "# Not in use. In line (the other port gets peer = \"pN\"), or a further network:\n";
    }
    let _ = writeln!(text, "{before}[[ports]]");
    let _ = writeln!(text, "{before}name = \"p{number}\"");
    let _ = writeln!(text, "{before}device = \"{}\"", port.device);
    line(text, &format!("{before}mtu = {}", port.mtu), "of the network, workers and switches included");
}

/// A line with its comment; writing to a string cannot fail.
fn line(text: &mut String, code: &str, comment: &str) {
    let _ = writeln!(text, "{:<COLUMN$}# {comment}", format!("{code} "));
}
