use crate::{Options, Scenario, picture, verify};

fn drawn(horizon: &str, count: u32) -> String {
    let text = format!(
        "horizon = {horizon:?}\n[queue]\ndiscipline = \"fifo\"\nlength = 1\nservice = \"20ms\"\n\
         [[clusters]]\nname = \"flood\"\ncount = {count}\nperiod = \"10ms\"\nphase = \"100ms\"\n\
         [[clusters]]\nname = \"victim\"\nperiod = \"100ms\"\n\
         [[query]]\nmeasure = \"highest\"\nbound = \"1ms\"\nclusters = [\"victim\"]\n"
    );
    let scenario = Scenario::parse(&text, "test".as_ref()).unwrap();
    picture(&verify(&scenario, &Options::default()).unwrap()).unwrap()
}

/// Up to the horizon an age grows, whether anything happens or not.
#[test]
fn a_picture_of_all_goes_to_the_horizon() {
    let svg = drawn("1s", 1);
    assert!(svg.contains(">1000.0 ms<") && svg.contains(">highest 900.000 ms<"), "{svg}");
    assert!(!svg.contains("not drawn"), "{svg}");
}

#[test]
fn a_picture_tells_what_it_leaves_out() {
    let svg = drawn("9s", 13);
    assert!(svg.contains(">highest drawn ") && !svg.contains(">highest 8"), "{svg}");
    let lacks = svg.split(">not drawn: ").nth(1).unwrap().split('<').next().unwrap();
    assert!(lacks.contains(" moments after ") && lacks.ends_with(", 2 clusters"), "{lacks}");
}
