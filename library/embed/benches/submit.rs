//! Measures how long the submission of a picture occupies the submitting thread, compared with plain copies of its bytes: into memory that
//! only the program uses, and, as in the library, into memory that encoders have just read.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use nearlight_client::headless::watch_until;
use nearlight_client::{HeadlessOptions, ViewOptions};
use nearlight_codec::sample;
use nearlight_embed::{Content, EventKind, Host, Image, Layout, Options, Picture, PixelOrder, Plane, Rows, Size, Span};
use nearlight_net::Clock;
use tokio::sync::watch;

fn submit(criterion: &mut Criterion) {
    for size in [Size { width: 1_280, height: 720 }, Size { width: 1_920, height: 1_080 }] {
        let options = Options { width: size.width, height: size.height, ..Options::default() };
        let host = Host::open(&options).expect("a server");
        let link = host.links().remove(0);
        let (stop, stopped) = watch::channel(false);
        let viewer = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an event loop");
            runtime.block_on(watch_until(HeadlessOptions::new(ViewOptions::new(link)), Clock::start(), stopped))
        });
        while host.wait_event(Duration::from_secs(10)).expect("a viewer").kind != EventKind::ViewerJoined {}
        let picture = sample::moving_picture(size, 1);
        let planes = [(&picture.luma, size.width), (&picture.blue, size.width / 2), (&picture.red, size.width / 2)];
        let planes = planes.map(|(bytes, stride)| Plane { bytes, stride: stride.into() });
        let packed = vec![77; size.pixels() * 4];
        let plane = Plane { bytes: &packed, stride: usize::from(size.width) * 4 };
        let image = |layout, rows| Picture::new(Image { size, layout, rows });
        let mut group = criterion.benchmark_group(format!("submit at {size}"));
        group.sample_size(50);
        // Between two pictures the encoder works as in a real program.
        let mut measured = |name: &str, work: &mut dyn FnMut() -> Span| {
            group.bench_function(name, |bencher| {
                bencher.iter_custom(|count| {
                    let mut spent = Duration::ZERO;
                    for _ in 0..count {
                        spent += Duration::from_nanos(work().as_nanos().unsigned_abs());
                        std::thread::park_timeout(Duration::from_millis(4));
                    }
                    spent
                });
            });
        };
        let timed = |work: &mut dyn FnMut()| {
            let began = host.now();
            work();
            host.now() - began
        };
        let copy_planes = |luma: &mut [u8], blue: &mut [u8], red: &mut [u8]| {
            luma.copy_from_slice(black_box(&picture.luma));
            blue.copy_from_slice(black_box(&picture.blue));
            red.copy_from_slice(black_box(&picture.red));
        };
        let mut copy = vec![0; packed.len()];
        measured("a copy of RGBA", &mut || timed(&mut || black_box(&mut copy).copy_from_slice(black_box(&packed))));
        let mut copy = vec![0; size.pixels() * 3 / 2];
        measured("a copy of I420", &mut || {
            let (luma, rest) = copy.split_at_mut(size.pixels());
            let (blue, red) = rest.split_at_mut(size.pixels() / 4);
            timed(&mut || copy_planes(luma, blue, red))
        });
        measured("a copy of I420 into lent planes", &mut || {
            let mut planes = host.lend(size).expect("planes");
            let spent = timed(&mut || copy_planes(&mut planes.luma, &mut planes.blue, &mut planes.red));
            host.submit_planes(planes, &Content::default()).expect("a picture");
            spent
        });
        for (name, layout, rows) in [
            ("RGBA", Layout::Packed(PixelOrder::Rgba, plane), Rows::TopDown),
            ("RGBA, bottom up", Layout::Packed(PixelOrder::Rgba, plane), Rows::BottomUp),
            ("I420", Layout::I420(planes), Rows::TopDown),
        ] {
            measured(name, &mut || timed(&mut || host.submit(&image(layout, rows)).expect("a picture")));
        }
        measured("lent planes", &mut || {
            timed(&mut || {
                let planes = host.lend(size).expect("planes");
                host.submit_planes(planes, &Content::default()).expect("a picture");
            })
        });
        group.finish();
        host.close().expect("an end");
        stop.send(true).expect("a viewer");
        let _ = viewer.join();
    }
}

criterion_group!(benches, submit);
criterion_main!(benches);
