"""Clients of every kind come and go at a server for hours while things go wrong; the server must stay as it was.

    scripts/soak.sh HOURS [--seed N] [--nearlight FILE]

Each minute it draws some events: clients, crowds, losses, outages, killed and stopped clients, garbage, half requests, a stopped server, a full disk
and, if libfaketime is installed, a clock that jumps. The server has so few file descriptors that it sometimes has none left. The server's memory, descriptors and threads are sampled
every ten seconds into target/soak. At the end the script says what holds and exits with 1 if something does not. Ctrl-C ends it early and judges what
there is.
"""

import argparse
import collections
import glob
import json
import os
import random
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

SAMPLE_INTERVAL_S = 10
# Memory may still grow while pools fill; what grows after this is a leak.
WARM_UP_S = 3600
MAX_GROWTH_PER_HOUR = 0.01
# Sessions whose clients were killed end by themselves.
SETTLING_S = 90
# Clients of different kinds at one time: two cores carry as many at 640x360.
MAX_CLIENTS = 6
# Descriptors of the server: a crowd and many half requests at one time use them up.
MAX_DESCRIPTORS = 128
# Debian's package faketime.
FAKETIME = next(iter(glob.glob("/usr/lib/*/faketime/libfaketime.so.1")), None)


class Server:
    """`nearlight serve` with a small world, an event log on a small disk and, if possible, a clock that can be set."""

    def __init__(self, nearlight, folder):
        self.offset_file = os.path.join(folder, "clock")
        environment = dict(os.environ)
        self.can_set_clock = bool(FAKETIME)
        if self.can_set_clock:
            self.set_clock(0)
            environment |= {"LD_PRELOAD": FAKETIME, "FAKETIME_TIMESTAMP_FILE": self.offset_file, "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        self.disk = os.path.join(folder, "disk")
        os.makedirs(self.disk)
        os.chmod(self.disk, 0o777)
        small = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=1777", "tmpfs", self.disk]
        self.is_small_disk = os.geteuid() == 0 and subprocess.run(small, stderr=subprocess.DEVNULL).returncode == 0
        words = [nearlight, "serve", "--json", "--ephemeral", "--port", "0", "--size", "640x360", "--fps", "30", "--max-clients", "12", "--max-members", "64"]
        words += ["--events", os.path.join(self.disk, "events.jsonl")]
        self.log = open(os.path.join(folder, "server.log"), "w")
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_DESCRIPTORS, MAX_DESCRIPTORS))
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment, preexec_fn=limit)
        first = self.process.stdout.readline()
        if not first:
            sys.exit(f"soak: the server does not start: see {self.log.name}")
        started = json.loads(first)
        self.links = [started["url"], started["guests"][0], started["spectators"][0]]
        self.port, self.rtc_port = started["port"], started["rtc_port"]

    def set_clock(self, seconds):
        with open(self.offset_file, "w") as file:
            file.write(f"{seconds:+d}\n")

    def sample(self):
        process = f"/proc/{self.process.pid}"
        status = dict(line.split(":", 1) for line in open(f"{process}/status") if ":" in line)
        return {
            "resident_kib": int(status["VmRSS"].split()[0]),
            "threads": int(status["Threads"]),
            "descriptors": len(os.listdir(f"{process}/fd")),
        }

    def is_healthy(self):
        try:
            with urllib.request.urlopen(f"http://localhost:{self.port}/healthz", timeout=10) as answer:
                return answer.status == 200
        except OSError:
            return False

    def metric(self, name):
        with urllib.request.urlopen(f"http://localhost:{self.port}/metrics", timeout=10) as answer:
            rows = (line.split() for line in answer.read().decode().splitlines() if not line.startswith("#"))
            return sum(float(row[1]) for row in rows if row and row[0].split("{")[0] == name)

    def stop(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            status = self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = "killed after 20 s"
        if self.is_small_disk:
            subprocess.run(["umount", self.disk], check=False)
        return status


class Soak:
    """The events, in an order that the seed decides."""

    def __init__(self, server, nearlight, chance):
        self.server, self.nearlight, self.chance = server, nearlight, chance
        self.clients = []
        self.counts = collections.Counter()
        self.failures = []

    def start(self, name, *words):
        self.count_ended()
        if len(self.clients) >= MAX_CLIENTS:
            return None
        process = subprocess.Popen([self.nearlight, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.clients.append((name, process))
        return process

    def count_ended(self):
        self.counts.update(f"{name} ended with {process.returncode}" for name, process in self.clients if process.poll() is not None)
        self.clients = [(name, process) for name, process in self.clients if process.returncode is None]

    def viewer(self):
        words = ["view", self.chance.choice(self.server.links), "--headless", "--seconds", str(self.chance.randint(5, 90))]
        further = self.chance.choice([[], ["--stereo"], ["--codec", "vp8"], ["--drop", "3%"], ["--outage", "3:2"], ["--rebind", "4"], ["--clipboard", "on"]])
        return self.start("viewer", *words, *further)

    def crowd(self):
        carrier = self.chance.choice(["websocket", "webtransport"])
        words = ["--clients", str(self.chance.randint(2, 20)), "--rooms", str(self.chance.randint(1, 3)), "--carrier", carrier]
        self.start("crowd", "swarm", self.server.links[0], *words, "--seconds", str(self.chance.randint(5, 60)))

    def emulated_path(self):
        path = self.chance.choice(["--rate=2mbit --rtt=80ms", "--rate=10mbit --rtt=20ms --loss=1%", "--rate=5mbit --rtt=200ms"])
        # Inside, the server's machine has an address of its own, whose name the variable has.
        link = self.server.links[0].replace("http://localhost", "https://$NEARLIGHT_LINK_HOST")
        viewer = f'"{os.path.abspath(self.nearlight)}" view "{link}" --headless --seconds 20'
        self.start("viewer behind an emulated path", "link", *path.split(), "--", "sh", "-c", viewer)

    def killed_viewer(self):
        if process := self.viewer():
            time.sleep(self.chance.uniform(0.5, 6))
            process.kill()

    def stopped_viewer(self):
        if process := self.viewer():
            time.sleep(4)
            process.send_signal(signal.SIGSTOP)
            threading.Timer(self.chance.uniform(3, 25), lambda: process.poll() is None and process.send_signal(signal.SIGCONT)).start()

    def garbage(self):
        for port in (self.server.port, self.server.rtc_port):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
                for _ in range(500):
                    try:
                        udp.sendto(self.chance.randbytes(self.chance.randint(1, 1_400)), ("127.0.0.1", port))
                    except OSError:
                        # The socket's buffer is full, or the port answered that nobody listens.
                        pass
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=5) as tcp:
                tcp.sendall(self.chance.randbytes(300))

    def half_requests(self):
        held = []
        for _ in range(100):
            try:
                tcp = socket.create_connection(("127.0.0.1", self.server.port), timeout=5)
                tcp.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Half: ")
                held.append(tcp)
            except OSError:
                break
        time.sleep(self.chance.uniform(1, 15))
        for tcp in held:
            tcp.close()

    def wrong_tokens(self):
        for number in range(200):
            request = urllib.request.Request(f"http://localhost:{self.server.port}/whep", b"", {"authorization": f"Bearer wrong-token-{number}"})
            try:
                urllib.request.urlopen(request, timeout=5)
                self.failures.append("a wrong token was accepted")
            except OSError:
                pass

    def pages(self):
        for path in ("/", "/session.json", "/world.glb", "/nothing", "/servers.json"):
            try:
                urllib.request.urlopen(f"http://localhost:{self.server.port}{path}", timeout=10).read()
            except OSError:
                pass

    def stopped_server(self):
        self.server.process.send_signal(signal.SIGSTOP)
        time.sleep(self.chance.uniform(0.5, 5))
        self.server.process.send_signal(signal.SIGCONT)

    def full_disk(self):
        if self.server.is_small_disk:
            filler = os.path.join(self.server.disk, "filler")
            with open(filler, "wb") as file:
                try:
                    while file.write(bytes(1 << 20)):
                        file.flush()
                except OSError:
                    pass
            time.sleep(10)
            os.remove(filler)
            os.truncate(os.path.join(self.server.disk, "events.jsonl"), 0)

    def clock_jump(self):
        if self.server.can_set_clock:
            self.server.set_clock(self.chance.choice([-86_400, -3_600, 3_600, 86_400, 8 * 86_400, 30 * 86_400]))

    def minute(self):
        """The events of one minute. What fails because the server was stopped or had no descriptors is part of the exercise."""
        kinds = [self.viewer, self.viewer, self.crowd, self.emulated_path, self.killed_viewer, self.stopped_viewer, self.garbage, self.half_requests]
        kinds += [self.wrong_tokens, self.pages, self.stopped_server, self.full_disk, self.clock_jump]
        end = time.monotonic() + 60
        for event in self.chance.choices(kinds, k=8):
            self.counts[event.__name__] += 1
            try:
                event()
            except OSError as error:
                self.counts[f"{event.__name__}: {error}"] += 1
            time.sleep(max(0.0, min(5.0, end - time.monotonic())))

    def end(self):
        for _, process in self.clients:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()


def growth_per_hour(samples):
    """The median slope of memory over time, as a share of the memory at the start: one burst does not decide it (Theil and Sen)."""
    step = max(1, len(samples) // 300)
    points = [(sample["at_s"], sample["resident_kib"]) for sample in samples[::step]]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for place, a in enumerate(points) for b in points[place + 1 :]]
    return statistics.median(slopes) * 3_600 / points[0][1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hours", type=float)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nearlight", default="target/release/nearlight", help="the command under test [default: %(default)s]")
    options = parser.parse_args()
    folder = os.path.abspath(os.path.join("target/soak", time.strftime("%Y%m%d-%H%M%S")))
    os.makedirs(folder)
    chance = random.Random(options.seed)
    server = Server(options.nearlight, folder)
    soak = Soak(server, options.nearlight, chance)
    print(f"soak: seed {options.seed}, {options.hours} hours, server {server.process.pid}, samples in {folder}", flush=True)
    idle = server.sample()
    began, samples, over = time.monotonic(), [], threading.Event()

    def watch():
        with open(os.path.join(folder, "samples.jsonl"), "w") as file:
            while not over.wait(SAMPLE_INTERVAL_S):
                sample = {"at_s": round(time.monotonic() - began, 1), **server.sample()}
                samples.append(sample)
                print(json.dumps(sample), file=file, flush=True)

    watcher = threading.Thread(target=watch)
    watcher.start()
    minutes = 0
    try:
        while time.monotonic() - began < options.hours * 3_600 and server.process.poll() is None:
            soak.minute()
            minutes += 1
            if minutes % 10 == 0:
                print(f"soak: {minutes} minutes, {samples[-1]}", flush=True)
    except KeyboardInterrupt:
        print("soak: interrupted; judging what there is", flush=True)
    soak.end()
    over.set()
    watcher.join()
    if server.process.poll() is not None:
        print(f"soak: FAILED: the server ended with {server.process.returncode} after {minutes} minutes, see {server.log.name}")
        return 1
    checks = [(not soak.failures, "; ".join(soak.failures) or "no wrong token was accepted")]
    deadline = time.monotonic() + SETTLING_S
    while time.monotonic() < deadline and (server.metric("nearlight_sessions_open") or server.metric("nearlight_room_members")):
        time.sleep(1)
    sessions, members, last = server.metric("nearlight_sessions_open"), server.metric("nearlight_room_members"), server.sample()
    checks.append((server.is_healthy(), "the server answers that it is healthy"))
    checks.append((sessions == 0 and members == 0, f"{sessions:.0f} sessions and {members:.0f} members are left over"))
    checks.append((last["descriptors"] <= idle["descriptors"] + 4, f"{last['descriptors']} descriptors, {idle['descriptors']} at the start"))
    checks.append((last["threads"] <= idle["threads"] + 4, f"{last['threads']} threads, {idle['threads']} at the start"))
    late = [sample for sample in samples if sample["at_s"] >= WARM_UP_S]
    memory = f"{idle['resident_kib'] // 1024} MiB at the start, {last['resident_kib'] // 1024} MiB at the end"
    if len(late) >= 60:
        growth = growth_per_hour(late)
        checks.append((growth <= MAX_GROWTH_PER_HOUR, f"memory grows by {100 * growth:.2f} % in an hour after the first ({memory})"))
    else:
        print(f"soak: memory is judged after the first hour only: {memory}")
    status = server.stop()
    checks.append((status == 0, f"SIGTERM ends the server with {status}"))
    for name, count in sorted(soak.counts.items()):
        print(f"  {count:5d}  {name}")
    for holds, sentence in checks:
        print(f"{'holds ' if holds else 'FAILED'}  {sentence}")
    return 0 if all(holds for holds, _ in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
