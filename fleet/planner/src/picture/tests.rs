use super::to_svg;
use crate::{Options, plan, read};

/// Each link that carries flows is there in each direction, with its number, and full ones that bind are red.
#[test]
fn what_carries_flows_is_drawn() {
    for text in [
        include_str!("../../tests/instances/20_small_rand.json"),
        include_str!("../../../../clients/examples/plans/fat-tree.json"),
        include_str!("../../../../clients/examples/plans/appliances.json"),
    ] {
        let instance = read(text).unwrap();
        let plan = plan(&instance, &Options::default()).unwrap();
        let svg = to_svg(&instance, &plan);
        let network = &instance.network;
        let mut used: Vec<usize> =
            plan.tasks.iter().flat_map(|task| task.flows.iter().map(|&(channel, _)| channel)).collect();
        used.sort_unstable();
        used.dedup();
        let between = used.iter().filter(|&&channel| channel < 2 * network.links.len()).count();
        assert_eq!(svg.matches("% full</title>").count(), between);
        assert_eq!(svg.matches("<line").count(), network.links.len() + between);
        assert_eq!(svg.matches("<circle").count(), network.switches.len());
        assert!(svg.contains(&format!("k = {}", plan.k)));
        assert_eq!(svg.matches('<').count(), svg.matches('>').count());
    }
}
