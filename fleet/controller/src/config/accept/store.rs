//! The controller's store.

use std::collections::BTreeSet;
use std::time::Duration;

use toml::Spanned;

use super::{Accept, Checked};
use crate::config::{EtcdAt, Raw, RawEtcd, StoreAt};

const LEASE: Duration = Duration::from_secs(4);
/// etcd grants no shorter ones, with its own defaults.
const LEAST: Duration = Duration::from_secs(2);

impl Accept<'_> {
    pub(super) fn store(&self, raw: &Raw) -> Checked<StoreAt> {
        match (&raw.controller.get_ref().store, &raw.etcd) {
            (Some(file), None) if file.get_ref().as_os_str().is_empty() => {
                Err(self.error(file, "an empty path", "name the file of the database"))
            }
            (Some(file), None) => Ok(StoreAt::Sqlite(file.get_ref().clone())),
            (None, Some(etcd)) => Ok(StoreAt::Etcd(self.etcd(etcd.get_ref())?)),
            (Some(file), Some(_)) => {
                let remedy = "leave store out for several controllers, or [etcd] for one";
                Err(self.error(file, "both a store and an [etcd]", remedy))
            }
            (None, None) => {
                let remedy = "write store = FILE for one controller, or [etcd] for several";
                Err(self.error(&raw.controller, "nothing says where to remember", remedy))
            }
        }
    }

    fn etcd(&self, raw: &RawEtcd) -> Checked<EtcdAt> {
        let mut endpoints = BTreeSet::new();
        for endpoint in raw.endpoints.get_ref() {
            self.endpoint(endpoint, raw.ca.is_some())?;
            if !endpoints.insert(endpoint.get_ref()) {
                return Err(self.error(endpoint, "an endpoint is there twice", "name each once"));
            }
        }
        if endpoints.is_empty() {
            let remedy = "name e.g. \"http://127.0.0.1:2379\"";
            return Err(self.error(&raw.endpoints, "no endpoint of etcd", remedy));
        }
        if raw.member.get_ref().is_empty() {
            return Err(self.error(&raw.member, "a controller without a name", "give each one its own"));
        }
        let lease = self.time(raw.lease.as_ref(), LEASE)?;
        if let Some(written) = raw.lease.as_ref().filter(|_| lease < LEAST || lease.subsec_nanos() > 0) {
            let message = "etcd counts in whole seconds, and grants no lease for less than 2";
            return Err(self.error(written, message, "write e.g. \"4s\""));
        }
        let identity = match (&raw.certificate, &raw.key) {
            (Some(certificate), Some(key)) if raw.ca.is_some() => {
                Some((certificate.get_ref().clone(), key.get_ref().clone()))
            }
            (None, None) => None,
            (Some(one), _) | (_, Some(one)) => {
                let message = "certificate, key and ca belong together";
                return Err(self.error(one, message, "write all three, or ca alone"));
            }
        };
        Ok(EtcdAt {
            endpoints: raw.endpoints.get_ref().iter().map(|endpoint| endpoint.get_ref().clone()).collect(),
            member: raw.member.get_ref().clone(),
            lease,
            ca: raw.ca.as_ref().map(|ca| ca.get_ref().clone()),
            identity,
        })
    }

    /// A scheme, a host and a port; TLS if there is a `ca` to authenticate the member.
    fn endpoint(&self, written: &Spanned<String>, tls: bool) -> Checked<()> {
        let scheme = if tls { "https://" } else { "http://" };
        let at = written.get_ref().strip_prefix(scheme);
        let port = at.and_then(|at| at.rsplit_once(':')).filter(|(host, _)| !host.is_empty());
        if port.is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0)) {
            return Ok(());
        }
        let message = format!("{:?} is not {scheme}HOST:PORT", written.get_ref());
        let remedy = if tls { "with ca, etcd speaks TLS" } else { "etcd with TLS needs ca" };
        Err(self.error(written, message, format!("write {scheme}HOST:PORT; {remedy}")))
    }
}
