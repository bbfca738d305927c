use std::path::Path;

use super::*;

fn config(device: &str, dataplane: &str) -> Config {
    let text = format!(
        "[appliance]\naddresses = [\"10.77.0.254\"]\n\
         [dataplane]\nmain_core = 0\ncores = [1, 2]\n{dataplane}\n\
         [[ports]]\nname = \"p0\"\ndevice = \"{device}\"\npeer = \"p1\"\n\
         [[ports]]\nname = \"p1\"\ndevice = \"0000:01:00.0\"\n"
    );
    Config::parse(Path::new("test.toml"), &text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn what_passes_has_queues_of_its_own_where_the_device_has_enough() {
    let cases = [
        ("net_af_packet0,iface=a", Lane::Shared),
        ("net_af_packet0,iface=a,qpairs=3", Lane::Shared),
        ("net_af_packet0,iface=a,qpairs=4", Lane::Pair),
        ("net_af_xdp0,iface=a,queue_count=4", Lane::Pair),
        ("net_kernel0,iface=a", Lane::Transmit),
        ("net_ring0", Lane::Shared),
    ];
    for (device, lane) in cases {
        let config = config(device, "");
        assert_eq!(expected(&config, &config.ports[0]), lane, "{device}");
        assert_eq!(expected(&config, &config.ports[1]), Lane::Pair, "of a card it is not known");
    }
}

#[test]
fn it_has_none_where_it_is_not_wanted_or_leaves_in_turn() {
    for dataplane in ["passing_queue = \"no\"", "passing = \"in-turn\""] {
        let config = config("net_kernel0,iface=a", dataplane);
        assert_eq!(expected(&config, &config.ports[0]), Lane::Shared, "{dataplane}");
        assert_eq!(config.in_line.queue, PassingQueue::No);
    }
}

#[test]
fn a_card_that_has_too_few_shares() {
    let config = config("net_kernel0,iface=a", "");
    let lane = |rx, tx| lane(&config, &config.ports[1], "net_mlx5", (rx, tx));
    assert_eq!((lane(2, 3), lane(2, 4)), (Lane::Shared, Lane::Transmit));
}

#[test]
fn the_remedy_names_the_key_of_the_device() {
    let config = config("net_af_packet0,iface=a", "");
    assert_eq!(remedy(&config, &config.ports[0]), "add qpairs=4 to the device: two queues for each lcore");
}
