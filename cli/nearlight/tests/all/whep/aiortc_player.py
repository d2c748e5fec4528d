"""Plays a WHEP session with aiortc and says what it saw.

    aiortc_player.py URL TOKEN CODEC PICTURES SOUND_PACKETS

Plays at least so many decoded pictures and packets of sound, then ends the session with DELETE and waits until the server closes the
connection. One JSON object on standard output.
"""

import asyncio
import json
import sys
import urllib.error
import urllib.request
from urllib.parse import urljoin

from aiortc import RTCPeerConnection, RTCRtpReceiver, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError

# Seconds. Two busy cores take some until the first picture; what takes longer has failed.
PATIENCE = 100


def ask(method, url, token, body=None):
    """One HTTP request: status, headers and body of the answer."""
    request = urllib.request.Request(url, method=method, data=None if body is None else body.encode())
    request.add_header("Authorization", f"Bearer {token}")
    if body is not None:
        request.add_header("Content-Type", "application/sdp")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.headers, refusal.read().decode()


async def take_pictures(track, wanted, seen):
    while seen["pictures"] < wanted:
        frame = await track.recv()
        size = f"{frame.width}x{frame.height}"
        seen["pictures"] += 1
        seen["sizes"][size] = seen["sizes"].get(size, 0) + 1
        luma = bytes(frame.planes[0])
        seen["contrast"] = max(seen["contrast"], max(luma) - min(luma))


async def take_sound(receiver, wanted, seen):
    """Counts packets: this decoder knows blocks of 20 ms only, and gives up at ours of 10 ms."""
    while seen["sound_packets"] < wanted:
        await asyncio.sleep(0.1)
        for report in (await receiver.getStats()).values():
            if report.type == "inbound-rtp":
                seen["sound_packets"] = report.packetsReceived


async def has_ended(track):
    try:
        while True:
            await asyncio.wait_for(track.recv(), 20)
    except MediaStreamError:
        return True
    except asyncio.TimeoutError:
        return False


def codecs(name):
    """Only this one and its retransmissions."""
    all_codecs = RTCRtpReceiver.getCapabilities("video").codecs
    return [codec for codec in all_codecs if codec.mimeType.lower() in (f"video/{name}", "video/rtx")]


async def play(url, token, codec, pictures, sound_packets):
    seen = {"pictures": 0, "sizes": {}, "contrast": 0, "sound_packets": 0}
    loop = asyncio.get_running_loop()

    def asked(*arguments):
        return loop.run_in_executor(None, ask, *arguments)

    connection = RTCPeerConnection()
    tracks = {}
    connection.on("track", lambda track: tracks.update({track.kind: track}))
    connection.addTransceiver("video", direction="recvonly").setCodecPreferences(codecs(codec))
    audio = connection.addTransceiver("audio", direction="recvonly").receiver
    await connection.setLocalDescription(await connection.createOffer())
    status, headers, answer = await asked("POST", url, token, connection.localDescription.sdp)
    seen["post"] = status
    if status != 201:
        return {**seen, "failure": answer}
    session = urljoin(url, headers["Location"])
    video = answer.split("m=video")[1].split("a=rtpmap:")[1].split()[1]
    seen["codec"] = "video/" + video.split("/")[0]
    await connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    try:
        work = (take_pictures(tracks["video"], pictures, seen), take_sound(audio, sound_packets, seen))
        await asyncio.wait_for(asyncio.gather(*work), PATIENCE)
    except (asyncio.TimeoutError, MediaStreamError, KeyError) as failure:
        seen["failure"] = repr(failure)
    seen["delete"] = (await asked("DELETE", session, token))[0]
    seen["ended"] = await has_ended(tracks["video"])
    seen["delete_again"] = (await asked("DELETE", session, token))[0]
    await connection.close()
    return seen


url, token, codec, pictures, sound_packets = sys.argv[1:]
print(json.dumps(asyncio.run(play(url, token, codec, int(pictures), int(sound_packets)))))
