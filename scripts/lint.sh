#!/usr/bin/env bash
# Checks the format, the lints and the dependencies. Fails at the first fault.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

# A version that builds with the pinned Rust; installed only if there is no cargo-deny.
cargo_deny_version=0.20.2

main() {
    step cargo fmt --all --check
    step cargo clippy --workspace --all-targets --features touchstone/wasm --locked -- -D warnings
    step check_dependencies
}

step() {
    echo "lint: $*"
    "$@"
}

check_dependencies() {
    if ! cargo deny --version >/dev/null 2>&1; then
        echo "lint: installing cargo-deny $cargo_deny_version (some minutes, once)"
        # Without optimisation it is built in half the time, and checks in seconds.
        cargo install cargo-deny --locked --debug --version "$cargo_deny_version"
    fi
    cargo deny --locked check bans licenses sources
    check_advisories
}

# Known vulnerabilities are looked up in a database that is a git repository. If it cannot be fetched, the
# script prints this, but does not fail: all other checks were made.
check_advisories() {
    local fetch_log
    fetch_log=$(mktemp)
    if timeout 120 cargo deny --locked fetch db >"$fetch_log" 2>&1 </dev/null; then
        rm -f "$fetch_log"
        cargo deny --locked check --disable-fetch advisories
    else
        sed 's/^/    /' "$fetch_log" | tail -n 6
        rm -f "$fetch_log"
        echo "lint: ADVISORIES NOT CHECKED: the advisory database cannot be fetched (see above)"
    fi
}

main
