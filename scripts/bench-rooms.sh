#!/usr/bin/env bash
# Measures rooms with server and crowd on this machine: bench-rooms.sh [RUNS], 3 by default; about 12 minutes with 3. Prints medians of the runs beside
# the project's goals, and leaves each run's figures as JSON in OUT (a new folder by default). Nothing else should run meanwhile.
#
#   members    1,000 members in rooms of 20, 20 poses a second each; a naive broadcast of the same crowd after each run
#   crowd      300 members in one room; the same
#   fleet      100 members in rooms of 20 on one server, and on two that share the rooms through NATS, in turn
#   virtual    10,000 members for 60 s in virtual time, once
#
# PARTS="members fleet" chooses some of them.
set -euo pipefail
cd "$(dirname "$0")/.."
nearlight="$(realpath "${CARGO_TARGET_DIR:-target}")/release/nearlight"
runs=${1:-3} parts=${PARTS:-members crowd fleet virtual} out=${OUT:-$(mktemp -d)}
fail() { echo "bench-rooms: $*" >&2; exit 1; }
[ -x "$nearlight" ] || fail "build first: make build"
command -v python3 >/dev/null || fail "python3 is missing, which computes the medians"
mkdir -p "$out"
# A socket for each member, in the crowd and in the server.
ulimit -n 8192 2>/dev/null || fail "at most $(ulimit -n) open files are allowed, and 1,000 members need 8192: ulimit -n"

processes=()
stop() { for process in "${processes[@]}"; do kill "$process" 2>/dev/null && wait "$process" 2>/dev/null || true; done; processes=(); }
trap stop EXIT

# Starts a server; sets `server` and `link`.
serve() {
  local line
  line=$(mktemp)
  "$nearlight" serve --json --port 0 --size 320x240 --fps 20 --max-members 1100 --token a-token-for-measurements "$@" >"$line" 2>"$out/server.log" &
  server=$!
  processes+=("$server")
  while ! grep -q url "$line"; do sleep 0.1; kill -0 "$server" 2>/dev/null || fail "the server did not start: $out/server.log"; done
  link=$(sed -n 's/.*"url":"\([^"]*\)".*/\1/p' "$line")
  rm "$line"
}
# A name, then arguments. The room is none of the demonstration's world.
crowd() {
  local name=$1; shift
  printf 'bench-rooms: %s\n' "$name" >&2
  "$nearlight" swarm --json --room bench --profile "$out/profile.toml" "$@" >"$out/$name.json"
}

printf 'behaviours = ["walk"]\npose_hz = 20.0\nramp_seconds = 20.0\nactive_seconds = 20.0\nrest_seconds = 5.0\n' >"$out/profile.toml"
uptime >"$out/machine.txt"
nproc >>"$out/machine.txt"
"$nearlight" --version >>"$out/machine.txt"

for run in $(seq "$runs"); do
  case " $parts " in *" members "*)
    serve
    crowd "members-$run" "$link" --clients 1000 --rooms 50 --server-pid "$server" --baseline naive
    stop ;;
  esac
  case " $parts " in *" crowd "*)
    serve
    crowd "crowd-$run" "$link" --clients 300 --rooms 1 --server-pid "$server" --baseline naive
    stop ;;
  esac
  case " $parts " in *" fleet "*)
    serve
    crowd "alone-$run" "$link" --clients 100 --rooms 5
    stop
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    "$(scripts/go-program.sh nats-server)" -js -a 127.0.0.1 -p "$port" -sd "$out/nats-$run" >/dev/null 2>&1 &
    processes+=($!)
    sleep 1
    serve --nats "nats://127.0.0.1:$port"
    first=$link
    serve --nats "nats://127.0.0.1:$port"
    crowd "fleet-$run" "$first" "$link" --clients 100 --rooms 5
    stop ;;
  esac
