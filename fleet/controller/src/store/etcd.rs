//! The common state of several controllers, in etcd, which elects their leader.
//!
//! The election is etcd's own: a key that a lease keeps. While the lease lives its owner leads; it counts the
//! lease from its last request to keep it. etcd accepts its writes only while that key is the one that it won
//! with.

mod records;
mod session;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::{
    Certificate, Client, Compare, CompareOp, ConnectOptions, Identity, TlsOptions, Txn, TxnOp,
};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use self::records::Records;
use self::session::Session;
use super::{Clock, Store, StoreError};
use crate::config::EtcdAt;
use crate::core::{Note, Standing, Stored};

/// A key that was won, and etcd's revision then: no other term has both.
#[derive(Debug, Clone)]
struct Term {
    key: Vec<u8>,
    revision: i64,
    /// Why the last attempt to write in it has failed.
    unwritten: Option<String>,
}

/// The state shared by the session with etcd and the store.
#[derive(Debug, Default)]
struct State {
    term: Option<Term>,
    /// The time until which the lease certainly lives.
    until: Duration,
    leader: Option<String>,
    problem: Option<String>,
    /// None until they have been read.
    records: Option<Records>,
    news: bool,
}

/// Shared by the store, and the task that talks to etcd.
struct Common {
    state: Mutex<State>,
    /// The member that answers now.
    client: Mutex<Option<Client>>,
    /// The term has ended before its lease.
    ended: Notify,
    stop: Notify,
}

impl Common {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn client(&self) -> MutexGuard<'_, Option<Client>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The store. Dropping it hands the lead over.
pub(super) struct Etcd {
    member: String,
    prefix: String,
    patience: Duration,
    clock: Clock,
    common: Arc<Common>,
    runtime: Runtime,
    task: Option<JoinHandle<()>>,
}

impl Etcd {
    /// Begins to talk to etcd. `network` separates controllers of different networks.
    pub(super) fn open(at: &EtcdAt, network: &str, clock: Clock) -> Result<Self, StoreError> {
        let threads = |error| StoreError::File { what: "a thread for it".to_owned(), error };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("etcd")
            .enable_all()
            .build()
            .map_err(threads)?;
        let (stop, ended) = (Notify::new(), Notify::new());
        let common = Arc::new(Common { state: Mutex::default(), client: Mutex::default(), ended, stop });
        let prefix = format!("/pascaline/{network}/");
        let patience = at.patience();
        let session = Session {
            endpoints: at.endpoints.clone(),
            options: options(at, patience)?,
            member: at.member.clone(),
            prefix: prefix.clone(),
            lease: at.lease,
            patience,
            clock,
            common: Arc::clone(&common),
        };
        let task = Some(runtime.spawn(session.run()));
        Ok(Self { member: at.member.clone(), prefix, patience, clock, common, runtime, task })
    }

    /// Writes some of the pending changes; unless another controller leads by now.
    fn commit(&self, term: &Term, some: &[records::Put]) -> Result<bool, String> {
        let client = self.common.client().clone();
        let mut client = client.ok_or("etcd does not answer")?;
        let operation = |(key, value): &records::Put| {
            let key = format!("{}{key}", self.prefix);
            value.as_ref().map_or_else(
                || TxnOp::delete(key.clone(), None),
                |value| TxnOp::put(key.clone(), value.clone(), None),
            )
        };
        let operations: Vec<TxnOp> = some.iter().map(operation).collect();
        let leads = Compare::create_revision(term.key.clone(), CompareOp::Equal, term.revision);
        let txn = Txn::new().when([leads]).and_then(operations);
        let answer = self.runtime.block_on(async {
            tokio::time::timeout(self.patience, client.txn(txn)).await.map_err(|_| "no answer".to_owned())
        })?;
        let answer = answer.map_err(session::describe)?;
        let mut state = self.common.state();
        if answer.succeeded() {
            let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
            if let Some(records) = &mut state.records {
                records.take(some, revision);
            }
            return Ok(true);
        }
        if state.term.as_ref().is_some_and(|now| now.revision == term.revision) {
            state.term = None;
            self.common.ended.notify_one();
        }
        Ok(false)
    }
}

impl Store for Etcd {
    fn member(&self) -> Option<&str> {
        Some(&self.member)
    }

    fn standing(&self) -> Standing {
        let state = self.common.state();
        let term = state.term.as_ref().filter(|_| state.records.is_some());
        Standing {
            leads_until: term.map(|_| state.until),
            term: term.map_or(0, |term| term.revision),
            leader: state.leader.clone(),
            problem: state.problem.clone().or_else(|| state.term.as_ref()?.unwritten.clone()),
        }
    }

    fn has_changes(&self) -> bool {
        self.common.state().news
    }

    fn load(&mut self) -> Result<Option<Stored>, StoreError> {
        let mut state = self.common.state();
        state.news = false;
        Ok(state.records.as_ref().map(|records| records.stored(&self.clock)))
    }

    fn write(&mut self, notes: &[Note], term: i64) -> Result<bool, StoreError> {
        let (won, puts) = {
            let state = self.common.state();
            let won = state.term.clone().filter(|won| won.revision == term);
            let puts = state.records.as_ref().map(|records| records.puts(notes, &self.clock));
            (won, puts)
        };
        let (Some(won), Some(puts)) = (won, puts) else { return Ok(false) };
        for some in records::together(&puts) {
            let done = self.commit(&won, some);
            if let Some(now) = self.common.state().term.as_mut().filter(|now| now.revision == term) {
                now.unwritten = done.as_ref().err().map(|why| format!("etcd: {why}"));
            }
            if !matches!(done, Ok(true)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.common.stop.notify_one();
        if let Some(task) = self.task.take() {
            // Without an answer the lease ends by itself.
            let _ = self.runtime.block_on(async { tokio::time::timeout(2 * self.patience, task).await });
        }
    }
}

/// How to connect.
fn options(at: &EtcdAt, patience: Duration) -> Result<ConnectOptions, StoreError> {
    let read = |file: &Path| {
        std::fs::read(file).map_err(|error| StoreError::File { what: file.display().to_string(), error })
    };
    // Without this a member that is cut off from the others would keep its watchers waiting.
    let mut options = ConnectOptions::new()
        .with_require_leader(true)
        .with_connect_timeout(patience)
        .with_keep_alive(patience, patience);
    if let Some(ca) = &at.ca {
        let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(read(ca)?));
        if let Some((certificate, key)) = &at.identity {
            tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        options = options.with_tls(tls);
    }
    Ok(options)
}

#[cfg(test)]
mod tests;
