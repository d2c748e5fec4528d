// What pictures are called on their way: numbers that must not be taken for one another.

declare const kind: unique symbol;

/** The server's number of a frame. */
export type FrameId = number & { readonly [kind]: "frame id" };

/** Of the packets that a picture came in, over WebRTC. */
export type RtpTimestamp = number & { readonly [kind]: "RTP timestamp" };

/** The name between receiver and display: the RTP timestamp where the browser receives by itself, else the frame's number. */
export type PictureKey = FrameId | RtpTimestamp;
