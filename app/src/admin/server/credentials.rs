//! Token, certificate and key of the API, as the configuration names them.

use std::path::PathBuf;

use pascaline_shared::file::Unreadable;
use pascaline_shared::guarded::{Credentials, Token, Unfit};
use pascaline_shared::http::tls;

use crate::config::admin::TlsFiles;
use crate::config::{AdminConfig, AdminListen, Config, ConfigError, Located};

/// Reads the files that the configuration names.
///
/// # Errors
/// One of them is missing, or not what it should be.
pub(crate) fn credentials(config: &Config, admin: &AdminConfig) -> Result<Credentials, ConfigError> {
    let read = |file: &Option<_>| file.as_ref().map(|file| token(config, file)).transpose();
    let (token, read_token) = (read(&admin.token_file)?, read(&admin.read_token_file)?);
    if let (Some(file), true) = (&admin.read_token_file, token.is_some() && token == read_token) {
        let message = "token_file and read_token_file have the same token, so that who has it may change all";
        return Err(config.error(file, message, "make another: `openssl rand -hex 32`"));
    }
    let refused = |at: &Located<PathBuf>, error: Unreadable| {
        config.error(at, format_args!("{}: {}", at.value.display(), error.message), error.remedy)
    };
    let ca = admin.tls.as_ref().and_then(|tls| tls.client_ca.as_ref());
    let clients = ca.map(|ca| tls::clients_of(&ca.value).map_err(|error| refused(ca, error))).transpose()?;
    let key = admin.tls.as_ref().map(|TlsFiles { cert, key, .. }| {
        let chain = tls::certificates(&cert.value).map_err(|error| refused(cert, error))?;
        tls::certified(chain, &key.value, &cert.value).map_err(|error| refused(key, error))
    });
    let key = key.transpose()?;
    let mut warnings = Vec::new();
    if let (Some(key), Some(files), AdminListen::Tcp(at)) = (&key, &admin.tls, &admin.listen.value)
        && let Some(objection) = tls::objection(&key.cert, at.ip())
    {
        warnings.push(format!(
            "tls_cert {}: {objection}; clients will refuse it, unless they are given this very \
                certificate and it is in force",
            files.cert.value.display()
        ));
    }
    Ok(Credentials { token, read_token, key, clients, warnings })
}

fn token(config: &Config, file: &Located<PathBuf>) -> Result<Token, ConfigError> {
    let told = |Unfit { what, remedy }| {
        config.error(file, format_args!("token file {}: {what}", file.value.display()), &remedy)
    };
    Token::read(&file.value).map_err(told)
}
