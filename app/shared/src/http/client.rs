//! The HTTP client: one request at a time, over TCP, TLS or a Unix socket.

use core::fmt;
use core::str::FromStr;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::request::Builder;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::tls::{self, Identity};
use crate::file::Unreadable;

/// An appliance answers in milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an address may take that others can replace.
const EACH: Duration = Duration::from_secs(1);
/// More than any answer has.
const LONGEST: usize = 16 << 20;

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A port.
    Tcp {
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
        /// Whether TLS is spoken.
        tls: bool,
    },
}

impl Address {
    /// Whether no host on the way there can read what is sent.
    #[must_use]
    pub fn is_private(&self) -> bool {
        match self {
            Self::Unix(_) | Self::Tcp { tls: true, .. } => true,
            Self::Tcp { host, .. } => {
                host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
            }
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(PathBuf::from(path.strip_prefix("//").unwrap_or(path))));
        }
        let (rest, tls, default) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (rest, true, Some(443)),
            (_, Some(rest)) => (rest, false, Some(80)),
            _ => (text, false, None),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let wrong = || format!("{text:?} is none of unix:PATH, ADDRESS:PORT and https://HOST:PORT");
        let with_port = rest.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        let (host, port) = match (with_port, default) {
            (Some((host, port)), _) => (host, port.parse().map_err(|_| wrong())?),
            (None, Some(port)) => (rest, port),
            (None, None) => return Err(wrong()),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains('/') {
            return Err(wrong());
        }
        Ok(Self::Tcp { host: host.to_owned(), port, tls })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port, tls } => {
                let scheme = if *tls { "https" } else { "http" };
                let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
                write!(f, "{scheme}://{open}{host}{close}:{port}")
            }
        }
    }
}

/// Asks one server.
pub struct Client {
    at: Address,
    token: Option<String>,
    tls: Option<TlsConnector>,
    runtime: Runtime,
}

impl Client {
    /// A client with a bearer token, if there is one, and the certificates that a server with TLS is signed
    /// by; and one of its own, if the server asks for that.
    ///
    /// # Errors
    /// A server with TLS takes certificates, and they can be read.
    pub fn new(
        at: Address,
        token: Option<String>,
        ca: Option<&Path>,
        identity: Option<Identity<'_>>,
    ) -> anyhow::Result<Self> {
        let tls = match (&at, ca) {
            (Address::Tcp { tls: true, .. }, Some(ca)) => Some(connector(ca, identity)?),
            (Address::Tcp { tls: true, .. }, None) => {
                bail!("https:// takes --ca FILE: the certificates that the appliance's must be signed by")
            }
            (Address::Tcp { tls: false, .. } | Address::Unix(_), _) => None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { at, token, tls, runtime })
    }

    /// What a GET is answered with.
    ///
    /// # Errors
    /// There is no answer, or it is not over in time.
    pub fn get(&self, path: &str) -> anyhow::Result<(StatusCode, Bytes)> {
        self.request(Request::get(path), String::new())
    }

    /// What a POST with this JSON is answered with.
    ///
    /// # Errors
    /// There is no answer, or it is not over in time.
    pub fn post(&self, path: &str, json: &str) -> anyhow::Result<(StatusCode, Bytes)> {
        self.send(Method::POST, path, Some(json.to_owned()))
    }

    /// What a request of any method is answered with; with this JSON, if there is some.
    ///
    /// # Errors
    /// There is no answer, or it is not over in time.
    pub fn send(
        &self,
        method: Method,
        path: &str,
        json: Option<String>,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let request = Request::builder().method(method).uri(path);
        match json {
            Some(json) => self.request(request.header(header::CONTENT_TYPE, "application/json"), json),
            None => self.request(request, String::new()),
        }
    }

    fn request(&self, request: Builder, body: String) -> anyhow::Result<(StatusCode, Bytes)> {
        self.runtime.block_on(async {
            let asked = tokio::time::timeout(PATIENCE, self.ask(request, body));
            asked.await.context("the appliance does not answer")?
        })
    }

