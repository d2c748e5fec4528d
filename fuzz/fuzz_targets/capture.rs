#![no_main]

use nearlight_analyze::{Comparison, Limits, Study, Traffic};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(traffic) = Traffic::read(bytes, &Limits { packets: 4_096 })
        && let Ok(study) = Study::new(&traffic, None)
    {
        assert!(study.capture.datagrams <= study.capture.packets);
        let shares: f64 = study.streams.iter().filter(|row| row.downlink).map(|row| row.share).sum();
        assert!(shares < 1.001);
        let comparison = Comparison::new(&traffic, &traffic, None).ok();
        if let Some(comparison) = &comparison {
            assert!(comparison.downlink.lost <= comparison.downlink.sent);
        }
        nearlight_analyze::document(&study, comparison.as_ref()).to_html();
    }
});
