// The identifiers of pictures: numbers that must not be confused.

declare const kind: unique symbol;

/** The server's number of a frame. */
export type FrameId = number & { readonly [kind]: "frame id" };

/** Of the packets that a picture came in, over WebRTC. */
export type RtpTimestamp = number & { readonly [kind]: "RTP timestamp" };

/** The name between receiver and display: the RTP timestamp where the browser receives by itself, else the frame's number. */
export type PictureKey = FrameId | RtpTimestamp;

/** Where a picture stands in the queue before the display, in microseconds. */
export interface DisplayTimes {
  /** When its capture began, on the server's clock. */
  capturedAt: number;
  /** When it is late, on the page's clock; infinity where that is not known. */
  deadline: number;
}

/** How a decoded picture is divided: the rows that are shown, from the top, and what lies below them. */
export interface Crop {
  /** Rows that are shown. */
  height: number;
  /** Width and height in pixels of the marker's cells, directly below those rows from the left; null where there is no marker. */
  marker: { width: number; height: number } | null;
}

/** A marker's pixels, RGBA, rows from the top, as they were decoded. */
export interface MarkerPixels {
  rgba: Uint8Array<ArrayBuffer>;
  /** Pixels of a row. */
  width: number;
}
