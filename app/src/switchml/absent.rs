//! The build without the gRPC door. No configuration with such a job is accepted, so that nothing is served.

use core::convert::Infallible;
use std::io;
use std::net::TcpListener;

use crate::admin::server::Orders;
use crate::left_out::SWITCHML;

/// There are none.
pub(crate) type Controllers = Infallible;

/// Refuses.
///
/// # Errors
/// Always.
pub(crate) fn serve(_: Vec<(u16, TcpListener)>, _: &Orders) -> io::Result<Controllers> {
    Err(io::Error::new(io::ErrorKind::Unsupported, SWITCHML))
}
