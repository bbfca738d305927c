//! The session with one member of etcd after the other: the lease, the election, and others' writes.

use core::future::{Future, pending};
use core::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{
    Client, ConnectOptions, Error, EventType, GetOptions, LeaseKeepAliveStream, LeaseKeeper, ResignOptions,
    WatchOptions, WatchResponse,
};

use tokio::time::error::Elapsed;

use super::records::Records;
use super::{Common, Term};
use crate::store::Clock;

/// Between a member that does not answer and the next one.
const BETWEEN: Duration = Duration::from_millis(200);
/// The election's name below the prefix.
const ELECTION: &str = "leader";

type Campaign = Pin<Box<dyn Future<Output = Result<Term, String>> + Send>>;

/// The session's parts.
pub(super) struct Session {
    pub(super) endpoints: Vec<String>,
    pub(super) options: ConnectOptions,
    pub(super) member: String,
    pub(super) prefix: String,
    /// How long it lives without being kept.
    pub(super) lease: Duration,
    /// How long a member may take to answer.
    pub(super) patience: Duration,
    pub(super) clock: Clock,
    pub(super) common: Arc<Common>,
}

impl Session {
    /// Runs until it is stopped.
    pub(super) async fn run(self) {
        let mut lease = None;
        for endpoint in self.endpoints.iter().cycle() {
            let Err(why) = self.with(endpoint, &mut lease).await else { return };
            self.common.client().take();
            {
                let mut state = self.common.state();
                state.problem = Some(format!("etcd at {endpoint}: {why}"));
                state.leader = None;
                // A campaign that was broken off may take its key back later: the next one has its own lease.
                if state.term.is_none() {
                    lease = None;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(BETWEEN) => {}
                () = self.common.stop.notified() => return,
            }
        }
    }

    /// With one member. Returns when it is stopped, or with the reason why the member cannot be used.
    async fn with(&self, endpoint: &str, lease: &mut Option<i64>) -> Result<(), String> {
        let mut client = self.bounded(Client::connect([endpoint], Some(self.options.clone()))).await?;
        let id = self.take_lease(&mut client, lease).await?;
        let revision = self.read(&mut client).await?;
        let options = WatchOptions::new().with_prefix().with_start_revision(revision + 1);
        let mut watch = self.bounded(client.watch(self.prefix.clone(), Some(options))).await?;
        let (mut keeper, mut kept) = self.keep(&mut client, lease, id).await?;
        self.common.client().replace(client.clone());
        self.common.state().problem = None;
        self.see_leader(&mut client).await;
        let mut tick = tokio::time::interval(self.patience);
        let mut asked: Option<Duration> = None;
        let mut campaign = self.campaign(&client, id);
        loop {
            tokio::select! {
                _ = tick.tick() => {
                    if asked.is_some() {
                        return Err("the lease is not kept".to_owned());
                    }
                    asked = Some(self.clock.now());
                    keeper.keep_alive().await.map_err(describe)?;
                }
                answer = kept.message() => {
                    let answer = answer.map_err(describe)?.ok_or("it hangs up")?;
                    let left = u64::try_from(answer.ttl()).unwrap_or(0);
                    if left == 0 {
                        *lease = None;
                        self.common.state().term = None;
                        return Err("the lease has ended".to_owned());
                    }
                    if let Some(asked) = asked.take() {
                        self.common.state().until = asked + Duration::from_secs(left);
                    }
                }
                events = watch.message() => {
                    let events = events.map_err(describe)?.ok_or("it hangs up")?;
                    if self.apply(&events)? {
                        self.see_leader(&mut client).await;
                    }
                }
                won = &mut campaign => {
                    // The last writes of the former leader have to be known.
                    let won = won?;
                    self.read(&mut client).await?;
                    self.common.state().term = Some(won);
                    campaign = Box::pin(pending());
                }
                () = self.common.ended.notified() => campaign = self.campaign(&client, id),
                () = self.common.stop.notified() => {
                    self.leave(&mut client, id).await;
                    return Ok(());
                }
            }
        }
    }

    /// Limits the wait for a member's answer.
    async fn bounded<T>(&self, what: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
        self.in_time(tokio::time::timeout(self.patience, what).await)
    }

    fn in_time<T>(&self, done: Result<Result<T, Error>, Elapsed>) -> Result<T, String> {
        let late = format!("no answer in {}", humantime::format_duration(self.patience));
        done.map_or(Err(late), |done| done.map_err(describe))
    }

    /// The present lease, or a new one.
    async fn take_lease(&self, client: &mut Client, lease: &mut Option<i64>) -> Result<i64, String> {
        if let Some(id) = *lease {
            return Ok(id);
        }
        let asked = self.clock.now();
        let seconds = i64::try_from(self.lease.as_secs()).unwrap_or(i64::MAX);
        let granted = self.bounded(client.lease_grant(seconds, None)).await?;
        *lease = Some(granted.id());
        let mut state = self.common.state();
        state.term = None;
        state.until = asked + Duration::from_secs(u64::try_from(granted.ttl()).unwrap_or(0));
        Ok(granted.id())
    }

    /// Begins to keep a lease.
    async fn keep(
        &self,
        client: &mut Client,
        lease: &mut Option<i64>,
        id: i64,
    ) -> Result<(LeaseKeeper, LeaseKeepAliveStream), String> {
        let kept = tokio::time::timeout(self.patience, client.lease_keep_alive(id)).await;
        if let Ok(Err(Error::LeaseKeepAliveError(_))) = kept {
            // It has ended while no member answered: the next attempt begins with another one.
            *lease = None;
            self.common.state().term = None;
        }
        self.in_time(kept)
    }

    /// Reads the stored state, and returns its revision.
    async fn read(&self, client: &mut Client) -> Result<i64, String> {
        let all = GetOptions::new().with_prefix();
        let found = self.bounded(client.get(self.prefix.clone(), Some(all))).await?;
        let revision = found.header().map_or(0, etcd_client::ResponseHeader::revision);
        let pair = |pair: &etcd_client::KeyValue| {
            let (key, value) = (self.key(pair.key())?, pair.value_str().ok()?);
            Some((key.to_owned(), value.to_owned(), pair.mod_revision()))
        };
        let records = Records::read(found.kvs().iter().filter_map(pair), revision);
        let mut state = self.common.state();
        state.records = Some(records);
        state.news = true;
        Ok(revision)
    }

    /// A key without the prefix; none if it is not UTF-8, and so no controller's.
    fn key<'k>(&self, key: &'k [u8]) -> Option<&'k str> {
        core::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)
    }

    /// Applies writes. Returns whether the election has changed.
    fn apply(&self, events: &WatchResponse) -> Result<bool, String> {
        if events.canceled() {
            return Err(format!("it stops the watch: {}", events.cancel_reason()));
        }
        let mut elected = false;
        let mut state = self.common.state();
        for event in events.events() {
            let Some(pair) = event.kv() else { continue };
            let Some(key) = self.key(pair.key()) else { continue };
            let gone = event.event_type() == EventType::Delete;
            if key.starts_with(ELECTION) {
                elected = true;
                if gone && state.term.as_ref().is_some_and(|term| term.key == pair.key()) {
                    state.term = None;
                    self.common.ended.notify_one();
                }
            } else if let Some(records) = &mut state.records {
                let value = pair.value_str().ok().filter(|_| !gone).map(str::to_owned);
                records.apply(key, value, pair.mod_revision());
                state.news = true;
            }
        }
        Ok(elected)
    }

    /// Reads the present leader from etcd.
    async fn see_leader(&self, client: &mut Client) {
        let leads = self.bounded(client.leader(self.election())).await.ok();
        let leader = leads.and_then(|leads| Some(leads.kv()?.value_str().ok()?.to_owned()));
        self.common.state().leader = leader;
    }

    fn election(&self) -> String {
        format!("{}{ELECTION}", self.prefix)
    }

    /// Waits for its turn to lead, without a limit. A leader has it already.
    fn campaign(&self, client: &Client, lease: i64) -> Campaign {
        if self.common.state().term.is_some() {
            return Box::pin(pending());
        }
        let (mut client, election, member) = (client.clone(), self.election(), self.member.clone());
        Box::pin(async move {
            let won = client.campaign(election, member, lease).await.map_err(describe)?;
            let leader = won.leader().ok_or("it has elected no leader")?;
            Ok(Term { key: leader.key().to_vec(), revision: leader.rev(), unwritten: None })
        })
    }

    /// Hands the lead over.
    async fn leave(&self, client: &mut Client, lease: i64) {
        let won = self.common.state().term.take();
        if let Some(Term { key, revision, .. }) = won {
            let leader = etcd_client::LeaderKey::new()
                .with_name(self.election())
                .with_key(key)
                .with_rev(revision)
                .with_lease(lease);
            // Without an answer the lease ends by itself.
            let _ = self.bounded(client.resign(Some(ResignOptions::new().with_leader(leader)))).await;
        }
        let _ = self.bounded(client.lease_revoke(lease)).await;
    }
}

/// Without its sources: the text of a status is enough.
pub(super) fn describe(error: Error) -> String {
    match error {
        Error::GRpcStatus(status) => status.message().to_owned(),
        other => other.to_string(),
    }
}
