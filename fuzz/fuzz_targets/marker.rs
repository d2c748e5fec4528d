#![no_main]

use nearlight_wire::marker::{HEIGHT, Marker, WIDTH};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if bytes.len() == WIDTH * HEIGHT {
        let _ = Marker::read(|x, y| bytes[y * WIDTH + x]);
    }
    if let Ok(cells) = bytes.iter().map(|byte| byte & 1 == 1).collect::<Vec<_>>().try_into()
        && let Some(marker) = Marker::from_cells(&cells)
    {
        assert_eq!(marker.cells(), cells);
    }
});
