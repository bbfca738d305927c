//! An appliance around lcores, as the tests share it.

use pascaline_testkit::Worker;
use pascaline_wire::control::SERVER_RANK;
use pascaline_wire::frame::{Address, Mac};

pub(crate) mod appliance;

/// The host of a parameter server of another process, behind a port, which has not heard of a job yet.
pub(crate) fn server_host(port: usize) -> Worker {
    Worker {
        mac: Mac([2, 0, 0, 0, 0, 200]),
        address: Address::from_v4([10, 77, 0, 200]),
        udp_port: 16421,
        rank: SERVER_RANK,
        fan_in: 0,
        ..Worker::new(0, 4).at(port)
    }
}
