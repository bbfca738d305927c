//! Packet buffers: what a configuration needs, and the error where it does not fit.

use super::*;

fn with(jobs: &[String], more: &str) -> Result<Config, ConfigError> {
    let without = GOOD.split_once("[[jobs]]").unwrap().0;
    parse(&format!("{without}{}\n{more}", jobs.concat()))
}

fn job(id: u16, fan_in: u16, rest: &str) -> String {
    format!("\n[[jobs]]\nid = {id}\nfan_in = {fan_in}\n{rest}\n")
}

fn kept(jobs: &[String], more: &str) -> usize {
    with(jobs, more).unwrap().kept_packets()
}

const POOL: usize = 4096;

#[test]
fn a_slot_keeps_a_packet_and_a_partial_may_keep_one_of_each_rank() {
    assert_eq!(kept(&[], ""), POOL);
    assert_eq!(kept(&[job(1, 1, "")], ""), POOL, "one rank, one packet");
    assert_eq!(kept(&[job(1, 4, "window = 100")], ""), POOL + 100 * 3);
    assert_eq!(
        kept(&[job(1, 4, "window = 100\nkind = \"shared\"\n[jobs.shared]\nquota = 10")], ""),
        POOL + 10 * 3
    );
    assert_eq!(kept(&[job(1, 4, "window = 100\n[jobs.region]\norder = \"rank\"")], ""), POOL + 100 * 3);
    assert_eq!(
        kept(
            &[job(1, 4, "window = 100\nkind = \"shared\"\n[jobs.shared]\nquota = 200\norder = \"rank\"")],
            ""
        ),
        POOL + 200 * 3
    );
}

#[test]
fn jobs_cannot_hold_more_partials_than_their_part_has_slots() {
    let region = "window = 64\n[jobs.region]\nslots = 64";
    assert_eq!(kept(&[job(1, 8, region)], ""), POOL + 64 * 7);
    // 4,032 shared slots: the jobs of most ranks have the worst of them.
    let jobs = [
        job(1, 2, "window = 2000\nkind = \"dsa\""),
        job(2, 8, region),
        job(3, 9, "window = 3000\nkind = \"dsa\""),
        job(4, 4, "window = 4000\nkind = \"dsa\""),
    ];
    assert_eq!(kept(&jobs, ""), POOL + 64 * 7 + 3000 * 8 + 1032 * 3);
}

#[test]
fn jobs_that_may_yet_be_formed_count() {
    let admission =
        "[admission]\njobs = \"1-9\"\nfrom = [\"::/0\"]\nmax_jobs = 3\nmax_fan_in = 5\nslots_per_job = 100";
    assert_eq!(kept(&[], admission), POOL + 3 * 100 * 4);
}

#[test]
fn every_buffer_is_counted() {
    let buffers = with(&[job(1, 4, "window = 100")], "").unwrap().packet_buffers();
    // 4,396 for slots, 2 ports × 1,024 descriptors, 2 × (2 × 32 + 768) for lcores and 2 × 256 on their way
    // out are 8,620; headers have no receive rings and no slots, but 32 more per lcore.
    assert_eq!((buffers.frames, buffers.headers), (16_383, 4_095));
    assert_eq!(buffers.frame_room, 2048);
    assert_eq!(buffers.least_bytes(), 16_383 * (2048 + 128 + 256) + 4_095 * (192 + 128 + 256));
}

#[test]
fn no_buffer_is_longer_than_fourteen_bits_say_unless_the_mtu_wants_it() {
    let room = |mtu: u16| {
        let text = GOOD.replace("[[ports]]\n", &format!("[[ports]]\nmtu = {mtu}\n"));
        parse(&text).unwrap().packet_buffers().frame_room
    };
    assert_eq!([1500, 2026, 8100, 9000].map(room), [2048, 2048, 8192, 16_368]);
}

#[test]
fn what_cannot_fit_is_refused_with_the_number() {
    let memory = |mb: u32| {
        let text = GOOD.replacen("cores = [1]", &format!("cores = [1]\nmemory_mb = {mb}"), 1);
        parse(&text.replacen("[telemetry]", "[pool]\nslots = 65536\n[telemetry]", 1))
    };
    let needed = memory(1024).unwrap().packet_buffers();
    let least = u32::try_from(needed.least_bytes().div_ceil(1 << 20)).unwrap();
    assert!(memory(least).is_ok());
    let error = memory(least - 1).unwrap_err();
    assert_eq!(error.place, Some(Place { line: 8, column: 13 }));
    let message = error.to_string();
    for says in [
        format!("the configuration needs {} packet buffers of 2048 bytes", needed.frames),
        format!("at least {least} MB"),
        format!("slots may keep {} packets", 65_536 + 512),
        "remedy: raise memory_mb".to_owned(),
    ] {
        assert!(message.contains(&says), "{says}: {message}");
    }
}

#[test]
fn a_thousand_ranks_in_order_fit_by_default() {
    let config = with(&[job(1, 1024, "[jobs.region]\norder = \"rank\"")], "").unwrap();
    assert_eq!(config.kept_packets(), POOL + 32 * 1023);
}
