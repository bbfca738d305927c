use super::*;

#[test]
fn an_explanation_is_told_line_by_line() {
    let answer = serde_json::json!({
        "summary": "Job 1 is partly aggregated here: 50.0 % of its bytes. Collisions: 3 contributions.",
        "job": { "state": "running", "joined": 2, "ranks": 2, "epoch": 9 },
        "bytes": { "aggregated": 10, "server": 10, "bypassed": 0 },
        "reasons": [{ "text": "Collisions: 3 contributions.", "remedy": "raise [pool] slots" }],
    });
    assert_eq!(
        told(&answer),
        "Job 1 is partly aggregated here: 50.0 % of its bytes.\n  running: 2 of 2 ranks, generation 9\n  \
         bytes: 10 aggregated here, 10 to the parameter server, 0 past the pool\n\
         - Collisions: 3 contributions.\n  remedy: raise [pool] slots\n"
    );
}

#[test]
fn a_name_cannot_leave_its_segment() {
    assert_eq!(segment("resnet-50_a.b~"), "resnet-50_a.b~");
    assert_eq!(segment("../x y?é"), "..%2Fx%20y%3F%C3%A9");
}
