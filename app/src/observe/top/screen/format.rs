//! Numbers for people.

/// Three significant digits and an SI prefix.
fn scaled(mut value: f64) -> (String, &'static str) {
    const PREFIXES: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let mut step = 0;
    while value >= 999.5 && step + 1 < PREFIXES.len() {
        value /= 1000.0;
        step += 1;
    }
    let digits = match value {
        _ if step == 0 && value.fract() == 0.0 => 0,
        99.95.. => 0,
        9.995.. => 1,
        _ => 2,
    };
    (format!("{value:.digits$}"), PREFIXES[step])
}

/// Bits per second.
pub(super) fn bits(bytes_per_second: f64) -> String {
    let (number, prefix) = scaled(bytes_per_second * 8.0);
    format!("{number} {prefix}bit/s")
}

/// So many a second.
pub(super) fn rate(per_second: f64) -> String {
    let (number, prefix) = scaled(per_second);
    format!("{number} {prefix}/s")
}

/// A count.
pub(super) fn count(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let (number, prefix) = scaled(count as f64);
    if count < 100_000 { count.to_string() } else { format!("{number} {prefix}").trim_end().to_owned() }
}

/// A time.
pub(super) fn seconds(seconds: f64) -> String {
    match seconds {
        0.0 => "0".to_owned(),
        ..1e-3 => format!("{:.0} µs", seconds * 1e6),
        ..1.0 => format!("{:.1} ms", seconds * 1e3),
        ..120.0 => format!("{seconds:.1} s"),
        _ => span(seconds),
    }
}

/// Minutes, hours or days.
pub(super) fn span(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole seconds, for people")]
    let seconds = seconds as u64;
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// A share of one.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests;
