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
    let args = parsed(&[&key, more].concat()).unwrap();
    args.security.key(&args).unwrap_err().to_string()
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
        assert!(args.security.key(&args).unwrap().is_some());
    }
    std::fs::remove_file(&file).unwrap();
    assert!(refused(&file, &[]).contains("No such file"));
    let none = parsed(&[]).unwrap();
    assert!(none.security.key(&none).unwrap().is_none());
    let only_key = parsed(&["--key", "some"]).unwrap();
    let said = only_key.security.key(&only_key).unwrap_err().to_string();
    assert_eq!(said, "--key goes with --security masked");
    assert!(parsed(&["--security", "masked"]).unwrap_err().to_string().contains("--key"));
    assert!(parsed(&["--security", "tls"]).unwrap_err().to_string().contains("none, masked"));
}
