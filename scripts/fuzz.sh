#!/usr/bin/env bash
# Runs every fuzz target for some time, one after another. A finding ends the run, and the command that
# reproduces it is printed.
#
#   scripts/fuzz.sh                     runs every target, 30 seconds each
#   SECONDS_EACH=600 scripts/fuzz.sh    runs each target longer
#   scripts/fuzz.sh http range          runs one target of one crate; without a target, all of the crate
#   scripts/fuzz.sh --save              also writes the inputs that reach the most code to fuzz/seeds
#
# Each run starts from the saved inputs (crates/CRATE/fuzz/seeds/TARGET, one on a line), which
# `cargo test -p touchstone-fuzz-replay` replays.
#
# fuzz/Cargo.toml names all targets. Fuzzing needs a nightly toolchain and cargo-fuzz. If either is missing,
# the targets are only compiled, and the last line names the missing packages.
#
# Exit codes: 0 no fault was found, 1 a target does not compile or found a fault.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

seconds_each=${SECONDS_EACH:-30}

main() {
    local save=no path crate name found=no
    case ${1:-} in
        --save) save=yes; shift ;;
    esac
    if ! can_fuzz; then
        # `make test` compiles them too, with the stable compiler.
        cargo check --quiet --manifest-path fuzz/Cargo.toml --target-dir "$target/fuzz-check"
        echo "SKIPPED: fuzzing" \
            "(install cargo-fuzz: cargo install cargo-fuzz; rustup toolchain install nightly)"
        return
    fi
    for path in crates/*/fuzz/fuzz_targets/*.rs; do
        crate=${path#crates/} crate=${crate%%/*} name=$(basename "$path" .rs)
        [ -z "${1:-}" ] || [ "$1" = "$crate" ] || continue
        [ -z "${2:-}" ] || [ "$2" = "$name" ] || continue
        found=yes
        unpack "$crate" "$name"
        run "$crate" "$name"
        [ $save = no ] || save "$crate" "$name"
    done
    if [ $found = no ]; then
        echo "fuzz: unknown target" >&2
        exit 1
    fi
}

can_fuzz() {
    cargo +nightly fuzz --version >/dev/null 2>&1
}

# Copies the saved inputs to the fuzzer's corpus.
unpack() {
    mkdir -p "fuzz/corpus/$1-$2"
    python3 - "crates/$1/fuzz/seeds/$2" "fuzz/corpus/$1-$2" <<'END'
import hashlib, pathlib, re, sys
seeds, corpus = map(pathlib.Path, sys.argv[1:])
known = {"n": "\n", "r": "\r", "t": "\t"}
one = lambda found: chr(int(found[2], 16)) if found[2] else known.get(found[1], found[1])
for line in seeds.read_text().splitlines() if seeds.exists() else []:
    data = re.sub(r"\\(x(..)|.)", one, line).encode("latin-1")
    (corpus / hashlib.sha1(data).hexdigest()).write_bytes(data)
END
}

# Writes the smallest inputs that together reach all the code that the corpus reaches: at most 200, of 2,000
# bytes each.
save() {
    cargo +nightly fuzz cmin --fuzz-dir fuzz --target-dir "$target/fuzz" "$1-$2" >/dev/null 2>&1
    python3 - "fuzz/corpus/$1-$2" "crates/$1/fuzz/seeds/$2" <<'END'
import pathlib, sys
corpus, seeds = map(pathlib.Path, sys.argv[1:])
inputs = sorted((p.read_bytes() for p in corpus.iterdir()), key=lambda data: (len(data), data))
known = seeds.read_text().splitlines() if seeds.exists() else []
escape = lambda data: repr(data)[2:-1]
kept = [escape(data) for data in inputs if len(data) <= 2000]
step = max(1, -(-len(kept) // 200))
seeds.parent.mkdir(exist_ok=True)
seeds.write_text("".join(line + "\n" for line in dict.fromkeys(known + kept[::step])))
print(f"fuzz: {seeds}: {len(kept[::step])} of {len(inputs)} inputs saved")
END
}

run() {
    local crate=$1 name=$2 dictionary options=()
    for dictionary in "crates/$crate/fuzz"/*.dict; do
        [ ! -f "$dictionary" ] || options+=("-dict=$dictionary")
    done
    echo "fuzz: $crate $name, $seconds_each seconds"
    cargo +nightly fuzz run --fuzz-dir fuzz --target-dir "$target/fuzz" "$crate-$name" -- \
        -max_total_time="$seconds_each" -print_final_stats=1 "${options[@]}" 2>&1 |
        grep --line-buffered -vE '^#|NEW|REDUCE|pulse|^INFO: '
}

main "$@"
