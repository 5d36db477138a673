#!/usr/bin/env bash
# Runs the tests of the crates that have `unsafe` code under AddressSanitizer and ThreadSanitizer.
#
#   scripts/sanitize.sh                    both
#   scripts/sanitize.sh address nsapi      one sanitizer; with names, only these crates
#
# This needs a nightly toolchain (rustup toolchain install nightly). Without the component rust-src the
# standard library is not instrumented: ThreadSanitizer then checks fewer accesses, and scripts/tsan.supp
# lists the accesses that it cannot check.
#
# Exit codes: 0 no fault was found, 1 a test failed or a sanitizer reported a fault, 2 the nightly toolchain
# is missing.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

host=x86_64-unknown-linux-gnu
crates_with_unsafe="files interfaces nsapi servlet server load"

main() {
    if ! rustc +nightly --version >/dev/null 2>&1; then
        echo "SKIPPED: sanitizers (rustup toolchain install nightly)"
        exit 2
    fi
    local sanitizers="address thread"
    case ${1:-} in
        address | thread) sanitizers=$1; shift ;;
    esac
    local crates=${*:-$crates_with_unsafe} sanitizer failed=no
    for sanitizer in $sanitizers; do
        run "$sanitizer" "$crates" || failed=yes
    done
    [ $failed = no ]
}

# run "address" "files nsapi"
run() {
    local sanitizer=$1 crate packages=()
    for crate in $2; do packages+=(-p "touchstone-$crate"); done
    echo "sanitize: $sanitizer: $2"
    # The skipped test frees memory of malloc through NSAPI, which reads the 16 bytes before it: with glibc
    # these are the header of the piece, and AddressSanitizer puts a red zone there. Memory that plug-ins and
    # the C library keep until the process ends is not a fault.
    RUSTFLAGS="-Zsanitizer=$sanitizer -Cunsafe-allow-abi-mismatch=sanitizer" \
        ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1 \
        TSAN_OPTIONS="suppressions=$top/scripts/tsan.supp" \
        CARGO_TARGET_DIR="$target/sanitize-$sanitizer" \
        cargo +nightly test --locked --lib --no-fail-fast --target $host "${packages[@]}" -- \
        --skip free_and_realloc_know_where_a_piece_is_from
}

main "$@"
