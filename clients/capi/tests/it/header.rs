//! The header that is checked in is the one that belongs to the source.

use std::path::Path;
use std::{env, fs};

#[test]
fn the_header_is_up_to_date() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).unwrap();
    // It follows the modules from there.
    let builder = cbindgen::Builder::new().with_config(config).with_src(here.join("src/lib.rs"));
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = here.join("include/pascaline.h");
    if env::var_os("PASCALINE_WRITE_HEADER").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    let remedy = "PASCALINE_WRITE_HEADER=1 cargo test -p pascaline-capi --test it header";
    assert!(made == there, "clients/capi/include/pascaline.h is not what the source says: {remedy}");

    // Exported are the functions of the list of versions, and no others.
    let map = fs::read_to_string(here.join("libpascaline.map")).unwrap();
    let named = |text: &str| -> Vec<String> {
        let mut names: Vec<_> = text
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|word| word.starts_with("pascaline_"))
            .map(str::to_owned)
            .collect();
        names.sort();
        names.dedup();
        names
    };
    let declared: String =
        made.lines().filter(|line| line.contains("pascaline_") && line.contains('(')).collect();
    let functions: Vec<_> =
        named(&declared).into_iter().filter(|name| made.contains(&format!("{name}("))).collect();
    assert_eq!(
        functions,
        named(&map),
        "clients/capi/libpascaline.map does not name what the header declares"
    );
}
