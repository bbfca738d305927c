//! One request at a time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::address::Address;

/// An answer takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than any answer has.
const LONGEST: usize = 16 << 20;

/// Asks one appliance.
pub(super) struct Client<'a> {
    at: &'a Address,
    token: Option<&'a str>,
    tls: Option<TlsConnector>,
}

impl<'a> Client<'a> {
    pub(super) fn new(at: &'a Address, token: Option<&'a str>, ca: Option<&Path>) -> anyhow::Result<Self> {
        let tls = match (at, ca) {
            (Address::Tcp { tls: true, .. }, Some(ca)) => Some(connector(ca)?),
            (Address::Tcp { tls: true, .. }, None) => {
                bail!("https:// takes --ca FILE: the certificates that the appliance's must be signed by")
            }
            _ => None,
        };
        Ok(Self { at, token, tls })
    }

    /// The JSON object that a GET is answered with.
    pub(super) fn get(&self, path: &str) -> anyhow::Result<Value> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            tokio::time::timeout(PATIENCE, self.ask(path)).await.context("the appliance does not answer")?
        })
    }

    async fn ask(&self, path: &str) -> anyhow::Result<Value> {
        match self.at {
            Address::Unix(socket) => {
                let stream = UnixStream::connect(socket).await.with_context(|| {
                    format!(
                        "{}: is the appliance running, with [admin] in its configuration?",
                        socket.display()
                    )
                })?;
                self.talk(stream, "localhost", path).await
            }
            Address::Tcp { host, port, .. } => {
                let stream = TcpStream::connect((host.as_str(), *port))
                    .await
                    .with_context(|| format!("connecting to {host}:{port}"))?;
                let name =
                    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
                match &self.tls {
                    None => self.talk(stream, &name, path).await,
                    Some(tls) => {
                        let server = ServerName::try_from(host.clone())?;
                        let stream = tls.connect(server, stream).await.context("TLS")?;
                        self.talk(stream, &name, path).await
                    }
                }
            }
        }
    }

    async fn talk<S>(&self, stream: S, host: &str, path: &str) -> anyhow::Result<Value>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the answer, and what goes wrong with it is seen there.
        tokio::spawn(connection);
        let mut request = Request::get(path).header(header::HOST, host);
        if let Some(token) = self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let response = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
        let status = response.status();
        let body =
            Limited::new(response.into_body(), LONGEST).collect().await.map_err(anyhow::Error::from_boxed)?;
        let answer: Value = serde_json::from_slice(&body.to_bytes()).with_context(|| {
            format!("the answer, with status {status}, is not JSON: is this an admin API?")
        })?;
        if status.is_success() {
            return Ok(answer);
        }
        let said = |key: &str| answer[key].as_str().unwrap_or("?").to_owned();
        bail!("{}\n  remedy: {}", said("error"), said("remedy"))
    }
}

fn connector(ca: &Path) -> anyhow::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    for cert in CertificateDer::pem_file_iter(ca).with_context(|| format!("{}", ca.display()))? {
        roots.add(cert.with_context(|| format!("{}", ca.display()))?)?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
