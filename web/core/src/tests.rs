use nearlight_units::InputSeq;
use nearlight_wire::{Fov, FrameHeader, FrameNote, Pong, Pose, View};

use super::*;

/// RGBA, rows from the top, and the width of a row.
fn marker_pixels(width: u16, marker: Marker) -> (Vec<u8>, u16) {
    let strip = Strip::of_width(width).expect("wide enough");
    let cells = marker.cells();
    let mut pixels = Vec::new();
    for y in 0..usize::from(strip.height()) {
        for x in 0..usize::from(strip.width()) {
            let white = strip.cell_at(x, y).is_some_and(|cell| cells[cell]);
            pixels.extend([if white { 235 } else { 16 }; RGBA_BYTES]);
        }
    }
    (pixels, strip.width())
}

#[test]
fn the_marker_is_read_from_exactly_its_pixels() {
    let marker = Marker { frame: FrameId(7), input: InputSeq(9) };
    for picture in [160, 254, 320, 640, 1_920] {
        let (pixels, width) = marker_pixels(picture, marker);
        assert_eq!(read_marker(&pixels, width), Some(marker), "{picture}");
        assert_eq!(read_marker(&pixels[1..], width), None);
        assert_eq!(read_marker(&pixels, width - 8), None);
        assert_eq!(read_marker(&pixels, width + 1), None);
    }
    assert_eq!(read_marker(&[], 0), None);
}

#[test]
fn the_page_learns_where_the_marker_lies() {
    assert_eq!(strip_below(1_280, 720, 1_280, 728), Some(vec![640, 8]));
    assert_eq!(strip_below(256, 128, 256, 152), Some(vec![256, 24]));
    assert_eq!(strip_below(1_280, 720, 1_280, 720), None);
}

#[test]
fn times_survive_the_border() {
    for nanos in [0, 1_000, 123_456_000, 86_400_000_000_000] {
        let at = Time::from_nanos(nanos);
        assert_eq!(time(micros(at)), at);
    }
    assert_eq!(time(-1.0), Time::ZERO);
    assert_eq!(time(f64::NAN), Time::ZERO);
}

#[test]
fn a_stranger_cannot_break_the_core() {
    let mut core = Core::over(TransportName::WebTransport);
    core.on_datagram(1.0, &[0xFF; 64]);
    assert_eq!(core.on_presence(1.0, &[f32::NAN; 20]), 0);
    assert!(!core.on_key(1.0, "NoSuchKey", true));
    assert!(!core.on_key(1.0, "KeyF", true), "a key needs to know where the user is");
    core.on_displayed(1.0, 5, &[1, 2, 3], 160);
    assert_eq!(core.last_marker(), None);
    assert!(core.poll_frame(1.0).is_none());
    assert!(core.statistics(2.0).contains("\"malformed\":1"));
    core.on_timeout(2.0);
    let _ = core.poll_transmit(2.0);
    assert!(core.statistics(2.0).contains("\"wakes\":{\"clock\":1}"), "{}", core.statistics(2.0));
    let lines = String::from_utf8(core.events()).expect("JSON is UTF-8");
    assert!(lines.contains("\"event\":\"malformed_datagram\"") && lines.ends_with('\n'), "{lines}");
}

/// Both transports through the same calls: the page's statistics and the summary of a picture that the browser decoded.
#[test]
fn a_picture_of_the_browsers_own_receiver_is_timed_and_counted() {
    const RTP_TIMESTAMP: u32 = 0x8000_0001;
    let mut core = Core::over(TransportName::WebRtc);
    let at = |millis: f64| 1e6 + millis * 1e3;
    let presence =
        [0.0, 1.6, 6.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.6, 6.0, 0.0, 0.0, 0.0, 1.0, -1.0, 1.0, -1.0, 1.0, 0.0];
    assert_eq!(core.on_presence(at(0.0), &presence), 1);
    let moment = |millis: f64| time(at(millis));
    let asked = moment(0.0).for_peer();
    let pong = Pong { client_sent_at: asked, server_received_at: asked, server_sent_at: asked };
    core.on_datagram(at(0.0), &pong.to_bytes());
    let header = FrameHeader {
        width: 64,
        height: 32,
        input: InputSeq(1),
        input_received_at: moment(1.0),
        render_started_at: moment(2.0),
        rendered_at: moment(3.0),
        converted_at: moment(4.0),
        encoded_at: moment(5.0),
        display_at: moment(40.0),
        deadline: moment(70.0),
        views: vec![View { pose: Pose::default(), fov: Fov::symmetric(1.0, 1.0) }],
    };
    let (frame, sent_at) = (FrameId(3), moment(6.0));
    let note = FrameNote { frame, key: true, last: true, rtp_timestamp: RTP_TIMESTAMP, sent_at, header };
    assert_eq!((core.picture_views(RTP_TIMESTAMP), core.picture_size(RTP_TIMESTAMP)), (None, None));
    core.on_datagram(at(7.0), &note.to_bytes());
    core.on_picture(at(9.0), RTP_TIMESTAMP, f64::NAN);
    assert_eq!(core.picture_views(RTP_TIMESTAMP).map(|views| views.len()), Some(11));
    assert_eq!(core.picture_size(RTP_TIMESTAMP), Some(vec![64, 32]));
    let (pixels, width) = marker_pixels(640, Marker { frame, input: InputSeq(1) });
    core.on_displayed(at(20.0), RTP_TIMESTAMP, &pixels, width);
    let counts = r#"{"packetsLost":-1,"packets":10,"bytes":9000,"repeatedPackets":1,"redundantBytes":900,"repairs":2,"keyFrames":1}"#;
    core.on_rtp_counts(at(21.0), counts);
    core.on_rtp_counts(at(21.0), r#"{"packets":7}"#);
    let row = core.take_timelines();
    // Frame, moment, total, motion-to-photon; from the sixth number on the stages.
    assert_eq!(row[..4], [3.0, at(20.0), 20e3, 20e3]);
    assert_eq!(row[6..], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 2.0, 11.0].map(|millis| millis * 1e3));
    let statistics: serde_json::Value = serde_json::from_str(&core.statistics(at(22.0))).expect("JSON");
    for (name, value) in
        [("displayed", 1), ("decoded", 1), ("packetsLost", 0), ("retransmitted", 1), ("repairs", 2), ("keyFrames", 0)]
    {
        assert_eq!(statistics[name], value, "{name}");
    }
    let summary: serde_json::Value = serde_json::from_str(&core.summary(at(22.0))).expect("JSON");
    assert_eq!(summary["motion_to_photon_ms"]["p50"], 20.0);
    assert_eq!(statistics["transport"], "webrtc");
}
