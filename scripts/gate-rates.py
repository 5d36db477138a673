#!/usr/bin/env python3
"""Measures how often the gate of `touchstone compare --against` is wrong, with the noise of this machine.

    scripts/gate-rates.py --binary target/release/touchstone [--runs 100] [--comparisons 200] [--length 400ms]

nginx, the same nginx again, and a third nginx whose sendfile() uses so much more processor time that a
request costs 3 % more, run three mixes in each run, all three at the same time and restarted before each run
(bench --at-once --restart). A comparison uses five random runs and `touchstone compare --against`: for the
same nginx "worse" is a false alarm, for the third one "no change" is a missed change. It prints both rates,
and the change that all runs together show.

Exit codes: 0 measured, 1 a run failed, 3 a requirement is missing (nginx, cc).
"""

import argparse
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

from common import TOP, missing
from slower_nginx import definition, library

SUITE = "webbench-1.1-static"
CHANGE = 0.03
IN_A_COMPARISON = 5

def bench(binary, systems, runs, length, output):
    command = [binary, "bench", SUITE, "--quick", "--runs", str(runs), "--clients", "4,16,64"]
    command += ["--at-once", "--restart"] if len(systems) > 1 else []
    command += ["--length", length, "--ramp-up", "50ms", "--ramp-down", "50ms", "--no-report"]
    command += ["--sut", ",".join(systems), "--output", str(output), "--progress", "plain"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if not (output / "result.json").exists():
        print(ended.stderr, file=sys.stderr)
        sys.exit(1)
    return json.loads((output / "result.json").read_text())


def costs(result, name):
    """Processor time of a request by run and mix, microseconds."""
    mixes = next(system["mixes"] for system in result["systems"] if system["name"] == name)
    return {(mix["run"], mix["name"]): mix["server"]["cpu_us_per_request"] for mix in mixes}


def is_worse(binary, result, other, chosen, scratch):
    """The result of the gate for the selected runs of two systems."""
    part = dict(result)
    part["systems"] = []
    for system in result["systems"]:
        if system["name"] in ("base", other):
            of_chosen = [mix for mix in system["mixes"] if mix["run"] in chosen]
            mixes = [dict(mix, run=chosen.index(mix["run"]) + 1) for mix in of_chosen]
            for mix in mixes:
                mix["client_rows"], mix["timeline"] = [], []
            part["systems"].append(dict(system, mixes=mixes, loads=[], peaks=[]))
    part.update(comparisons=[], speedups=[], spice=[])
    part["method"] = dict(part["method"], runs=len(chosen))
    directory = scratch / "part"
    directory.mkdir(exist_ok=True)
    (directory / "result.json").write_text(json.dumps(part))
    ended = subprocess.run(
        [binary, "compare", str(directory), "--against", "base"], capture_output=True, text=True, check=False
    )
    if ended.returncode not in (0, 3):
        print(ended.stderr, file=sys.stderr)
        sys.exit(1)
    return ended.returncode == 3


def main():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--binary", default=str(TOP / "target/release/touchstone"))
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--comparisons", type=int, default=200)
    parser.add_argument("--length", default="400ms", help="of each mix, ramps of 100 ms included")
    options = parser.parse_args()
    for program, package in (("nginx", "nginx"), ("cc", "gcc")):
        if shutil.which(program) is None:
            missing(f"there is no {program}: install {package}")
    with tempfile.TemporaryDirectory() as directory:
        scratch = pathlib.Path(directory)
        preload = library(scratch)
        base, same = definition(scratch, "base", preload), definition(scratch, "same", preload)
        first = bench(options.binary, [base], 3, options.length, scratch / "first")
        cost = statistics.median(costs(first, "base").values())
        nanoseconds = round(cost * CHANGE * 1000)
        slower = definition(scratch, "slower", preload | {"SPEND_NANOSECONDS": str(nanoseconds)})
        result = bench(options.binary, [base, same, slower], options.runs, options.length, scratch / "result")
        of_base = costs(result, "base")
        print(f"{options.runs} runs of three mixes of {options.length}; a request costs {cost:.1f} us")
        generator = random.Random(1)
        for name, question in (("same", "false alarms"), ("slower", "missed changes")):
            theirs = costs(result, name)
            ratio = statistics.geometric_mean(theirs[key] / of_base[key] for key in of_base)
            noise = statistics.stdev(theirs[key] / of_base[key] for key in of_base)
            worse = 0
            for _ in range(options.comparisons):
                chosen = generator.sample(range(1, options.runs + 1), IN_A_COMPARISON)
                worse += is_worse(options.binary, result, name, chosen, scratch)
            wrong = worse if name == "same" else options.comparisons - worse
            print(
                f"{question}: {wrong} of {options.comparisons} ({100 * wrong / options.comparisons:.1f} %);"
                f" over all runs {100 * (ratio - 1):+.2f} %, noise of a mix {100 * noise:.1f} %"
            )


if __name__ == "__main__":
    main()
