use std::path::Path;

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: AllreduceArgs,
}

const RANK: [&str; 9] = ["worker", "--appliance", "10.0.0.1", "--job", "1", "--rank", "0", "--ranks", "4"];

fn parsed(more: &[&str]) -> Result<AllreduceArgs, clap::Error> {
    Ok(Cli::try_parse_from(RANK.iter().chain(more))?.args)
}

/// The error of arguments of which the key is the one in `file`.
fn refused(file: &Path, more: &[&str]) -> String {
    let key = ["--security", "masked", "--key", file.to_str().unwrap()];
    error_of(&[&key, more].concat())
}

fn error_of(more: &[&str]) -> String {
    keys(&parsed(more).unwrap()).err().unwrap().to_string()
}

fn keys(args: &AllreduceArgs) -> anyhow::Result<Keys> {
    args.security.keys(args, &super::super::parse::appliances(&args.who.appliance).unwrap())
}

#[test]
fn a_key_goes_with_masks_and_masks_with_what_can_be_added_in_words() {
    let file = std::env::temp_dir().join(format!("pascaline-security-{}", std::process::id()));
    let _ = std::fs::remove_file(&file);
    pascaline_worker::Secret::create(&file).unwrap();
    for (more, says) in [
        (&["--wire", "bf16"][..], "--wire does not go with --security masked"),
        (&["--order", "rank"], "--order rank does not go with --security masked"),
        (&["--workers", "8"], "not of several below another"),
        (&["--dtype", "f64"], "sum of f64 cannot be masked\n  remedy: send f32"),
        (&["--dtype", "mxint8"], "sum of mxint8 cannot be masked"),
        (&["--op", "min"], "min of f32 cannot be masked\n  remedy: sum or mean"),
        (&["--op", "max", "--collective", "reduce"], "max of f32 cannot be masked"),
    ] {
        let said = refused(&file, more);
        assert!(said.contains(says), "{more:?}: {said}");
    }
    let key = ["--security", "masked", "--key", file.to_str().unwrap()];
    for more in [&["--dtype", "bf16", "--op", "mean"][..], &["--collective", "broadcast", "--dtype", "f64"]] {
        let args = parsed(&[&key, more].concat()).unwrap();
        assert!(keys(&args).unwrap().mask().is_some());
    }
    std::fs::remove_file(&file).unwrap();
    assert!(refused(&file, &[]).contains("No such file"));
    let none = parsed(&[]).unwrap();
    assert!(matches!(keys(&none), Ok(Keys::None)));
    assert_eq!(error_of(&["--key", "some"]), "--key goes with --security masked, mac or encrypt");
    assert!(parsed(&["--security", "masked"]).unwrap_err().to_string().contains("--key"));
    assert!(parsed(&["--security", "tls"]).unwrap_err().to_string().contains("none, masked, mac, encrypt"));
}

#[test]
fn packets_are_sealed_with_the_jobs_key_or_the_ranks_own() {
    let [all, own] = ["job", "own"]
        .map(|name| std::env::temp_dir().join(format!("pascaline-sealed-{name}-{}", std::process::id())));
    for file in [&all, &own] {
        let _ = std::fs::remove_file(file);
    }
    pascaline_worker::Secret::create(&all).unwrap();
    pascaline_worker::Secret::read(&all).unwrap().create_of_rank(&own, 1, 0).unwrap();
    let [all_text, own_text] = [&all, &own].map(|file| file.to_str().unwrap());
    for (security, protection) in [("mac", Protection::Mac), ("encrypt", Protection::Encrypt)] {
        for (key, more) in [
            (all_text, &["--wire", "bf16"][..]),
            (all_text, &["--op", "max", "--dtype", "f64"]),
            (all_text, &["--appliance", "10.0.0.1,10.0.0.2;10.0.0.3"]),
            (own_text, &["--order", "rank"]),
            (all_text, &["--driver", "dpdk", "--port", "net_null0", "--address", "10.0.0.9"]),
        ] {
            let rank = RANK.iter().filter(|word| !more.contains(&"--appliance") || !is_place(word));
            let told = ["--security", security, "--key", key];
            let args = Cli::try_parse_from(rank.chain(&told).chain(more)).unwrap().args;
            let found = keys(&args).unwrap();
            assert_eq!(found.seals().unwrap().protection(), Some(protection), "{more:?}");
            assert!(found.mask().is_none());
        }
        let key = |key| ["--security", security, "--key", key];
        for (key, more, says) in [
            (key(own_text), &["--rank", "1"][..], "the key of rank 0 of job 1, not of rank 1 of job 1"),
            (key("/none"), &[], "No such file"),
        ] {
            let rank =
                RANK.iter().filter(|word| !more.contains(&"--rank") || !["--rank", "0"].contains(word));
            let args = Cli::try_parse_from(rank.chain(&key).chain(more)).unwrap().args;
            let said = keys(&args).err().unwrap().to_string();
            assert!(said.contains(says), "{more:?}: {said}");
        }
        assert!(parsed(&["--security", security]).unwrap_err().to_string().contains("--key"));
    }
    let masked = parsed(&["--security", "masked", "--key", all_text]).unwrap();
    let said = masked.security.only_seals(&masked.who, 1).err().unwrap().to_string();
    assert_eq!(said, "--security masked goes with `worker allreduce` only");
    for file in [all, own] {
        std::fs::remove_file(file).unwrap();
    }
}

/// Whether a word says where the appliance is.
fn is_place(word: &str) -> bool {
    ["--appliance", "10.0.0.1"].contains(&word)
}
