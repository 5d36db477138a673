#!/usr/bin/env bash
# Moves line tables and symbols of a program into a file beside it, PROGRAM.debug, which it names.
#
#   scripts/split-debug.sh PROGRAM
#
# Backtraces and debuggers find them beside the program, in .debug/ there, or below /usr/lib/debug (section
# .gnu_debuglink). A program that was split before is not changed.
set -euo pipefail

program=${1:?the program}
if objdump --section-headers "$program" | grep -q '\.gnu_debuglink'; then
    exit 0
fi
objcopy --only-keep-debug --compress-debug-sections=zlib "$program" "$program.debug"
chmod 644 "$program.debug"
# A new file, because cargo has a hard link to the old one, and a running program cannot be written.
trap 'rm -f "$program.split"' EXIT
objcopy --strip-all --add-gnu-debuglink="$program.debug" "$program" "$program.split"
mv -f "$program.split" "$program"
