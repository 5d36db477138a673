#!/usr/bin/env bash
# Runs every test, shows the output, and ends with the output of the failed ones and the sum on its own line:
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
# One test program runs after the other, and the output is shown immediately. With TEST_PROGRAMS=2 two run at
# once, which pays on a machine with idle processors; the output of each is shown when it has ended.
# RUST_TEST_THREADS is the number of tests at once in each.
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
    at_once=${TEST_PROGRAMS:-1}
    if [ "$#" = 0 ]; then
        # With the features of packages.
        set -- --workspace --features touchstone/wasm
    fi
    # --show-output makes the harness print the output of passing tests, which contains the SKIPPED lines.
    case " $* " in *" -- "*) set -- "$@" --show-output ;; *) set -- "$@" -- --show-output ;; esac
    [ ! -t 1 ] || export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-always}

    # The output is written to a file, not a pipe: programs that tests start inherit it, and if one makes a
    # pipe non-blocking (node does), the harness, or cargo, fails to print when the reader is slow.
    local status=0
    directory=$(mktemp -d)
    : >"$directory/output"
    # A process group of its own, so that an interrupt ends cargo and the tests too.
    set -m
    run_tests "$@" >>"$directory/output" 2>&1 </dev/null &
    local running=$!
    set +m
    # If the group has no process, kill fails; with `set -e` that would be the exit code.
    # shellcheck disable=SC2064 # the values of now
    trap "kill -- -$running 2>/dev/null || true; rm -rf '$directory'" EXIT
    read_output < <(tail -n +1 -f -s 0.2 --pid="$running" "$directory/output")
    wait "$running" || status=$?
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

# Runs cargo test. If several programs may run at once, cargo starts each by scripts/test-program.sh, which
# returns while the program runs.
run_tests() {
    local host status=0 started
    if [ "$at_once" -gt 1 ]; then
        host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
        export "CARGO_TARGET_${host}_RUNNER=$top/scripts/test-program.sh"
        export TEST_PROGRAMS_AT_ONCE=$at_once TEST_PROGRAMS_DIRECTORY=$directory
    fi
    cargo test --no-fail-fast "$@" || status=$?
    for started in "$directory"/*.started; do
        [ -e "$started" ] || continue
        until [ -e "${started%.started}.ended" ]; do sleep 0.2; done
        [ "$(<"${started%.started}.code")" = 0 ] || status=101
    done
    return "$status"
}

# Reads the output of cargo, and that of a program that runs beside others when it has ended.
read_output() {
    local line inside=no test='' counted='' file='' block=()
    local running='Running[^ ]* (.+) \((.+)\)$' ended='^test program ([0-9]+) has ended: (.+)$'
    declare -A name_of=()
    while IFS= read -r line || [ -n "$line" ]; do
        if [[ $line =~ $ended ]]; then
            read_program "${BASH_REMATCH[@]:1}"
        else
            [[ ! $line =~ $running ]] || name_of[${BASH_REMATCH[2]##*/}]=${BASH_REMATCH[1]}
            read_line
        fi
    done
}

# read_program NUMBER PROGRAM
read_program() {
    local line inside=no test='' counted='' file='' block=()
    line="     Running ${name_of[${2##*/}]-} ($2)"
    read_line
    while IFS= read -r line || [ -n "$line" ]; do
        read_line
    done <"$directory/$1.output"
    line="error: process didn't exit successfully: \`$2\` (exit code $(<"$directory/$1.code"))"
    case $line in *"code 0)" | *"code 101)") ;; *) read_line ;; esac
}

# Copies a line of output, and adds up the results (with the variables of its caller). Of the output of
# passing tests ("successes:" up to the result line) only SKIPPED lines are printed. Each test counts once,
# with any number of such lines. The output of failed tests ("failures:", up to "failures:" with their names)
# is stored for the end.
read_line() {
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
}

# Stores the block of the failed test that was just read, if there is one (variables of its caller).
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
