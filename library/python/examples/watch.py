"""Watches a stream and prints its size, rate, latency and mean colour every second. With --png, saves the last picture.

    python watch.py LINK
"""

from __future__ import annotations

import argparse
import math

import nearlight


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("link")
    parser.add_argument("--seconds", type=float, default=math.inf, help="ends after so long")
    parser.add_argument("--png", help="file for the last picture (needs Pillow)")
    arguments = parser.parse_args()
    with nearlight.view(arguments.link, name="watch.py") as viewer:
        count, since, picture = 0, viewer.now(), None
        while viewer.now() < arguments.seconds:
            if new := viewer.poll_picture(1.0):
                picture, count = new, count + 1
            if picture is None or viewer.now() < since + 1:
                continue
            means = [round(float(mean)) for mean in picture.rgb().mean(axis=(0, 1))]
            known = viewer.statistics.motion_to_photon
            latency = "not known yet" if known is None else f"{known * 1e3:.0f} ms"
            rate = count / (viewer.now() - since)
            print(f"{picture.width}x{picture.height}, {rate:.0f} pictures a second, motion to photon {latency}, mean colour {means}", flush=True)
            count, since = 0, viewer.now()
        if arguments.png and picture is not None:
            from PIL import Image

            Image.fromarray(picture.rgb()).save(arguments.png)
        print(viewer.close()["frames"])


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
