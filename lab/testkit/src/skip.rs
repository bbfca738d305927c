//! Tests that cannot run on this machine.

use std::{env, fs, io::Write as _, thread};

/// Counts the calling test as skipped; the caller returns then.
///
/// `scripts/test` names a file in `PASCALINE_SKIPPED`, reads it afterwards and takes these cases off the
/// passed ones.
///
/// # Panics
///
/// Without that variable: a test that did not run must not pass.
pub fn skipped(reason: &str) {
    let Some(path) = env::var_os("PASCALINE_SKIPPED") else {
        panic!("cannot run here: {reason} (set PASCALINE_SKIPPED=/path/of/a/file to count it as skipped)");
    };
    let test = env::var("NEXTEST_TEST_NAME")
        .unwrap_or_else(|_| thread::current().name().unwrap_or("unnamed").to_owned());
    let binary = env::var("NEXTEST_BINARY_ID").unwrap_or_default();
    let mut file =
        fs::OpenOptions::new().create(true).append(true).open(path).expect("the file of skipped tests");
    let reason = reason.replace('\n', " ");
    writeln!(file, "{binary}|{test}|{reason}").expect("a line for a skipped test");
}
