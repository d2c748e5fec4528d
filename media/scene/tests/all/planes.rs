//! Tests that the planes of the last pass equal those that the processor makes from the pixels.

use nearlight_codec::convert::{self, PixelOrder};
use nearlight_codec::{Picture, PictureView, Size};
use nearlight_scene::{
    AdapterSummary, Application as _, Backend, Conversion, PlanesView, RenderRequest, RenderedPicture, START,
    Source as _, Viewer, WorldSource, list_adapters,
};
use nearlight_units::Time;
use nearlight_wire::{Fov, Pose, View};

const ME: Viewer = Viewer(1);
/// Levels by which two results may differ: one for rounding the mean of four colours, and one for rounding the converted value.
const NEAR: u8 = 2;

/// Opens the plaza. The clock stands still, so that the first of two equal adapters is chosen and both worlds are the same.
fn plaza(backend: Backend, conversion: Conversion) -> WorldSource {
    WorldSource::plaza(backend, conversion, &|| Time::ZERO).expect("a graphics adapter")
}

/// Returns each interface that has an adapter. The first rows of pictures lie at different ends of their textures.
fn backends() -> Vec<Backend> {
    let mut all: Vec<Backend> = list_adapters().iter().map(AdapterSummary::interface).collect();
    all.dedup();
    assert!(!all.is_empty(), "no adapter; install Mesa's software renderer (apt install mesa-vulkan-drivers libegl1)");
    all
}

fn request(views: &[View], size: Size) -> RenderRequest<'_> {
    RenderRequest { viewer: ME, views, width: size.width, height: size.height }
}

/// Renders pixels and converts them by the processor.
fn by_processor(source: &mut WorldSource, views: &[View], size: Size) -> Picture {
    let mut picture = Picture::new(size);
    let take = &mut |rendered: RenderedPicture<'_>| {
        let RenderedPicture::Pixels(pixels) = rendered else { panic!("pixels were wanted") };
        assert_eq!((pixels.width, pixels.height), (size.width, size.height));
        let pixels = convert::Pixels { size, order: PixelOrder::Rgba, bytes: pixels.bytes, stride: pixels.stride };
        convert::to_picture(pixels, &mut picture).expect("a picture");
    };
    source.render(&request(views, size), take).expect("a picture");
    picture
}

/// Renders planes.
fn by_shader(source: &mut WorldSource, views: &[View], size: Size) -> Picture {
    let mut picture = Picture::new(size);
    let take = &mut |rendered: RenderedPicture<'_>| {
        let RenderedPicture::Planes(planes) = rendered else { panic!("planes were wanted") };
        let PlanesView { width, height, luma, blue, red, luma_stride, chroma_stride } = planes;
        assert_eq!((width, height), (size.width, size.height));
        let view = PictureView { size, luma, blue, red, luma_stride, chroma_stride };
        view.check().expect("all rows");
        view.copy_to(&mut picture);
    };
    source.render(&request(views, size), take).expect("a picture");
    picture
}

/// Returns a pseudo-random view on the plaza, a different one for each number.
fn view(number: u32, aspect: f32) -> View {
    let part = |factor: f32| (number as f32 * factor).fract();
    let (sin, cos) = (part(0.618) * std::f32::consts::PI).sin_cos();
    let position = [6.0 * part(0.371) - 3.0, 1.0 + part(0.77), 6.0 * part(0.529) - 3.0];
    let pose = Pose { position, orientation: [0.0, sin, 0.0, cos] };
    View { pose, fov: Fov::symmetric(0.7 + 0.6 * part(0.447), aspect) }
}

#[test]
fn planes_by_the_last_pass_are_those_by_the_processor() {
    for backend in backends() {
        compare(plaza(backend, Conversion::Processor), plaza(backend, Conversion::Shader));
    }
}

/// Checks that both draw the same, at several sizes, for one eye and for two.
fn compare(mut pixels: WorldSource, mut planes: WorldSource) {
    let size = |width, height| Size { width, height };
    // The sizes have rows that are and that are not multiples of the copies' alignment, and halves that begin between two chroma samples.
    let sizes = [size(640, 360), size(16, 16), size(1_002, 562), size(254, 258), size(640, 360)];
    for (number, size) in (0..).zip(sizes) {
        for source in [&mut pixels, &mut planes] {
            source.advance(Time::from_millis(u64::from(number) * 700));
        }
        let aspect = f32::from(size.width) / f32::from(size.height);
        for views in [vec![view(number, aspect)], vec![view(number, aspect / 2.0), view(number + 50, aspect / 2.0)]] {
            let [one, other] = [by_processor(&mut pixels, &views, size), by_shader(&mut planes, &views, size)];
            let colours = [(&one.luma, &other.luma), (&one.blue, &other.blue), (&one.red, &other.red)];
            for (name, (one, other)) in ["luma", "blue", "red"].into_iter().zip(colours) {
                let worst = one.iter().zip(other).map(|(one, other)| one.abs_diff(*other)).max();
                assert!(
                    worst <= Some(NEAR),
                    "{}: {size}, {} views: {name} by {worst:?}",
                    planes.describe(),
                    views.len()
                );
            }
            let (darkest, lightest) = (one.luma.iter().min(), one.luma.iter().max());
            assert!(size.width < 100 || lightest.zip(darkest).is_some_and(|(most, least)| most - least > 60), "{size}");
        }
    }
}

#[test]
fn the_source_tells_what_converts() {
    let backend = Backend::default().or_environment().expect("a known backend");
    for (conversion, by) in [(Conversion::Shader, "by a shader"), (Conversion::Processor, "by the processor")] {
        let told = plaza(backend, conversion).describe();
        assert!(told.contains(by), "{conversion:?}: {told}");
    }
    let mut auto = plaza(backend, Conversion::Auto);
    let expected = if auto.describe().contains("software") { "by the processor" } else { "by a shader" };
    assert!(auto.describe().contains(expected), "{}", auto.describe());
    let views = [View { pose: START, fov: Fov::symmetric(1.0, 1.0) }];
    let mut is_planes = None;
    let size = Size { width: 64, height: 64 };
    let take = &mut |rendered: RenderedPicture<'_>| is_planes = Some(matches!(rendered, RenderedPicture::Planes(_)));
    auto.render(&request(&views, size), take).expect("a picture");
    assert_eq!(is_planes, Some(expected.ends_with("shader")));
}
