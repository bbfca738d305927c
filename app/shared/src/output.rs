//! Standard output and standard error of the programs: the one place that writes to them.
//!
//! Its reader may be gone (`pascaline explain 1 | head`), or there may be no room (`> /dev/full`). Then the
//! thread that prints unwinds, without a panic's report, so that a worker still says that it leaves; [`run`]
//! gives the exit code. What cannot be said on standard error is lost, and the program goes on.

#[cfg(test)]
mod tests;

use core::fmt;
use std::any::Any;
use std::io::{self, ErrorKind, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

use clap::Parser;

/// As of a program that SIGPIPE has ended, in a shell's terms.
const READER_GONE: u8 = 128 + 13;

/// Why a program ends in the middle: what it unwinds with.
#[derive(Debug)]
enum Ended {
    /// Standard output does not take more.
    Unwritable(io::Error),
    /// All has been said.
    Over(u8),
}

/// Runs a program's main function. Gives its exit code, or that of an output that takes nothing more.
pub fn run(program: &str, main: impl FnOnce() -> ExitCode) -> ExitCode {
    let flushed = || {
        let code = main();
        let _ = Stdout.flush();
        code
    };
    catch_unwind(AssertUnwindSafe(flushed)).unwrap_or_else(|payload| code(program, payload))
}

/// The exit code of a program that has unwound. A panic, which has been reported, goes on.
fn code(program: &str, payload: Box<dyn Any + Send>) -> ExitCode {
    match payload.downcast::<Ended>().map(|ended| *ended) {
        Ok(Ended::Over(code)) => code.into(),
        Ok(Ended::Unwritable(error)) if error.kind() == ErrorKind::BrokenPipe => READER_GONE.into(),
        Ok(Ended::Unwritable(error)) => {
            let remedy = "make room where standard output goes, or send it elsewhere";
            tell(format_args!("{program}: cannot write to standard output: {error}\n  remedy: {remedy}\n"));
            ExitCode::FAILURE
        }
        Err(panic) => resume_unwind(panic),
    }
}

/// The command line, read by clap. Help, versions and mistakes are shown, and the program ends.
#[must_use]
pub fn parsed<P: Parser>() -> P {
    P::try_parse().unwrap_or_else(|shown| {
        let written = shown.print().and_then(|()| io::stdout().flush());
        let code = u8::try_from(shown.exit_code()).unwrap_or(u8::MAX);
        resume_unwind(Box::new(match written {
            Err(error) if !shown.use_stderr() => Ended::Unwritable(error),
            _ => Ended::Over(code),
        }))
    })
}

/// Prints to standard output; for [`print!`](crate::print) and [`println!`](crate::println).
pub fn say(text: fmt::Arguments<'_>) {
    // Interrupted writes are repeated there; any other error has ended the program.
    let _ = taken(io::stdout().lock().write_fmt(text));
}

/// Prints to standard error; for [`eprint!`](crate::eprint) and [`eprintln!`](crate::eprintln).
pub fn tell(text: fmt::Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(text);
}

/// Standard output, as a writer that never fails: it ends the program instead.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        taken(io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        taken(io::stdout().flush())
    }
}

fn taken<T>(written: io::Result<T>) -> io::Result<T> {
    match written {
        Err(error) if error.kind() != ErrorKind::Interrupted => {
            resume_unwind(Box::new(Ended::Unwritable(error)))
        }
        written => written,
    }
}

/// As that of the standard library, to standard output that may take nothing more.
#[macro_export]
macro_rules! print {
    ($($text:tt)*) => { $crate::output::say(::core::format_args!($($text)*)) };
}

/// As that of the standard library, to standard output that may take nothing more.
#[macro_export]
macro_rules! println {
    () => { $crate::output::say(::core::format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::say(::core::format_args!("{}\n", ::core::format_args!($($text)*))) };
}

/// As that of the standard library, to standard error that may take nothing more.
#[macro_export]
macro_rules! eprint {
    ($($text:tt)*) => { $crate::output::tell(::core::format_args!($($text)*)) };
}

/// As that of the standard library, to standard error that may take nothing more.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::output::tell(::core::format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::tell(::core::format_args!("{}\n", ::core::format_args!($($text)*))) };
}