done
case " $parts " in *" virtual "*)
  printf 'bench-rooms: virtual\n' >&2
  began=$(date +%s%N)
  "$nearlight" swarm --json --in-virtual-time --clients 10000 --seconds 57 >"$out/virtual.json"
  echo "$((($(date +%s%N) - began) / 1000000))" >"$out/virtual.ms" ;;
esac

python3 - "$out" <<'PYTHON'
import json, pathlib, statistics, sys

out = pathlib.Path(sys.argv[1])
missed = 0


def runs(name):
    return [json.loads(file.read_text()) for file in sorted(out.glob(f"{name}-*.json"))]


def field(figures, path):
    for name in path.split("."):
        figures = None if figures is None else figures.get(name)
    return figures


def line(what, value, unit, goal=None):
    global missed
    text = f"  {what}: " + ("none" if value is None else f"{value:,.1f} {unit}")
    if goal is not None:
        met = value is not None and value <= goal
        missed += not met
        text += f" (goal: at most {goal:,g} {unit}, {'met' if met else 'MISSED'})"
    print(text)


def medians(name, rows):
    all_runs = runs(name)
    for what, path, factor, unit, goal in rows if all_runs else []:
        values = [field(figures, path) for figures in all_runs]
        known = [value * factor for value in values if value is not None]
        line(what, statistics.median(known) if len(known) == len(values) else None, unit, goal)
    return all_runs


def rooms(title, name, cores):
    if not runs(name):
        return
    print(f"{title}, medians of {len(runs(name))}")
    medians(name, [
        ("interaction latency, median", "interaction_ms.p50", 1, "ms", None),
        ("interaction latency, 99 %", "interaction_ms.p99", 1, "ms", 50 if name == "members" else None),
        ("the server", "server_cores", 100, "% of a core", cores),
        ("the crowd's program", "swarm_cores", 100, "% of a core", None),
        ("bytes for each neighbour", "received_bytes_per_neighbour_per_second", 1 / 1024, "KiB/s", 2),
        ("naive broadcast: latency, median", "naive.interaction_ms.p50", 1, "ms", None),
        ("naive broadcast: latency, 99 %", "naive.interaction_ms.p99", 1, "ms", None),
        ("naive broadcast: its server", "naive.server_cores", 100, "% of a core", None),
        ("naive broadcast: bytes, times as many", "naive.bytes_ratio", 1, "", None),
        ("naive broadcast: messages dropped", "naive.dropped", 1, "", None),
    ])
    # Not medians: none may be lost in any run.
    line("members that could not join, all runs", sum(figures["members"] - figures["joined"] for figures in runs(name)), "", 0)
    line("lost events, all runs", sum(figures["lost_events"] for figures in runs(name)), "", 0)
    line("disagreeing members, all runs", sum(figures["disagreeing"] for figures in runs(name)), "", 0)


rooms("1,000 members in 50 rooms", "members", 60)
rooms("300 members in one room", "crowd", 100)
alone, fleet = runs("alone"), runs("fleet")
if fleet:
    print(f"100 members on one server and on two over NATS, medians of {len(fleet)}")
    one, two = ([field(figures, "interaction_ms.p50") for figures in each] for each in (alone, fleet))
    line("one server: latency, median", statistics.median(one), "ms")
    line("two servers: latency, median", statistics.median(two), "ms")
    line("two servers add", statistics.median(b - a for a, b in zip(one, two)), "ms", 5)
    line("two servers: lost events, all runs", sum(figures["lost_events"] for figures in fleet), "", 0)
    line("two servers: disagreeing members, all runs", sum(figures["disagreeing"] for figures in fleet), "", 0)
if (out / "virtual.ms").exists():
    figures = json.loads((out / "virtual.json").read_text())
    print(f"{figures['joined']:,} members, {figures['seconds']:.0f} s of virtual time")
    line("took", int((out / "virtual.ms").read_text()) / 1000, "s", 300)
    line("lost events", figures["lost_events"], "", 0)
    line("disagreeing members", figures["disagreeing"], "", 0)
print(f"Each run's figures are in {out}.")
sys.exit(1 if missed else 0)
PYTHON
