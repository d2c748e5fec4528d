//! Submitting a picture allocates no memory in the submitting thread, except for the first few pictures of a size.

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;
use std::time::Duration;

use nearlight_client::headless::watch_until;
use nearlight_client::{HeadlessOptions, ViewOptions};
use nearlight_embed::{Content, EventKind, Host, Image, Layout, Options, Picture, PixelOrder, Plane, Rows, Size, View};
use nearlight_embed::{Fov, Pose};
use nearlight_net::Clock;
use tokio::sync::watch;

/// An allocator that counts each thread's allocations.
struct CountingAllocator;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: delegates to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        count();
        // SAFETY: the caller guarantees the system allocator's requirements.
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, memory: Memory) {
        // SAFETY: the caller guarantees the system allocator's requirements.
        unsafe { System.dealloc(pointer, memory) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, memory: Memory, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller guarantees the system allocator's requirements.
        unsafe { System.realloc(pointer, memory, size) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const SIZE: Size = Size { width: 320, height: 192 };

fn allocations(work: impl FnOnce()) -> u64 {
    let before = COUNT.with(Cell::get);
    work();
    COUNT.with(Cell::get) - before
}

#[test]
fn a_picture_costs_its_thread_no_allocation() {
    let options = Options { address: Some([127, 0, 0, 1].into()), width: 320, height: 192, ..Options::default() };
    let host = Host::open(&options).expect("a server");
    let link = host.links().remove(0);
    let (stop, stopped) = watch::channel(false);
    let viewer = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an event loop");
        let options = HeadlessOptions::new(ViewOptions::new(link));
        runtime.block_on(watch_until(options, Clock::start(), stopped))
    });
    let mut waits = 0;
    while !host.wait_event(Duration::from_secs(1)).is_some_and(|event| event.kind == EventKind::ViewerJoined) {
        waits += 1;
        assert!(waits < 60, "nobody comes");
    }
    let bytes = vec![100; SIZE.pixels() * 4];
    let view = View { pose: Pose::default(), fov: Fov::symmetric(1.0, 1.6) };
    let layout = Layout::Packed(PixelOrder::Rgba, Plane { bytes: &bytes, stride: 1_280 });
    let submit = |rows| {
        let content = Content { views: std::slice::from_ref(&view), ..Content::default() };
        let picture = Picture { content, ..Picture::new(Image { size: SIZE, layout, rows }) };
        host.submit(&picture).expect("a picture");
    };
    let lend = || {
        let mut planes = host.lend(SIZE).expect("planes");
        planes.luma[0] ^= 1;
        host.submit_planes(planes, &Content::default()).expect("a picture");
    };
    let counts: Vec<u64> = (0..200)
        .map(|number| {
            std::thread::park_timeout(Duration::from_millis(5));
            allocations(|| match number % 3 {
                0 => submit(Rows::TopDown),
                1 => submit(Rows::BottomUp),
                _ => lend(),
            })
        })
        .collect();
    assert!(host.is_watched(), "somebody watched all the time");
    // On a busy machine, one more buffer than before may be in use, which is then allocated and kept.
    let made = counts[50..].iter().filter(|&&count| count > 0).count();
    assert!(made <= 4, "{counts:?}");
    host.close().expect("an end");
    stop.send(true).expect("a viewer");
    let summary = viewer.join().expect("no panic").expect("a run");
    assert!(summary.frames.displayed > 0, "{:?}", summary.frames);
}
