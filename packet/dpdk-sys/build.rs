//! Finds the system's libdpdk through pkg-config, compiles the shims and generates the bindings.

use std::path::PathBuf;
use std::process::Command;
use std::{env, panic};

/// The first LTS release whose public names (`RTE_ETH_*`, `RTE_MBUF_F_*`) are the ones used here.
const MINIMUM: &str = "21.11";

/// Everything `pascaline-dpdk` calls. `psc_` names are the shims of `src/shim.c`.
const FUNCTIONS: &[&str] = &[
    "psc_.*",
    "rte_eal_(init|cleanup|get_runtime_dir|remote_launch|wait_lcore|hotplug_add|hotplug_remove)",
    "rte_eth_dev_set_link_(down|up)",
    "rte_eth_add_rx_callback",
    "rte_eth_dev_(info_get|configure|adjust_nb_rx_tx_desc|start|stop|close|socket_id)",
    "rte_eth_dev_(get_port_by_name|set_mtu|get_mtu)",
    "rte_eth_(find_next|macaddr_get|remove_rx_callback|promiscuous_enable|allmulticast_enable)",
    "rte_eth_(rx|tx)_queue_setup",
    "rte_eth_stats_get",
    "rte_flow_flush",
    "rte_free",
    "rte_get_tsc_hz",
    "rte_mempool_(avail_count|free)",
    "rte_pktmbuf_(copy|free_bulk)",
    "rte_strerror",
    "rte_version",
];

fn main() {
    println!("cargo::rerun-if-changed=src/shim.c");
    println!("cargo::rerun-if-changed=src/shim.h");
    println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
    println!("cargo::rerun-if-env-changed=LIBCLANG_PATH");
    if let Err(reason) = build() {
        // `cargo::error` is shown without the noise of a panicking build script.
        for line in reason.lines() {
            println!("cargo::error={line}");
        }
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    let flags = find_dpdk()?;

    let mut shim = cc::Build::new();
    shim.file("src/shim.c").opt_level(3).warnings(true);
    for flag in &flags {
        shim.flag(flag);
    }
    shim.try_compile("pascaline_dpdk_shim").map_err(|error| format!("src/shim.c: {error}"))?;

    let target = PathBuf::from(env::var("OUT_DIR").map_err(|error| error.to_string())?).join("bindings.rs");
    bindings(&flags)?
        .write_to_file(&target)
        .map_err(|error| format!("cannot write {}: {error}", target.display()))
}

/// Emits the link flags and returns the C flags.
///
/// The flags are asked for separately because the `pkg-config` crate keeps include paths and defines only,
/// and the headers need `-include rte_config.h` and the `-march` that the library was built with.
fn find_dpdk() -> Result<Vec<String>, String> {
    pkg_config::Config::new().atleast_version(MINIMUM).probe("libdpdk").map_err(|error| {
        // The crate's message is a page long; what pkg-config itself said is indented in it.
        let message = error.to_string();
        let said = message.lines().find(|line| line.starts_with("  ")).unwrap_or(&message);
        format!(
            "libdpdk {MINIMUM} or newer was not found by pkg-config: {}\n\
             On Debian and Ubuntu: apt-get install libdpdk-dev pkg-config\n\
             A DPDK installed elsewhere is found if PKG_CONFIG_PATH names the directory of its libdpdk.pc.",
            said.trim()
        )
    })?;
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
    let output = Command::new(&program)
        .args(["--cflags", "libdpdk"])
        .output()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    let text = String::from_utf8(output.stdout).map_err(|error| format!("{program} --cflags: {error}"))?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

fn bindings(flags: &[String]) -> Result<bindgen::Bindings, String> {
    let mut builder = bindgen::Builder::default()
        .header("src/shim.h")
        .clang_args(flags)
        .allowlist_var("PSC_.*")
        .allowlist_type("psc_.*")
        // Defined without their insides in `src/opaque.rs`.
        .blocklist_type("rte_(mbuf|mempool|device|eth_rxtx_callback)")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(false)
        .generate_comments(false)
        // The layout is taken from the very headers that the shims are compiled against.
        .layout_tests(false);
    for name in FUNCTIONS {
        builder = builder.allowlist_function(name);
    }
    // bindgen loads libclang at run time and panics where there is none. The message below says it better.
    panic::set_hook(Box::new(|_| ()));
    let generated = panic::catch_unwind(panic::AssertUnwindSafe(|| builder.generate()));
    drop(panic::take_hook());
    generated
        .map_err(|_| {
            "bindgen could not load libclang.\n\
             On Debian and Ubuntu: apt-get install libclang-dev\n\
             Installed elsewhere: set LIBCLANG_PATH to the directory of libclang.so."
                .to_owned()
        })?
        .map_err(|error| format!("bindgen, src/shim.h: {error}"))
}
