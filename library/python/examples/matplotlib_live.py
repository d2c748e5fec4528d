"""A live chart of the stream that shows it: what is sent, what the rate controller allows, and the round trip.

    pip install matplotlib
    python matplotlib_live.py
"""

from __future__ import annotations

import argparse
import math
import time
from collections import deque

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import nearlight

SECONDS = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf, help="ends after so long")
    arguments = parser.parse_args()
    figure = Figure(figsize=(12.8, 7.2), dpi=100, layout="constrained")
    # The page's buttons cover the upper edge.
    figure.get_layout_engine().set(rect=(0, 0, 1, 0.92))
    canvas = FigureCanvasAgg(figure)
    rates, delays = figure.subplots(2, 1, sharex=True)
    rates.set(ylabel="Mb/s", title="This chart, as it is sent to you", xlim=(-SECONDS, 0))
    delays.set(xlabel="seconds", ylabel="round trip, ms")
    [sent] = rates.plot([], [], label="sent")
    [target] = rates.plot([], [], label="allowed", linestyle="--")
    [round_trip] = delays.plot([], [], color="tab:red")
    rates.legend(loc="upper left")
    samples: deque[tuple[float, float, float, float]] = deque(maxlen=SECONDS * 10)
    with nearlight.serve(name="a chart", width=1280, height=720, fps=10, port=arguments.port) as server:
        print(server.qr_code(), *server.links, sep="\n", flush=True)
        while server.now() < arguments.seconds:
            began = server.now()
            for event in server.events():
                if isinstance(event, (nearlight.ViewerJoined, nearlight.ViewerLeft)):
                    print(f"{type(event).__name__} {event.viewer}", flush=True)
            for session in server.statistics.viewers[:1]:
                trip = math.nan if session.round_trip is None else session.round_trip * 1e3
                samples.append((began, session.sent_bps / 1e6, session.target_bps / 1e6, trip))
            if server.is_watched:
                times = [at - began for at, *_ in samples]
                for line, column in ((sent, 1), (target, 2), (round_trip, 3)):
                    line.set_data(times, [sample[column] for sample in samples])
                for axes in (rates, delays):
                    axes.relim()
                    axes.autoscale_view(scalex=False)
                canvas.draw()
                server.submit(canvas.buffer_rgba(), order="rgba")
            time.sleep(max(0.0, began + 0.1 - server.now()))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
