//! Asking a running appliance, over its admin API.

use core::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use axum::body::Bytes;
use axum::http::StatusCode;
use clap::Args;
use pascaline_shared::http::client::{Address, Client};
use pascaline_shared::http::tls::Identity;
use pascaline_shared::{print, println};
use serde_json::Value;

/// Which appliance to ask, and how.
#[derive(Debug, Args)]
pub(crate) struct Where {
    /// Its admin API: unix:PATH, ADDRESS:PORT, or https://HOST:PORT
    #[arg(
        long,
        global = true,
        value_name = "WHERE",
        env = "PASCALINE_ADMIN",
        default_value = "unix:/run/pascaline/admin.sock"
    )]
    admin: Address,
    /// The file with its token, if it asks for one
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The certificates (PEM) that one for https:// must be signed by
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The certificate (PEM) to show to an appliance that asks for one (`client_ca`)
    #[arg(long, global = true, value_name = "FILE", requires = "cert_key")]
    cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, global = true, value_name = "FILE", requires = "cert")]
    cert_key: Option<PathBuf>,
}

impl Where {
    /// Whether no host on the way can read what is sent.
    pub(super) fn is_private(&self) -> bool {
        self.admin.is_private()
    }

    /// Who asks there.
    pub(super) fn client(&self) -> anyhow::Result<Client> {
        let Self { admin, token_file, ca, cert, cert_key } = self;
        let token = token_file.as_deref().map(token).transpose()?;
        let identity = cert.as_deref().zip(cert_key.as_deref()).map(|(cert, key)| Identity { cert, key });
        Client::new(admin.clone(), token, ca.as_deref(), identity)
    }
}

/// The token in a file, without white space around it.
fn token(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read(file).with_context(|| format!("token file {}", file.display()))?;
    let text = String::from_utf8_lossy(&text);
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        bail!(
            "token file {}: no token of visible ASCII characters\n  \
             remedy: name a copy of the file that token_file in the appliance's [admin] names",
            file.display()
        );
    }
    Ok(token.to_owned())
}

/// Say whether a job is aggregated here, and if not, why
///
/// Asks a running appliance: what share of the job's bytes was summed in the network, and where it was not,
/// why: ranks that have not joined, stragglers, a full pool, the job's quota, preemption, packets of another
/// generation, and so on, with what can be done about each. All of it is derived from counters. Exit code 0:
/// answered; 1: there is no such job, or no answer.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pascaline explain 1
  pascaline explain resnet --json | python3 -m json.tool
  pascaline explain 1 --admin https://appliance:9466 --ca ca.pem --token-file token")]
pub(crate) struct ExplainArgs {
    /// The job's number or name
    job: String,
    /// Print the answer as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: Where,
}

/// Asks why, and prints the answer.
pub(crate) fn explain(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let path = format!("/api/v1/jobs/{}/explain", segment(&args.job));
    let answer = answered(args.at.client()?.get(&path)?)?;
    if args.json {
        println!("{answer}");
    } else {
        print!("{}", told(&answer));
    }
    Ok(ExitCode::SUCCESS)
}

/// The JSON object that a request is answered with.
pub(super) fn answered((status, body): (StatusCode, Bytes)) -> anyhow::Result<Value> {
    let answer: Value = serde_json::from_slice(&body)
        .with_context(|| format!("the answer, with status {status}, is not JSON: is this an admin API?"))?;
    if status.is_success() {
        return Ok(answer);
    }
    let said = |key: &str| answer[key].as_str().unwrap_or("?").to_owned();
    bail!("{}\n  remedy: {}", said("error"), said("remedy"))
}

/// A text as one segment of a path (RFC 3986, section 2.3: what need not be escaped).
pub(super) fn segment(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

/// An explanation for people.
fn told(answer: &Value) -> String {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let (job, summary) = (&answer["job"], text(answer, "summary"));
    // Its last sentence is the first reason, which follows.
    let first = text(&answer["reasons"][0], "text");
    let headline = summary.strip_suffix(&first).unwrap_or(&summary);
    let mut lines = vec![headline.trim_end().to_owned()];
    lines.push(format!(
        "  {}: {} of {} ranks, generation {}",
        text(job, "state"),
        job["joined"],
        job["ranks"],
        job["epoch"]
    ));
    let bytes = &answer["bytes"];
    lines.push(format!(
        "  bytes: {} aggregated here, {} to the parameter server, {} past the pool",
        bytes["aggregated"], bytes["server"], bytes["bypassed"]
    ));
    for reason in answer["reasons"].as_array().into_iter().flatten() {
        lines.push(format!("- {}", text(reason, "text")));
        lines.push(format!("  remedy: {}", text(reason, "remedy")));
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests;
