//! The admin API.

use std::path::PathBuf;

use toml::Spanned;

use super::{Accept, Checked};
use crate::config::admin::{AdminConfig, AdminListen, TlsFiles};
use crate::config::{Located, raw};

/// Longest path of a Unix socket, in bytes (unix(7): 108 with the final NUL).
const LONGEST_PATH: usize = 107;

impl Accept<'_> {
    pub(super) fn admin(&self, written: &Spanned<raw::Admin>) -> Checked<AdminConfig> {
        let raw::Admin { listen, token_file, read_token_file, tls_cert, tls_key, client_ca } =
            written.get_ref();
        let path = |file: &Option<_>| file.as_ref().map(|file| self.path(file)).transpose();
        let at = self.admin_listen(listen)?;
        let tls = match (tls_cert, tls_key) {
            (Some(cert), Some(key)) => {
                let (cert, key) = (self.path(cert)?, self.path(key)?);
                Some(TlsFiles { cert, key, client_ca: path(client_ca)? })
            }
            (None, None) => match client_ca {
                Some(alone) => {
                    let remedy = "set tls_cert and tls_key as well: certificates are shown over TLS";
                    return Err(self.error(alone, "client_ca without TLS", remedy));
                }
                None => None,
            },
            (Some(alone), None) => return Err(self.error(alone, "tls_cert without tls_key", "give both")),
            (None, Some(alone)) => return Err(self.error(alone, "tls_key without tls_cert", "give both")),
        };
        if let (AdminListen::Unix(_), Some(cert)) = (&at.value, tls_cert) {
            let remedy = "leave tls_cert and tls_key out: permissions of the socket's file control access";
            return Err(self.error(cert, "TLS on a Unix socket", remedy));
        }
        if let (None, Some(alone)) = (token_file, read_token_file) {
            let remedy = "set token_file as well: without it everybody who may connect may change everything";
            return Err(self.error(alone, "read_token_file without token_file", remedy));
        }
        let (token_file, read_token_file) = (path(token_file)?, path(read_token_file)?);
        let mutual = tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        if !at.value.is_local() && (token_file.is_none() && !mutual || tls.is_none()) {
            let lacking = match (&token_file, &tls) {
                (None, None) => "neither a token nor TLS",
                (None, Some(_)) => "no token",
                _ => "no TLS",
            };
            let message = format!("{} can be reached from elsewhere, but there is {lacking}", at.value);
            let remedy = "set token_file, tls_cert and tls_key (client_ca does for a token), or listen on \
                          \"unix:/run/pascaline/admin.sock\" or on 127.0.0.1";
            return Err(self.error(listen, message, remedy));
        }
        Ok(AdminConfig { listen: at, token_file, read_token_file, tls })
    }

    fn admin_listen(&self, written: &Spanned<String>) -> Checked<Located<AdminListen>> {
        let text = written.get_ref();
        let remedy = "write \"unix:/run/pascaline/admin.sock\", or address and port, e.g. \"127.0.0.1:9466\"";
        let Some(path) = text.strip_prefix("unix:") else {
            if text.parse::<std::net::SocketAddr>().is_err() {
                return Err(self.error(written, format_args!("{text:?} is no address and port"), remedy));
            }
            let Located { value, place } = self.listen(written)?;
            return Ok(Located { value: AdminListen::Tcp(value), place });
        };
        if !path.starts_with('/') || path.ends_with('/') || path.contains('\0') {
            return Err(self.error(written, format_args!("{path:?} is no absolute path of a file"), remedy));
        }
        if path.len() > LONGEST_PATH {
            let message =
                format_args!("a socket's path has at most {LONGEST_PATH} bytes, not {}", path.len());
            return Err(self.error(written, message, "choose a shorter path, e.g. below /run/pascaline"));
        }
        Ok(self.locate(written, AdminListen::Unix(PathBuf::from(path))))
    }

    fn path(&self, written: &Spanned<String>) -> Checked<Located<PathBuf>> {
        if written.get_ref().is_empty() {
            return Err(self.error(written, "an empty path", "name a file, or leave the key out"));
        }
        Ok(self.locate(written, PathBuf::from(written.get_ref())))
    }
}
