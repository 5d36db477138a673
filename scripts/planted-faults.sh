#!/usr/bin/env bash
# Shows that the simulator finds faults: applies each of crates/simulation/faults/*.patch to a copy of the
# sources, and searches for the fault with up to 1,000 seeds of its part. The name of a patch begins with the
# part.
#
#   scripts/planted-faults.sh                   all of them
#   scripts/planted-faults.sh disk-             those whose names begin with "disk-"
#   BLESS=1 scripts/planted-faults.sh           all, and writes the table of docs/contributing/simulation.md
#
# Exit codes: 0 every fault was found, 1 a fault was not found.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

patches=("$top"/crates/simulation/faults/"${1:-}"*.patch)
if [ ! -e "${patches[0]}" ]; then
    echo "planted-faults: no patch in crates/simulation/faults begins with ${1:-}" >&2
    exit 1
fi

# Always the same directory, so that the build is used again.
copy=$(realpath -m "$target")/planted-faults
export CARGO_TARGET_DIR
CARGO_TARGET_DIR=$(realpath -m "$target")
rm -rf "$copy"
mkdir -p "$copy"
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | tar -c --null --files-from=- | tar -x -C "$copy"
# Cargo compares times: an earlier call may have built these files with a fault.
sed -n 's/^+++ b\/\([^ \t]*\).*/\1/p' "$top"/crates/simulation/faults/*.patch | (cd "$copy" && xargs touch)

missed=0
rows=()
left=("${patches[@]}")
# Each build has at most one fault of each part, and a run of a part calls the code of that part alone.
while [ "${#left[@]}" -gt 0 ]; do
    declare -A now=()
    later=()
    for patch in "${left[@]}"; do
        part=$(basename "$patch")
        part=${part%%-*}
        if [ -z "${now[$part]:-}" ]; then
            now[$part]=$patch
            patch -s -d "$copy" -p1 <"$patch"
        else
            later+=("$patch")
        fi
    done
    # The same features as in `make test`, so that most crates are built already.
    built=$(cd "$copy" && cargo build --quiet --locked --workspace --features touchstone/wasm \
        --bin touchstone-simulate 2>&1) || { echo "$built" >&2; exit 1; }
    for part in "${!now[@]}"; do
        name=$(basename "${now[$part]}" .patch)
        said=$("$CARGO_TARGET_DIR"/debug/touchstone-simulate --part "$part" --seed 1 --seeds 1000 \
            --most-faults 1) || true
        patch -s -R -d "$copy" -p1 <"${now[$part]}"
        found=$(sed -n 's/^[a-z0-9]* seed \([0-9]*\): \(.*\)/\1 | \2/p' <<<"$said" | head -n 1)
        if [ -n "$found" ]; then
            row="| $name | ${found/ (crates*/} |"
            echo "$row"
            rows+=("$row")
        else
            printf '%s: NOT FOUND\n%s\n' "$name" "$said"
            missed=1
        fi
    done
    unset now
    left=("${later[@]}")
done

if [ -n "${BLESS:-}" ] && [ -z "${1:-}" ] && [ "$missed" = 0 ]; then
    page=$top/docs/contributing/simulation.md
    {
        sed '/<!-- faults:start -->/q' "$page"
        printf '\n| fault | seed | message |\n|---|---|---|\n'
        printf '%s\n' "${rows[@]}" | sort
        printf '\n'
        sed -n '/<!-- faults:end -->/,$p' "$page"
    } >"$copy/page"
    cp "$copy/page" "$page"
fi
exit $missed
