#!/usr/bin/env bash
# Builds `nearlight` from nothing and writes what took how long into docs/contributing.md, between its markers. Takes some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cargo build --quiet --release --package nearlight-cli --package nearlight-hook --timings --target-dir "$folder"
processor=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
python3 - "$folder/cargo-timings/cargo-timing.html" docs/contributing.md "$(nproc) cores, $processor" "$(rustc --version | cut -d' ' -f2)" <<'PYTHON'
import json, re, sys

page, document, machine, compiler = sys.argv[1:]
text = open(page).read()
units = json.loads(re.search(r"const UNIT_DATA = (\[.*?\]);\n", text, re.S).group(1))
total = sum(unit["duration"] for unit in units)
wall = max(unit["start"] + unit["duration"] for unit in units)
own = sum(unit["duration"] for unit in units if unit["name"].startswith("nearlight"))
by_name = {}
for unit in units:
    by_name[unit["name"]] = by_name.get(unit["name"], 0) + unit["duration"]
longest = sorted(by_name.items(), key=lambda pair: -pair[1])[:16]
lines = [
    f"{len(units)} units take {total:.0f} s together, {own:.0f} of them in our own crates, and {wall:.0f} s on the clock"
    f" ({machine}, Rust {compiler}).",
    "",
    "| crate | seconds |",
    "|---|---|",
    *(f"| {name} | {seconds:.0f} |" for name, seconds in longest),
]
begin, end = "<!-- build-times: begin -->\n", "<!-- build-times: end -->"
old = open(document).read()
head, rest = old.split(begin)
_, tail = rest.split(end)
open(document, "w").write(head + begin + "\n".join(lines) + "\n" + end + tail)
print("\n".join(lines))
PYTHON
