//! `pascaline`: the in-network aggregator's one command.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    pascaline_app::cli::main()
}