    async fn ask(&self, request: Builder, body: String) -> anyhow::Result<(StatusCode, Bytes)> {
        match &self.at {
            Address::Unix(socket) => {
                let stream = UnixStream::connect(socket).await.with_context(|| {
                    let asked = "is the appliance running, with [admin] in its configuration?";
                    format!("{}: {asked}", socket.display())
                })?;
                self.talk(stream, "localhost", request, body).await
            }
            Address::Tcp { host, port, .. } => {
                let found = lookup_host((host.as_str(), *port)).await.map(Vec::from_iter);
                let stream = async { connected(&found?).await }.await;
                let stream = stream.with_context(|| format!("connecting to {host}:{port}"))?;
                let url = self.at.to_string();
                let name = url.split_once("://").map_or(url.as_str(), |(_, name)| name);
                match &self.tls {
                    None => self.talk(stream, name, request, body).await,
                    Some(tls) => {
                        let server = ServerName::try_from(host.clone())?;
                        let stream =
                            tls.connect(server, stream).await.map_err(|error| refused(host, error))?;
                        self.talk(stream, name, request, body).await.map_err(|error| turned_away(host, error))
                    }
                }
            }
        }
    }

    async fn talk<S>(
        &self,
        stream: S,
        host: &str,
        request: Builder,
        body: String,
    ) -> anyhow::Result<(StatusCode, Bytes)>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the answer, and what goes wrong with it is seen there.
        tokio::spawn(connection);
        let mut request = request.header(header::HOST, host);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let response = sender.send_request(request.body(Full::<Bytes>::from(body))?).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LONGEST).collect().await;
        Ok((status, body.map_err(anyhow::Error::from_boxed)?.to_bytes()))
    }
}

/// A connection to the first of the addresses of a name that accepts one. One that says nothing leaves time
/// for the others.
async fn connected(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (at, &address) in addresses.iter().enumerate() {
        let limit = if at + 1 < addresses.len() { EACH } else { PATIENCE };
        match tokio::time::timeout(limit, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failed = error,
            Err(_) => failed = io::Error::new(io::ErrorKind::TimedOut, format!("{address} does not answer")),
        }
    }
    Err(failed)
}

fn connector(ca: &Path, identity: Option<Identity<'_>>) -> anyhow::Result<TlsConnector> {
    let told = |what: &str, file: &Path, Unreadable { message, remedy }| {
        anyhow::anyhow!("{what} {}: {message}\n  remedy: {remedy}", file.display())
    };
    let own = identity.map(|Identity { cert, key }| {
        let chain = tls::certificates(cert).map_err(|error| told("--cert", cert, error))?;
        tls::certified(chain, key, cert).map_err(|error| told("--cert-key", key, error))
    });
    let config = tls::client(ca, own.transpose()?.as_deref()).map_err(|error| told("--ca", ca, error))?;
    Ok(TlsConnector::from(Arc::new(config)))
}

/// What a server means that ends a connection with TLS before it has answered.
fn turned_away(host: &str, error: anyhow::Error) -> anyhow::Error {
    let own = |error: &(dyn core::error::Error + 'static)| {
        let io = error.downcast_ref::<io::Error>()?;
        let alert = io.get_ref().and_then(|inner| inner.downcast_ref::<tokio_rustls::rustls::Error>());
        match alert {
            Some(tokio_rustls::rustls::Error::AlertReceived(alert)) => Some(format!("{alert:?}")),
            // The alert may have been lost with the connection.
            None if io.kind() == io::ErrorKind::ConnectionReset => Some("connection reset".to_owned()),
            _ => None,
        }
    };
    match error.chain().find_map(own) {
        Some(why) => anyhow::anyhow!(
            "TLS with {host}: it does not take this client ({why})\n  remedy: if its [admin] has client_ca, \
             show a certificate that those have signed: --cert FILE --cert-key FILE"
        ),
        None => error,
    }
}

/// Why there is no TLS, in words if it is because of the certificate.
fn refused(host: &str, error: std::io::Error) -> anyhow::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<tokio_rustls::rustls::Error>());
    match inner {
        Some(tokio_rustls::rustls::Error::InvalidCertificate(wrong)) => {
            let (what, remedy) = tls::told(wrong);
            anyhow::anyhow!("TLS with {host}: {what}\n  remedy: {remedy}")
        }
        _ => anyhow::Error::from(error).context(format!("TLS with {host}")),
    }
}

#[cfg(test)]
mod tests;
