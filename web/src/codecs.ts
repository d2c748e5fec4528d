// The codecs that this page plays, best first, with their names in WebCodecs and WebRTC; and which of them a browser turns out not to decode.

import type { CodecKind } from "./generated/wire.ts";

interface CodecNames {
  /** For users. */
  title: string;
  /** Codec string of WebCodecs for the lowest profile and level that a browser must decode. */
  webCodecs: string;
  /** Matches the browser's RTP formats that suit the codec, best first. */
  rtp: readonly ((codec: RTCRtpCodec) => boolean)[];
}

const CODECS: Record<CodecKind, CodecNames> = {
  h264: {
    title: "H.264",
    webCodecs: "avc1.42E01F",
    rtp: [
      ({ mimeType, sdpFmtpLine }) => mimeType === "video/H264" && /packetization-mode=1.*profile-level-id=42e0/.test(sdpFmtpLine ?? ""),
      ({ mimeType, sdpFmtpLine }) => mimeType === "video/H264" && /packetization-mode=1/.test(sdpFmtpLine ?? ""),
    ],
  },
  vp8: { title: "VP8", webCodecs: "vp8", rtp: [({ mimeType }) => mimeType === "video/VP8"] },
};

/** All codecs, best first. */
const CODEC_KINDS = Object.keys(CODECS) as CodecKind[];

/** Returns matchers of RTP formats for these codecs, best first. A server takes the first that it supports. */
export function rtpFormats(codecs: readonly CodecKind[]): ((codec: RTCRtpCodec) => boolean)[] {
  return CODEC_KINDS.filter((kind) => codecs.includes(kind)).flatMap((kind) => CODECS[kind].rtp);
}

/** Returns the codecs that this browser's WebCodecs claim to decode. */
export async function claimedCodecs(): Promise<CodecKind[]> {
  if (!("VideoDecoder" in self)) return [];
  const answers = await Promise.all(
    CODEC_KINDS.map(async (kind) => {
      const config = { codec: CODECS[kind].webCodecs, optimizeForLatency: true };
      const answer = await VideoDecoder.isConfigSupported(config).catch(() => null);
      return answer?.supported ? kind : null;
    }),
  );
  return answers.filter((kind) => kind !== null);
}

/** Who decodes: the page through WebCodecs, or the browser's WebRTC. A browser may use different decoders for the two. */
export type DecoderKind = "webcodecs" | "webrtc";

const DECODER_TITLES: Record<DecoderKind, string> = { webcodecs: "WebCodecs", webrtc: "WebRTC" };

/** Remembers, for the page's life, which codecs a browser claims and does not decode. */
export class CodecChoice {
  readonly #claimed: Record<DecoderKind, readonly CodecKind[]>;
  readonly #failed: Record<DecoderKind, CodecKind[]> = { webcodecs: [], webrtc: [] };

  /** `claimed`: the codecs that WebCodecs claim. WebRTC negotiates its own. */
  constructor(claimed: readonly CodecKind[]) {
    this.#claimed = { webcodecs: claimed, webrtc: CODEC_KINDS };
  }

  /** Returns the codecs to ask the server for, best first. */
  offered(decoder: DecoderKind): CodecKind[] {
    return this.#claimed[decoder].filter((kind) => !this.#failed[decoder].includes(kind));
  }

  /** The browser decoded nothing of this codec. Returns whether there is another to ask for. */
  onFailed(decoder: DecoderKind, codec: CodecKind): boolean {
    if (!this.#failed[decoder].includes(codec)) this.#failed[decoder].push(codec);
    return this.offered(decoder).length > 0;
  }

  /** The user tries again: where every codec has failed, all are offered once more. */
  retry(): void {
    for (const decoder of Object.keys(this.#failed) as DecoderKind[]) if (this.offered(decoder).length === 0) this.#failed[decoder] = [];
  }

  /** Says in words which codecs failed, or "" when none did. */
  failures(decoder: DecoderKind): string {
    const failed = this.#failed[decoder].map((kind) => CODECS[kind].title).join(" and ");
    return failed && `this browser's ${DECODER_TITLES[decoder]} claims ${failed}, and decoded no picture of it`;
  }
}
