"""The lab from Python."""

from __future__ import annotations

import math
import tempfile
import unittest
from pathlib import Path

import nearlight

PLAN = """
question = "Which of two controllers fills a link?"
seeds = 2

[all]
duration = "3s"
controllers = ["gcc-libwebrtc", "scream-v2"]

[[all.path]]
name = "plain"
forward = "rate=10mbit,delay=10ms"
feedback = "delay=10ms"
"""


class Lab(unittest.TestCase):
    def test_the_plans_of_the_package(self) -> None:
        plans = {plan.name: plan for plan in nearlight.lab.plans()}
        self.assertIn("vrcc-stable", plans)
        self.assertTrue(all(plan.question and plan.cells > 0 and plan.seeds > 0 for plan in plans.values()))
        self.assertIn("gcc-libwebrtc", nearlight.lab.controllers())

    def test_tables(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "two.toml"
            file.write_text(PLAN)
            told: list[nearlight.lab.Progress] = []
            results = nearlight.lab.run(file, threads=2, folder=Path(folder) / "runs", progress=told.append)
            self.assertEqual((told[-1].done, told[-1].all), (4, 4))
            self.assertEqual((results.plan, results.seeds, len(results.cells), len(results.runs)), ("two", 2, 2, 4))
            self.assertEqual({row["controller"] for row in results.cells}, {"gcc-libwebrtc", "scream-v2"})
            self.assertEqual(len({tuple(row) for row in results.cells}), 1, "the same columns in each row")
            figure = next(row for row in results.figures if row["metric"] == "in_time_ratio")
            self.assertEqual(figure["n"], 2)
            self.assertTrue(0 <= figure["mean"] <= 1 and not math.isnan(figure["ci95"]))
            columns = nearlight.lab.columns(results.runs)
            self.assertEqual(columns["seed"], [1, 2, 1, 2])
            again = nearlight.lab.run(str(file), folder=Path(folder) / "runs")
            self.assertEqual((again.cells, again.simulated), (results.cells, 0.0), "kept, and the same")
            only = nearlight.lab.run(file, seeds=1, only={"controller": "scream-v2"})
            self.assertEqual([(row["controller"], row["seed"]) for row in only.runs], [("scream-v2", 1)])
            self.assertEqual(only.runs, nearlight.lab.run(file, seeds=1, only=["controller=scream-v2"]).runs, "as the command writes it")
            self.assertRaises(ZeroDivisionError, lambda: nearlight.lab.run(file, progress=lambda progress: 1 / 0))

    def test_misuse(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            bad = Path(folder) / "bad.toml"
            bad.write_text("question = 7")
            file = Path(folder) / "two.toml"
            file.write_text(PLAN)
            for word, call in [
                ("vrcc-stable", lambda: nearlight.lab.run("no-such-plan")),
                ("bad.toml", lambda: nearlight.lab.run(bad)),
                ("seeds", lambda: nearlight.lab.run(file, seeds=0)),
                ("threads", lambda: nearlight.lab.run(file, threads=0)),
                ("labels", lambda: nearlight.lab.run(file, only={"controller": "none"})),
                ("controller=nada", lambda: nearlight.lab.run(file, only=["scream-v2"])),
                ("controller=nada", lambda: nearlight.lab.run(file, only=[("controller", "scream-v2")])),
                ("no text", lambda: nearlight.lab.run(file, only={"controller": [7]})),
                ("traces", lambda: nearlight.lab.run(file, traces=folder)),
            ]:
                with self.subTest(word), self.assertRaises(nearlight.UsageError) as caught:
                    call()
                self.assertIn(word, str(caught.exception))
