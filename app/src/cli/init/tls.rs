//! Certificate, key and token for an admin API that others may reach.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context as _;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};

/// Years for which a certificate is valid.
const YEARS: i32 = 5;

/// The files that the admin API takes, beside the configuration.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
    pub(super) token: PathBuf,
}

impl Files {
    /// Where they are to be.
    pub(super) fn beside(output: &Path) -> anyhow::Result<Self> {
        let output = std::path::absolute(output).context("finding the directory of the output")?;
        let at = |name: &str| output.with_file_name(name);
        Ok(Self { cert: at("cert.pem"), key: at("key.pem"), token: at("token") })
    }

    /// Makes them, for these names; none of them may be there.
    pub(super) fn make(&self, names: &[String]) -> anyhow::Result<()> {
        let (cert, key) = pair(names)?;
        let mut random = [0; 32];
        getrandom::fill(&mut random).context("asking the system for random numbers")?;
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        for file in [&self.cert, &self.key, &self.token] {
            super::not_there(file)?;
        }
        write(&self.cert, &cert, 0o644)?;
        write(&self.key, &key, 0o600)?;
        write(&self.token, &format!("{token}\n"), 0o600)
    }
}

/// The names that the certificate is for: these, and those that this machine has for itself.
pub(super) fn names(more: &[String]) -> Vec<String> {
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let own = [own.trim(), "localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let mut all: Vec<String> = more.iter().cloned().chain(own).filter(|name| !name.is_empty()).collect();
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|name| seen.insert(name.clone()));
    all
}

/// A certificate that signs itself, and its key; both PEM.
fn pair(names: &[String]) -> anyhow::Result<(String, String)> {
    let mut params = CertificateParams::new(names.to_vec())
        .with_context(|| format!("no certificate can be for all of {}", names.join(", ")))?;
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    // Of 365.2425 days each.
    let year = 1970 + i32::try_from(since / 31_556_952)?;
    params.not_before = date_time_ymd(year - 1, 1, 1);
    params.not_after = date_time_ymd(year + YEARS, 1, 1);
    params.distinguished_name.push(DnType::CommonName, names.first().map_or("pascaline", String::as_str));
    params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

fn write(file: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(file);
    let mut opened = opened.with_context(|| format!("creating {}", file.display()))?;
    opened.write_all(text.as_bytes()).with_context(|| format!("writing {}", file.display()))
}
