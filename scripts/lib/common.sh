# shellcheck shell=bash
# Sourced by scripts: they run in the root of the repository then, with Rust in PATH.
set -euo pipefail
name=${0##*/}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
export PATH="$PATH:$HOME/.cargo/bin"
# shellcheck disable=SC2034 # for those that source it
target=${CARGO_TARGET_DIR:-$root/target}

say() { printf '%s\n' "$*"; }

fail() {
    printf '%s: %s\n' "$name" "$*" >&2
    exit 1
}

unknown() {
    printf '%s: unknown option: %s (see scripts/%s --help)\n' "$name" "$1" "$name" >&2
    exit 2
}

as_root() {
    if ((EUID == 0)); then "$@"; else sudo -- "$@"; fi
}

version() { sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1; }

# Where this machine has its own packages from.
mirror() {
    local found
    found=$(apt-cache policy base-files 2>/dev/null | grep -oE -m 1 'https?://[^ ]+' || true)
    printf '%s\n' "${PASCALINE_MIRROR:-${found:-http://deb.debian.org/debian}}"
}

# furnish DIRECTORY: lets a fresh Debian in there install packages.
furnish() {
    # The other machine needs the same proxies and certificates.
    as_root cp -a /etc/apt/apt.conf.d/. "$1/etc/apt/apt.conf.d/"
    as_root cp /etc/resolv.conf "$1/etc/resolv.conf"
    # Services do not start in there.
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$1/usr/sbin/policy-rc.d" >/dev/null
    as_root chmod 755 "$1/usr/sbin/policy-rc.d"
    as_root mount -t proc proc "$1/proc"
}
