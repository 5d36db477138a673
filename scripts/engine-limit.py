#!/usr/bin/env python3
"""Measures how often the laboratory wrongly reports that the load engine, not the server, limited a rate.

    scripts/engine-limit.py --binary target/release/touchstone [--rounds 6] [--length 900ms]

A faster and a slower server are tested with the same engine: nginx, and an nginx whose sendfile() uses so
much more processor time that a request costs a quarter more. If the rate of the slower one is lower by more
than half of the difference that its processor time explains, the server limited the rate, otherwise the load
engine. This is compared with the statement of the result of the faster one (a load with `tainted_runs`), with
8, 32 and 64 clients: on an idle machine, beside programs that share the processor of the load engine, and
beside one that shares that of the server.

Exit codes: 0 measured, 1 a run failed, 3 a requirement is missing (nginx, cc, two processors).
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from common import TOP, missing
from slower_nginx import definition, library

SUITE = "webbench-1.1-static"
DEARER = 0.25
# Enough clients to use all processor time of the server.
CLIENTS = "8,32,64"


def bench(binary, systems, rounds, length, output):
    command = [binary, "bench", SUITE, "--quick", "--runs", str(rounds), "--clients", CLIENTS]
    command += ["--length", length, "--ramp-up", "100ms", "--ramp-down", "50ms", "--no-report"]
    command += ["--sut-cores", "0", "--load-cores", "1"]
    command += ["--sut", ",".join(systems), "--output", str(output), "--progress", "plain"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if not (output / "result.json").exists():
        print(ended.stderr, file=sys.stderr)
        sys.exit(1)
    return json.loads((output / "result.json").read_text())


def mixes(result, name):
    """The runs of each number of clients."""
    found = {}
    for mix in next(system["mixes"] for system in result["systems"] if system["name"] == name):
        found.setdefault(mix["clients"], []).append(mix)
    return found


def says_engine(mix):
    """The statement of the result about a run, by the criterion of crates/lab/src/saturation.rs."""
    own = next(cpu for cpu in mix["machine"]["cpus"] if cpu["cpu"] == 0)
    full = mix["server"]["cpu_share"] + own["softirq"] >= 0.95 or own["idle"] <= 0.05
    used = mix["load"]["busiest_thread"] + mix["load"]["longest_waiting_thread"]
    return mix["generator_saturated"] is not None and used >= 0.7 and not full


def trials(result):
    """For each pair of runs: the statement, and whether the engine was the limit."""
    faster, slower = mixes(result, "faster"), mixes(result, "slower")
    for clients, runs in faster.items():
        others = slower[clients]
        cost = statistics.median(mix["server"]["cpu_us_per_request"] for mix in runs)
        dearer = statistics.median(mix["server"]["cpu_us_per_request"] for mix in others)
        rate = statistics.median(mix["requests_per_second"] for mix in runs)
        lower = statistics.median(mix["requests_per_second"] for mix in others)
        explained = (dearer - cost) / dearer
        decided = 1 - lower / rate < 0.5 * explained
        for mix in runs:
            yield clients, says_engine(mix), decided, 1 - lower / rate, explained


def main():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--binary", default=str(TOP / "target/release/touchstone"))
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--length", default="900ms", help="of each mix, ramps included")
    options = parser.parse_args()
    for program, package in (("nginx", "nginx"), ("cc", "gcc")):
        if shutil.which(program) is None:
            missing(f"there is no {program}: install {package}")
    if (os.cpu_count() or 1) < 2:
        missing("two processors are needed, one of them for the load engine")
    # The processor that other programs share, and their number.
    cases = {"alone": ("1", 0), "four programs beside the load engine": ("1", 4), "one beside the server": ("0", 1)}
    with tempfile.TemporaryDirectory() as directory:
        scratch = pathlib.Path(directory)
        preload = library(scratch)
        base = definition(scratch, "faster", preload)
        first = bench(options.binary, [base], 1, options.length, scratch / "first")
        cost = statistics.median(runs[0]["server"]["cpu_us_per_request"] for runs in mixes(first, "faster").values())
        slower = definition(scratch, "slower", preload | {"SPEND_NANOSECONDS": str(round(cost * DEARER * 1000))})
        sums = {}
        print("case, clients: the statement of the result in each run (E: the engine), the result of the slower server")
        for case, (processor, number) in cases.items():
            command = ["taskset", "-c", processor, sys.executable, "-c", "while True: pass"]
            others = [subprocess.Popen(command) for _ in range(number)]
            output = scratch / f"{processor}-{number}"
            try:
                result = bench(options.binary, [base, slower], options.rounds, options.length, output)
            finally:
                for other in others:
                    other.kill()
                    other.wait()
            told = {}
            for clients, says, decided, fell, explained in trials(result):
                key = (says, decided)
                sums[key] = sums.get(key, 0) + 1
                who = "the engine" if decided else "the server"
                shows = f"{who} decided (rate {-fell:+.1%}, its processor time explains {-explained:+.1%})"
                told.setdefault((clients, shows), []).append("E" if says else "s")
            for (clients, shows), said in told.items():
                print(f"{case}, {clients}: {''.join(said)}, {shows}")
        says = sum(number for (said, _), number in sums.items() if said)
        print(f"attributed to the engine: {says} runs, of these wrong: {sums.get((True, False), 0)}")
        rest = sum(sums.values()) - says
        print(f"not attributed: {rest} runs, of these the engine was the limit: {sums.get((False, True), 0)}")


if __name__ == "__main__":
    main()
