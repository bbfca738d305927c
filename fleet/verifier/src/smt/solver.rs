//! Z3, as a process, so that a missing, failing or slow solver does no harm.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use num_traits::Zero as _;

use super::Asking;
use crate::error::VerifyError;
use crate::scenario::Exact;

/// The solver's answer.
pub(super) enum Found {
    /// There is a solution; with the requested values, as printed.
    Sat(String),
    /// There is none; with the rest of the output.
    Unsat(String),
}

/// Its memory limit in megabytes.
const MEMORY: u32 = 4_096;

/// The program: `PASCALINE_Z3`, or `z3` on the path.
fn program() -> String {
    std::env::var("PASCALINE_Z3").unwrap_or_else(|_| "z3".to_owned())
}

/// Asks one question.
pub(super) fn ask(text: &str, asking: &Asking) -> Result<Found, VerifyError> {
    asking.deadline.check()?;
    let seconds = asking.deadline.left().as_secs().saturating_add(1);
    let program = program();
    let spawned = Command::new(&program)
        .args(["-in", "-smt2", &format!("-T:{seconds}"), &format!("-memory:{MEMORY}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = spawned
        .map_err(|error| VerifyError::NoSolver { program: program.clone(), cause: error.to_string() })?;
    let failed = |error: std::io::Error| VerifyError::Solver(error.to_string());
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let (Some(mut stdin), Some(mut stdout)) = (stdin, stdout) else {
        return Err(VerifyError::Solver("it has no pipes".to_owned()));
    };
    // It answers only at the end: earlier output fits into the pipe.
    let asked = stdin.write_all(text.as_bytes());
    drop(stdin);
    let mut said = String::new();
    let read = stdout.read_to_string(&mut said);
    let _ = child.wait();
    read.map_err(failed)?;
    let (verdict, rest) = said.split_once('\n').unwrap_or((&said, ""));
    match verdict.trim() {
        "sat" => Ok(Found::Sat(rest.to_owned())),
        "unsat" => Ok(Found::Unsat(rest.to_owned())),
        "unknown" | "timeout" => Err(asking.deadline.late()),
        _ => {
            asked.map_err(failed)?;
            Err(VerifyError::Solver(said.lines().next().unwrap_or("it said nothing").to_owned()))
        }
    }
}

/// A value that the solver has chosen.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Number(Exact),
    Truth(bool),
}

/// Reads `((name value) …)`, twice: exact, and in decimals, for numbers that are no fractions.
pub(super) fn values(said: &str) -> Result<HashMap<String, Value>, VerifyError> {
    let mut values = HashMap::new();
    let spaced = said.replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    while at < words.len() {
        if words[at] == "(" && at + 2 < words.len() && words[at + 1] != "(" {
            let mut next = at + 2;
            if let Some(value) = value(&words, &mut next) {
                values.entry(words[at + 1].to_owned()).or_insert(value);
                at = next;
                continue;
            }
        }
        at += 1;
    }
    if values.is_empty() && !said.trim().is_empty() {
        let line = said.lines().next().unwrap_or_default();
        return Err(VerifyError::Solver(format!("its values cannot be read: {line}")));
    }
    Ok(values)
}

fn value(words: &[&str], at: &mut usize) -> Option<Value> {
    match *words.get(*at)? {
        "true" => Some(Value::Truth(true)),
        "false" => Some(Value::Truth(false)),
        _ => number(words, at).map(Value::Number),
    }
}

fn number(words: &[&str], at: &mut usize) -> Option<Exact> {
    let word = *words.get(*at)?;
    *at += 1;
    if word != "(" {
        // A question mark means that digits are left out.
        return fraction(word.trim_end_matches('?'));
    }
    let operator = *words.get(*at)?;
    *at += 1;
    let first = number(words, at)?;
    let result = match operator {
        "-" => -first,
        "/" => {
            let second = number(words, at)?;
            if second.is_zero() {
                return None;
            }
            first / second
        }
        _ => return None,
    };
    *at += 1;
    Some(result)
}

fn fraction(word: &str) -> Option<Exact> {
    let (whole, decimals) = word.split_once('.').unwrap_or((word, ""));
    let digits = format!("{whole}{decimals}").parse().ok()?;
    let tens = format!("1{}", "0".repeat(decimals.len())).parse().ok()?;
    Some(Exact::new(digits, tens))
}
