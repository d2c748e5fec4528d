use nearlight_units::InputSeq;

use super::*;

#[test]
fn marker_is_read_from_either_end() {
    let marker = Marker { frame: FrameId(7), input: InputSeq(9) };
    let cells = marker.cells();
    let mut pixels = Vec::new();
    for y in 0..marker::HEIGHT {
        for x in 0..marker::WIDTH {
            let white = cells[y / marker::CELL_PIXELS * marker::COLUMNS + x / marker::CELL_PIXELS];
            pixels.extend([if white { 235 } else { 16 }; RGBA_BYTES]);
        }
    }
    assert_eq!(read_marker(&pixels, false), Some(marker));
    assert_eq!(read_marker(&pixels, true), None);
    let flipped: Vec<u8> = pixels.chunks(marker::WIDTH * RGBA_BYTES).rev().flatten().copied().collect();
    assert_eq!(read_marker(&flipped, true), Some(marker));
    assert_eq!(read_marker(&pixels[1..], false), None);
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
    let mut core = Core::new();
    core.on_datagram(1.0, &[0xFF; 64]);
    assert_eq!(core.on_presence(1.0, &[f32::NAN; 20]), 0);
    assert_eq!(core.on_action(1.0, 9, 9), 0);
    assert_eq!(core.on_action(1.0, 0, 0), 0, "an action needs to know where the user is");
    core.on_displayed(1.0, 5, &[1, 2, 3], false);
    assert_eq!(core.last_marker(), None);
    assert!(core.poll_frame(1.0).is_none());
    assert!(core.statistics(2.0).contains("\"malformed\":1"));
    let _ = core.poll_transmit(2.0);
    let lines = String::from_utf8(core.events()).expect("JSON is UTF-8");
    assert!(lines.contains("\"event\":\"malformed_datagram\"") && lines.ends_with('\n'), "{lines}");
}
