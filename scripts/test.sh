#!/usr/bin/env bash
# Runs every test, shows the output immediately, and ends with the output of the failed ones and the sum on
# its own line:
#
#   ==== NAME (tests/php.rs)
#   ...
#   N passed, N failed, N skipped
#
#   scripts/test.sh                               the whole workspace, documentation examples included
#   scripts/test.sh -p touchstone-http ranges     the tests that `cargo test` runs with these arguments
#
# Skipped tests are those marked #[ignore], and those that print a line that begins with "SKIPPED: " because a
# tool is missing. Such a line fails the run if CI=true.
#
# Exit codes: 0 all passed, 1 a test failed or did not compile, or none was run.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

# Many tests wait for most of their time: for a timeout, a JVM, another program.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) + 2))}

passed=0 failed=0 ignored=0 skipped=0

# For each failed test: its name, and the beginning and the end of its output, without the backtrace.
failures=()
declare -A said=()
most_first=12 most_last=28

main() {
    if [ "$#" = 0 ]; then
        # With the features of packages.
        set -- --workspace --features touchstone/wasm
    fi
    # --show-output makes the harness print the output of passing tests, which contains the SKIPPED lines.
    case " $* " in *" -- "*) set -- "$@" --show-output ;; *) set -- "$@" -- --show-output ;; esac
    [ ! -t 1 ] || export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-always}

    # The output is written to a file, not a pipe: programs that tests start inherit it, and if one makes a
    # pipe non-blocking (node does), the harness, or cargo, fails to print when the reader is slow.
    local status=0 output
    output=$(mktemp)
    # A process group of its own, so that an interrupt ends cargo and the tests too.
    set -m
    cargo test --no-fail-fast "$@" >"$output" 2>&1 </dev/null &
    local cargo=$!
    set +m
    # If the group has no process, kill fails; with `set -e` that would be the exit code.
    # shellcheck disable=SC2064 # the values of now
    trap "kill -- -$cargo 2>/dev/null || true; rm -f '$output'" EXIT
    read_output < <(tail -n +1 -f -s 0.2 --pid="$cargo" "$output")
    wait "$cargo" || status=$?
    show_failures

    if [ "$status" != 0 ] && [ "$failed" = 0 ]; then
        echo "test: cargo test failed (exit $status) before or beside the tests" >&2
        failed=1
    elif [ $((passed + failed)) = 0 ]; then
        echo "test: no test was run" >&2
        status=1
    fi
    if [ "$skipped" != 0 ]; then
        echo "test: $skipped skipped because a tool is missing" \
            "(see the SKIPPED lines; make setup installs it)" >&2
        [ "${CI:-}" != true ] || status=1
    fi
    echo "$((passed - skipped)) passed, $failed failed, $((ignored + skipped)) skipped"
    [ "$status" = 0 ] && [ "$failed" = 0 ]
}

# Copies the output of the harness and adds up the results. Of the output of passing tests ("successes:" up to
# the result line) only SKIPPED lines are printed. Each test counts once, with any number of such lines. The
# output of failed tests ("failures:", up to "failures:" with their names) is stored for the end.
read_output() {
    local line inside=no test='' counted='' file='' block=()
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
            "     Running "*) file=${line#*Running } file=${file% (*} ;;
            "   Doc-tests "*) file="documentation of ${line#*Doc-tests }" ;;
            "successes:") inside=yes ;;
            "failures:")
                if [ $inside = failures ]; then keep_block; inside=names; else inside=failures test=''; fi ;;
            "test result: "*) keep_block; inside=no; add_result "$line" ;;
            "---- "*" stdout ----")
                keep_block
                test=$line ;;
            *"process didn't exit successfully: "*)
                # The harness was killed or has exited: the test has no block of output.
                failures+=("$file") said[$file]=$line ;;
            "error: test failed, to rerun pass "* | "error: could not "*)
                # A line of cargo, also if the process of a test ended within the output of its passing tests.
                [ $inside != yes ] || inside=no ;;
            *"SKIPPED: "*)
                [ $inside != yes ] || printf '%s\n' "SKIPPED: ${line#*SKIPPED: }"
                # Outside the block of a passing test the name of the test is not known: each line is one
                # test.
                if [ $inside != yes ] || [ "$counted" != "$test" ]; then
                    skipped=$((skipped + 1))
                    counted=$test
                fi ;;
        esac
        [ $inside != failures ] || block+=("$line")
        [ $inside = yes ] || printf '%s\n' "$line"
    done
}

# Stores the block of the failed test that was just read, if there is one (variables of read_output).
keep_block() {
    local name=${test#---- } text count
    name="${name% stdout ----} ($file)"
    if [ $inside = failures ] && [ -n "$test" ]; then
        text=$(printf '%s\n' "${block[@]}" |
            sed -e '/^---- /d' -e '/^$/d' -e '/^stack backtrace:$/,/^note: Some details/d')
        count=$(wc -l <<<"$text")
        if [ "$count" -gt $((most_first + most_last)) ]; then
            text=$(
                head -n $most_first <<<"$text"
                echo "[... $((count - most_first - most_last)) lines ...]"
                tail -n $most_last <<<"$text"
            )
        fi
        failures+=("$name") said[$name]=$text
    fi
    test='' block=()
}

show_failures() {
    local name
    for name in "${failures[@]}"; do
        printf '\n==== %s\n%s\n' "$name" "${said[$name]}"
    done
    [ ${#failures[@]} = 0 ] || echo
}

# add_result "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s"
add_result() {
    if [[ $1 =~ ([0-9]+)\ passed\;\ ([0-9]+)\ failed\;\ ([0-9]+)\ ignored ]]; then
        passed=$((passed + BASH_REMATCH[1]))
        failed=$((failed + BASH_REMATCH[2]))
        ignored=$((ignored + BASH_REMATCH[3]))
    fi
}

main "$@"
