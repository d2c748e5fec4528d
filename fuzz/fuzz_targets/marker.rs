#![no_main]

use nearlight_wire::marker::{Marker, Strip};

// The first two bytes are the picture's width, the others the strip's pixels, over and over.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((width, pixels)) = bytes.split_first_chunk() else { return };
    if let Some(strip) = Strip::of_width(u16::from_be_bytes(*width)) {
        let columns = usize::from(strip.width());
        assert!(columns <= usize::from(u16::from_be_bytes(*width)));
        if !pixels.is_empty() {
            let _ = Marker::read(strip, |x, y| pixels[(y * columns + x) % pixels.len()]);
        }
    }
    if let Ok(cells) = pixels.iter().map(|byte| byte & 1 == 1).collect::<Vec<_>>().try_into()
        && let Some(marker) = Marker::from_cells(&cells)
    {
        assert_eq!(marker.cells(), cells);
    }
});
