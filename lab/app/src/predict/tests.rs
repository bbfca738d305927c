#![allow(clippy::unwrap_used, reason = "tests")]

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: PredictArgs,
}

fn setting(words: &[&str]) -> anyhow::Result<Setting> {
    let all = ["predict", "--ranks", "2", "--mbit", "100"].iter().chain(words);
    Cli::try_parse_from(all).unwrap().args.setting()
}

fn milliseconds(words: &[&str]) -> f64 {
    let outcome = run(&setting(words).unwrap()).unwrap();
    assert_eq!(outcome.shares[0].wrong, 0);
    1e3 * outcome.shares[0].operations.last().unwrap().as_secs_f64()
}

#[test]
fn times_beyond_a_simulation_are_refused() {
    for option in ["--round-trip", "--pause"] {
        let refused = setting(&["--bytes", "4KiB", option, "300000000000years"]).unwrap_err().to_string();
        assert!(refused.contains(option) && refused.contains("remedy"), "{refused}");
    }
}

/// 29 packets of 1,408 bytes and a short one, 64 bytes of headers each, at 100 Mbit/s; the round trip, and
/// the last packet's way down.
#[test]
fn a_short_allreduce_takes_the_line_its_time() {
    let bits = 8.0 * (40.0 * 1024.0 + 30.0 * 64.0);
    let line = bits / 100e6 * 1e3;
    let took = milliseconds(&["--bytes", "40KiB", "--bucket", "0", "--round-trip", "1ms"]);
    assert!(took > line + 1.0 && took < line + 1.4, "{took} ms against {line} ms");
    let passed = milliseconds(&["--bytes", "40KiB", "--bucket", "6KiB", "--round-trip", "1ms"]);
    let bucket = 8.0 * 6.0 * 1024.0 / 100e6 * 1e3;
    assert!((took - passed - bucket).abs() < 0.2, "{passed} ms instead of {took} ms");
}

#[test]
fn a_wire_takes_longer_than_a_bucket_says() {
    let wire = milliseconds(&["--bytes", "1MiB"]);
    let shaped = milliseconds(&["--bytes", "1MiB", "--bucket", "0"]);
    let framing = (1472.0 + 24.0) / 1472.0;
    assert!((wire / shaped - framing).abs() < 0.005, "{wire} ms, {shaped} ms");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (words, named) in [
        (vec!["--bytes", "0"], "--bytes 0"),
        (vec!["--bytes", "6"], "--bytes 6"),
        (vec!["--bytes", "1MiB", "--payload", "1001"], "--payload 1001"),
        (vec!["--bytes", "1MiB", "--pause", "584542046090years"], "--pause"),
    ] {
        let refused = setting(&words).unwrap_err().to_string();
        assert!(refused.contains(named) && refused.contains("remedy"), "{refused}");
    }
}
