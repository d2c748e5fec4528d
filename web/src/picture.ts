// The identifiers of pictures: numbers that must not be confused.

declare const kind: unique symbol;

/** The server's number of a frame. */
export type FrameId = number & { readonly [kind]: "frame id" };

/** RTP timestamp of a picture's packets, over WebRTC. */
export type RtpTimestamp = number & { readonly [kind]: "RTP timestamp" };

/** Identifies a picture between receiver and display: its RTP timestamp over WebRTC, else the frame's number. */
export type PictureKey = FrameId | RtpTimestamp;

/** The times that order a picture in the display's queue, in microseconds. */
export interface DisplayTimes {
  /** When its capture began, on the server's clock. */
  capturedAt: number;
  /** Its deadline on the page's clock; infinity when that is not known. */
  deadline: number;
}

/** How a decoded picture is divided: the rows that are shown, from the top, and what lies below them. */
export interface Crop {
  /** Rows that are shown. */
  height: number;
  /** Width and height in pixels of the marker's cells, directly below those rows from the left; null without a marker. */
  marker: { width: number; height: number } | null;
}

/** A marker's pixels, RGBA, rows from the top, as they were decoded. */
export interface MarkerPixels {
  rgba: Uint8Array<ArrayBuffer>;
  /** Pixels of a row. */
  width: number;
}
