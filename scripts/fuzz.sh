#!/usr/bin/env bash
# Runs every fuzz target for a while, one after the other. A finding ends the run and prints how to reproduce
# it.
#
#   scripts/fuzz.sh                     runs every target, 30 seconds each
#   SECONDS_EACH=600 scripts/fuzz.sh    runs each target longer
#   scripts/fuzz.sh lab import          runs one target of one crate; without a target, all of the crate
#   scripts/fuzz.sh --save              also writes the inputs that reach the most code to fuzz/seeds
#   scripts/fuzz.sh --check             only compiles all targets
#
# Each run starts from the saved inputs (crates/CRATE/fuzz/seeds/TARGET, one on a line), which
# `cargo test -p touchstone-fuzz-replay` replays.
#
# Fuzzing needs a nightly toolchain and cargo-fuzz. If either is missing, the targets are only compiled, so
# that they keep up with the code that they call, and the last line names what to install.
#
# Exit codes: 0 nothing was found, 1 a target does not compile or found something.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

seconds_each=${SECONDS_EACH:-30}

main() {
    local only_check=no save=no directory crate name found=no
    case ${1:-} in
        --check) only_check=yes; shift ;;
        --save) save=yes; shift ;;
    esac
    local wanted_crate=${1:-} wanted_target=${2:-}
    for directory in crates/*/fuzz; do
        crate=${directory#crates/} crate=${crate%/fuzz}
        [ -z "$wanted_crate" ] || [ "$wanted_crate" = "$crate" ] || continue
        if [ $only_check = yes ] || ! can_fuzz; then
            found=yes
            if ! cargo fetch --quiet --manifest-path "$directory/Cargo.toml"; then
                echo "SKIPPED: the fuzz targets of $crate (the crates that they need cannot be fetched)"
                continue
            fi
            echo "fuzz: compiling the targets of $crate"
            cargo check --quiet --manifest-path "$directory/Cargo.toml" --target-dir "$target/fuzz-check"
            continue
        fi
        for name in $(targets "$directory"); do
            [ -z "$wanted_target" ] || [ "$wanted_target" = "$name" ] || continue
            found=yes
            unpack "$directory" "$name"
            run "$crate" "$directory" "$name"
            [ $save = no ] || save "$directory" "$name"
        done
    done
    if [ $found = no ]; then
        echo "fuzz: there is no such target" >&2
        exit 1
    fi
    [ $only_check = yes ] || can_fuzz ||
        echo "SKIPPED: fuzzing" \
            "(install cargo-fuzz: cargo install cargo-fuzz; rustup toolchain install nightly)"
}

can_fuzz() {
    cargo +nightly fuzz --version >/dev/null 2>&1
}

# Prints the names of a directory's targets.
targets() {
    sed -n '/^\[\[bin\]\]/,/^$/s/^name *= *"\(.*\)"/\1/p' "$1/Cargo.toml"
}

# Copies the saved inputs to the fuzzer's corpus.
unpack() {
    mkdir -p "$1/corpus/$2"
    python3 - "$1/seeds/$2" "$1/corpus/$2" <<'END'
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
    cargo +nightly fuzz cmin --fuzz-dir "$1" --target-dir "$target/fuzz" "$2" >/dev/null 2>&1
    python3 - "$1/corpus/$2" "$1/seeds/$2" <<'END'
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
    local crate=$1 directory=$2 name=$3 dictionary options=()
    for dictionary in "$directory"/*.dict; do
        [ ! -f "$dictionary" ] || options+=("-dict=$dictionary")
    done
    echo "fuzz: $crate $name, $seconds_each seconds"
    cargo +nightly fuzz run --fuzz-dir "$directory" --target-dir "$target/fuzz" "$name" -- \
        -max_total_time="$seconds_each" -print_final_stats=1 "${options[@]}" 2>&1 |
        grep --line-buffered -vE '^#|NEW|REDUCE|pulse|^INFO: '
}

main "$@"
