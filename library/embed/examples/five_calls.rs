//! Nearlight in five calls: a picture in plain memory, seen and touched in a browser.
//!
//!     cargo run --release --package nearlight-embed --example five_calls
//!
//! Open the link that it prints. Keys change the colours, the square follows the pointer, and Escape ends the program.

use std::thread;
use std::time::Duration;

use nearlight_embed::{
    EventKind, Host, HostError, Image, InputEvent, Layout, Options, Picture, PixelOrder, Plane, Rows, Size,
};

const SIZE: Size = Size { width: 1280, height: 720 };
const STRIDE: usize = SIZE.width as usize * 4;
/// Half of the square's side, in pixels.
const HALF_SIDE: usize = 40;

#[expect(clippy::disallowed_methods, reason = "the program sets its own pace")]
fn main() -> Result<(), HostError> {
    // One: open.
    let host = Host::open(&Options { width: SIZE.width, height: SIZE.height, ..Options::default() })?;
    // Two: print the links.
    for link in host.links() {
        println!("{link}");
    }
    let mut pixels = vec![0; STRIDE * usize::from(SIZE.height)];
    let (mut colour, mut square, mut pressed) = (4, [640, 360], false);
    for moment in 0.. {
        // Three: take the viewers' input.
        let mut ended = false;
        while let Some(event) = host.poll_event() {
            match event.kind {
                EventKind::Input(InputEvent::Key { key, pressed: true }) => {
                    colour = colour % 7 + 1;
                    ended |= key.is("Escape");
                }
                EventKind::Input(InputEvent::Button { pressed: is, .. }) => pressed = is,
                _ => {}
            }
        }
        if ended {
            break;
        }
        if let Some(pointer) = host.driver().and_then(|viewer| viewer.devices.pointer) {
            let [x, y] = pointer.at.fractions();
            square = [(x * f32::from(SIZE.width)) as usize, (y * f32::from(SIZE.height)) as usize];
        }
        draw(&mut pixels, moment, colour, square, pressed);
        // Four: submit the picture.
        let layout = Layout::Packed(PixelOrder::Rgba, Plane { bytes: &pixels, stride: STRIDE });
        host.submit(&Picture::new(Image { size: SIZE, layout, rows: Rows::TopDown }))?;
        thread::sleep(Duration::from_secs(1) / 60);
    }
    // Five: close.
    host.close()
}

/// Draws moving stripes, and a square at the pointer.
fn draw(pixels: &mut [u8], moment: usize, colour: usize, square: [usize; 2], pressed: bool) {
    for (row, line) in pixels.chunks_exact_mut(STRIDE).enumerate() {
        for (column, pixel) in line.chunks_exact_mut(4).enumerate() {
            let level = ((column + row + 2 * moment) / 2 % 128) as u8;
            let inside = column.abs_diff(square[0]) < HALF_SIDE && row.abs_diff(square[1]) < HALF_SIDE;
            let lit = |bit: usize| if colour >> bit & 1 == 1 { level } else { 0 };
            let [red, green, blue] =
                if inside { [255, if pressed { 0 } else { 255 }, 0] } else { [lit(0), lit(1), lit(2)] };
            pixel.copy_from_slice(&[red, green, blue, 255]);
        }
    }
}
