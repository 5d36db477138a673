#!/usr/bin/env bash
# cargo starts each test program by this script when scripts/test.sh runs several at once: it waits until
# fewer than TEST_PROGRAMS_AT_ONCE run, starts the program in the background, and returns.
#
# In TEST_PROGRAMS_DIRECTORY the program of number N has N.started, N.output, and at its end N.code, a line in
# `output`, which scripts/test.sh reads, and N.ended.
set -euo pipefail

directory=$TEST_PROGRAMS_DIRECTORY at_once=$TEST_PROGRAMS_AT_ONCE
# What a test starts by cargo is no test program.
unset "${!CARGO_TARGET_@}" TEST_PROGRAMS_DIRECTORY TEST_PROGRAMS_AT_ONCE

# The examples of documentation, which rustdoc waits for, are in other directories.
case $1 in */deps/*) ;; *) exec "$@" ;; esac

# How many files of a kind there are.
count() {
    find "$directory" -maxdepth 1 -name "*.$1" | wc -l
}

# cargo starts one after the other.
number=$(count started)
until [ $((number - $(count ended))) -lt "$at_once" ]; do sleep 0.2; done
: >"$directory/$number.started"
{
    code=0
    "$@" >"$directory/$number.output" 2>&1 </dev/null || code=$?
    echo "$code" >"$directory/$number.code"
    echo "test program $number has ended: $1" >>"$directory/output"
    : >"$directory/$number.ended"
} >/dev/null 2>&1 &
