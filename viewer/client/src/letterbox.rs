//! Placement of a picture on a display or in a window of another aspect ratio.

use nearlight_codec::Size;

/// Returns the largest centred area with the picture's aspect ratio: left, top, width and height in pixels of `display`.
pub fn letterbox(picture: Size, display: (u32, u32)) -> [f32; 4] {
    let (width, height) = (f32::from(picture.width), f32::from(picture.height));
    let (wide, high) = (display.0 as f32, display.1 as f32);
    let scale = (wide / width).min(high / height);
    let (width, height) = ((width * scale).min(wide), (height * scale).min(high));
    [(wide - width) / 2.0, (high - height) / 2.0, width, height]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_keep_their_shape() {
        let picture = Size { width: 1280, height: 720 };
        let cases = [
            ((1280, 720), [0.0, 0.0, 1280.0, 720.0]),
            ((1280, 1000), [0.0, 140.0, 1280.0, 720.0]),
            ((1000, 360), [180.0, 0.0, 640.0, 360.0]),
            ((2560, 1440), [0.0, 0.0, 2560.0, 1440.0]),
        ];
        for (display, expected) in cases {
            let got = letterbox(picture, display);
            assert!(got.iter().zip(expected).all(|(got, wanted)| (got - wanted).abs() < 0.01), "{display:?}: {got:?}");
        }
    }
}
