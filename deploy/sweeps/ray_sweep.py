#!/usr/bin/env python3
"""Runs a plan of the lab on a Ray cluster and joins the results, as if one machine had made them.

    python3 deploy/sweeps/ray_sweep.py plans/vrcc-stable.toml --shards 64 -- --seeds 100
    python3 deploy/sweeps/ray_sweep.py PLAN --shards 64 --address ray://head:10001 --file traces

Everything after `--` is passed to `nearlight lab run`. The program and the plan are sent to the nodes, with the files and folders that
--file names; nothing needs to be installed there but Ray, and no file system is shared. A task is one shard in one thread. When a node is
lost, Ray starts its tasks again elsewhere. A finished shard is written here at once: after Ctrl-C, the same call continues with the rest.
"""

import argparse
import gzip
import io
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import ray

# A task is started again on another node as often as this before the sweep fails.
RETRIES = 10


@ray.remote(num_cpus=1, max_retries=RETRIES)
def run_shard(parcel, plan, shard, options):
    """One shard's results file, compressed. `parcel` is what `pack` has put together.

    It comes through Ray's object store and is unpacked for each shard. A working directory of Ray's `runtime_env` is removed when the node
    goes away, under tasks that still run there and, where nodes share a machine, under those of the others.
    """
    with tempfile.TemporaryDirectory(prefix="nearlight-shard-") as folder:
        inputs, results = pathlib.Path(folder, "inputs"), pathlib.Path(folder, "results")
        with tarfile.open(fileobj=io.BytesIO(parcel)) as archive:
            # Pythons before 3.11.4 have no filters. The archive is this script's own.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(inputs)
        command = ["./nearlight", "lab", "run", plan, "--shard", shard, "--threads", "1", "--out", results, *options]
        done = subprocess.run(command, cwd=inputs, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            # A plan that is wrong is wrong on every node: the text is the result, so that Ray does not try again.
            return shard, None, done.stderr.strip()
        return shard, gzip.compress((results / "runs.jsonl").read_bytes()), ""


def pack(program, plan, files):
    """An archive with everything that a task reads."""
    parcel = io.BytesIO()
    with tarfile.open(fileobj=parcel, mode="w", dereference=True) as archive:
        archive.add(program, "nearlight")
        archive.add(plan, plan.name)
        for file in files:
            if file.is_absolute() or ".." in file.parts:
                sys.exit(f"`{file}` is not below the working directory: name it relative to here, as the plan does")
            archive.add(file)
    return parcel.getvalue()


def arguments():
    mine, passed_on = sys.argv[1:], []
    if "--" in mine:
        at = mine.index("--")
        mine, passed_on = mine[:at], mine[at + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=pathlib.Path)
    parser.add_argument("--shards", type=int, required=True, help="number of tasks; several for each processor")
    parser.add_argument("--address", help="the cluster's address; one on this machine if not given")
    parser.add_argument("--program", type=pathlib.Path, default=pathlib.Path("target/release/nearlight-lab"))
    parser.add_argument("--file", type=pathlib.Path, action="append", default=[], help="a file or folder that the plan reads; repeatable")
    parser.add_argument("--out", type=pathlib.Path, help="folder for the joined results [default: results/PLAN]")
    chosen = parser.parse_args(mine)
    if chosen.shards < 1:
        parser.error("--shards is 1 or more")
    for needed in (chosen.plan, chosen.program):
        if not needed.is_file():
            parser.error(f"there is no file `{needed}`")
    # `nearlight` only hands over to the lab's command beside it, which the nodes would not have.
    if chosen.program.name == "nearlight" and chosen.program.with_name("nearlight-lab").is_file():
        chosen.program = chosen.program.with_name("nearlight-lab")
    chosen.options = passed_on
    return chosen


def sweep(chosen):
    out = chosen.out or pathlib.Path("results") / chosen.plan.stem
    # The options belong to the name: shards of other runs are not continued as shards of these.
    kept = pathlib.Path(f"{out}-shards-{chosen.shards}")
    kept.mkdir(parents=True, exist_ok=True)
    note = kept / "options"
    options = "\n".join([str(chosen.plan), str(chosen.program.stat().st_mtime_ns), *chosen.options])
    if note.exists() and note.read_text() != options:
        sys.exit(f"`{kept}` holds shards of other options, or of another build: remove it, or give another --out")
    note.write_text(options)
    folders = {f"{index}/{chosen.shards}": kept / str(index) for index in range(1, chosen.shards + 1)}
    left = [shard for shard, folder in folders.items() if not (folder / "runs.jsonl").exists()]
    parcel = pack(chosen.program, chosen.plan, chosen.file)
    try:
        ray.init(address=chosen.address, log_to_driver=False, logging_level="ERROR")
        parcel = ray.put(parcel)
        waiting = [run_shard.remote(parcel, chosen.plan.name, shard, chosen.options) for shard in left]
        done = len(folders) - len(left)
        while waiting:
            finished, waiting = ray.wait(waiting)
            for shard, results, error in ray.get(finished):
                if results is None:
                    sys.exit(f"shard {shard}: {error}")
                folder = folders[shard]
                folder.mkdir(exist_ok=True)
                partial = folder / "runs.jsonl.new"
                partial.write_bytes(gzip.decompress(results))
                os.replace(partial, folder / "runs.jsonl")
                done += 1
                print(f"{done} of {len(folders)} shards", file=sys.stderr, flush=True)
    finally:
        ray.shutdown()
    merge = [str(chosen.program), "lab", "merge", "--out", str(out), *map(str, folders.values())]
    return subprocess.run(merge, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(sweep(arguments()))
    except KeyboardInterrupt:
        sys.exit("interrupted; the same call continues with the missing shards")
