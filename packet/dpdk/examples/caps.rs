//! Opens the devices named on the command line and prints what they offer, and what was turned on with two
//! queues each way, or with one where that is all there is.
//!
//! `cargo run -p pascaline-dpdk --example caps -- net_null0 net_tap0,iface=tap7`
#![allow(clippy::print_stdout, reason = "a command-line tool")]

use std::error::Error;

use pascaline_dpdk::{Device, Eal, EalConfig, Mempool, PoolConfig, Port, PortConfig};

fn main() -> Result<(), Box<dyn Error>> {
    let eal = Eal::init(&EalConfig { program: "caps".to_owned(), ..EalConfig::default() })?;
    println!("memory: {}", eal.memory());
    let config = PoolConfig { name: "caps".to_owned(), count: 8191, cache: 0, room: 2048 };
    let pool = Mempool::new(&eal, &config)?;
    for name in std::env::args().skip(1) {
        match Port::open(&eal, &Device::Vdev(name)) {
            Ok(port) => {
                println!("{}: {:#?}", port.name(), port.caps());
                let two = |max: u16| max.min(2);
                let (rx_queues, tx_queues) = (two(port.caps().max_rx_queues), two(port.caps().max_tx_queues));
                let config = PortConfig { rx_queues, tx_queues, ..PortConfig::default() };
                match port.start(&config, std::slice::from_ref(&pool)) {
                    Ok(started) => {
                        let port = &started.port;
                        let stats = port.stats().read();
                        println!(
                            "{:#?}\nmac {:x?}, link {:?}, {stats:?}",
                            port.active(),
                            port.mac(),
                            port.link()
                        );
                    }
                    Err(failure) => println!("{failure}"),
                }
            }
            Err(error) => println!("{error}"),
        }
    }
    Ok(())
}
