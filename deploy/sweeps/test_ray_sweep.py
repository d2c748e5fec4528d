"""A sweep on a Ray cluster of three nodes, of which one dies half way: the results are those of one call, byte by byte.

    python3 deploy/sweeps/test_ray_sweep.py          NEARLIGHT_BIN names the program
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from ray.cluster_utils import Cluster

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = pathlib.Path(os.environ.get("NEARLIGHT_BIN", HERE.parents[1] / "target/release/nearlight-lab")).resolve()
SHARDS = 12
PLAN = """
question = "Does a sweep over several nodes give the same bytes?"
seeds = 6
[all]
duration = "120s"
controllers = ["gcc-libwebrtc", "scream-v2"]
[[all.path]]
name = "home"
forward = "rate=20mbit,queue=50ms,delay=5ms,loss=1%"
feedback = "delay=5ms"
"""


class Sweep(unittest.TestCase):
    def test_a_node_that_dies_half_way_costs_no_result(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "small.toml").write_text(PLAN)
            whole = [PROGRAM, "lab", "run", "small.toml", "--out", "whole"]
            subprocess.run(whole, cwd=folder, check=True, capture_output=True)
            # The head runs no task, so that it is a worker that dies.
            cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
            dying = cluster.add_node(num_cpus=1)
            cluster.add_node(num_cpus=1)
            command = [sys.executable, HERE / "ray_sweep.py", "small.toml", "--shards", str(SHARDS)]
            command += ["--address", cluster.address, "--program", PROGRAM, "--out", "swept"]
            try:
                sweep = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                told = []
                for line in sweep.stderr:
                    told.append(line.strip())
                    if line.startswith(f"{SHARDS // 3} of "):
                        cluster.remove_node(dying, allow_graceful=False)
                self.assertEqual(sweep.wait(timeout=120), 0, "\n".join(told))
                self.assertEqual(told[-1], f"{SHARDS} of {SHARDS} shards")
                self.assertEqual(len(cluster.list_all_nodes()), 2)
            finally:
                cluster.shutdown()
            runs = [(folder / name / "runs.jsonl").read_bytes() for name in ("whole", "swept")]
            self.assertEqual(runs[0], runs[1])

    def test_what_a_node_says_of_a_wrong_plan_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "small.toml").write_text(PLAN.replace("scream-v2", "scream-v7"))
            command = [sys.executable, HERE / "ray_sweep.py", "small.toml", "--shards", "2", "--program", PROGRAM]
            wrong = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
            self.assertNotEqual(wrong.returncode, 0)
            self.assertIn("scream-v7", wrong.stderr)


if __name__ == "__main__":
    unittest.main()
