// The codecs that this page plays, best first, with their names in WebCodecs and WebRTC.

import type { CodecKind } from "./generated/wire.ts";

interface Names {
  /** The codec string of WebCodecs with the least that a browser must decode. */
  webCodecs: string;
  /** The browser's formats that are suitable for it over WebRTC, best first. */
  rtp: readonly ((codec: RTCRtpCodec) => boolean)[];
}

const NAMES: Record<CodecKind, Names> = {
  h264: {
    webCodecs: "avc1.42E01F",
    rtp: [
      ({ mimeType, sdpFmtpLine }) => mimeType === "video/H264" && /packetization-mode=1.*profile-level-id=42e0/.test(sdpFmtpLine ?? ""),
      ({ mimeType, sdpFmtpLine }) => mimeType === "video/H264" && /packetization-mode=1/.test(sdpFmtpLine ?? ""),
    ],
  },
  vp8: { webCodecs: "vp8", rtp: [({ mimeType }) => mimeType === "video/VP8"] },
};

/** A server takes the first that it supports. */
export const RTP_FORMATS = Object.values(NAMES).flatMap(({ rtp }) => rtp);

/** Those that this browser's WebCodecs decode. */
export async function decodableCodecs(): Promise<CodecKind[]> {
  if (!("VideoDecoder" in self)) return [];
  const answers = await Promise.all(
    (Object.keys(NAMES) as CodecKind[]).map(async (name) => {
      const config = { codec: NAMES[name].webCodecs, optimizeForLatency: true };
      const answer = await VideoDecoder.isConfigSupported(config).catch(() => null);
      return answer?.supported ? name : null;
    }),
  );
  return answers.filter((name) => name !== null);
}
