//! A Unix socket that its owner and group may use.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use anyhow::Context as _;

use crate::http::server::{Listener, SocketFile};

/// Owner and group may use the API: the group of the service's user is how operators get access.
const SOCKET_MODE: u32 = 0o660;

/// The directory that is made for it, if there is none.
const DIRECTORY_MODE: u32 = 0o750;

/// Puts what is wrong, and what to do about it, into an error.
type Refuse<'a, E> = &'a dyn Fn(&dyn core::fmt::Display, &str) -> E;

/// Binds a socket that its owner and group may use.
pub fn unix<E: Into<anyhow::Error>>(path: &Path, refuse: Refuse<'_, E>) -> anyhow::Result<Listener> {
    // What a service manager does for a service (RuntimeDirectory=); a user who starts it by hand should not
    // have to.
    if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
        let made = DirBuilder::new().mode(DIRECTORY_MODE).create(directory);
        made.map_err(|error| refuse(&error, "make its directory, or choose another path").into())?;
    }
    clear(path, refuse).map_err(Into::into)?;
    let listener = UnixListener::bind(path).map_err(|error| {
        refuse(&error, "make its directory, writable for the user that runs the appliance").into()
    })?;
    let file = SocketFile(path.to_owned());
    // Until here it had what the umask left, which never lets others in: connecting takes the right to write.
    let permissions = std::fs::Permissions::from_mode(SOCKET_MODE);
    std::fs::set_permissions(path, permissions).context("setting the mode of the admin socket")?;
    Ok(Listener::Unix(listener, file))
}

/// Removes the socket of an appliance that was killed; leaves alone whatever else is there.
fn clear<E>(path: &Path, refuse: Refuse<'_, E>) -> Result<(), E> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            Err(refuse(&"there is a file that is no socket", "choose another path, or remove it"))
        }
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(|error| refuse(&error, "remove the old socket"))
            }
            Ok(_) => Err(refuse(
                &"another process listens there",
                "end the other appliance, or choose another path",
            )),
            Err(error) => Err(refuse(&error, "choose another path, or remove it")),
        },
        Err(_) => Ok(()),
    }
}
