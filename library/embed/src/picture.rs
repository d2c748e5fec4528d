//! Pictures that programs submit.

use nearlight_codec::image::{self, Image};
use nearlight_codec::{Picture as CodedPicture, Size};
use nearlight_scene::Planes;
use nearlight_units::Time;
use nearlight_wire::View;

use crate::HostError;

/// GLSL source that converts pixels into planes, for the last pass of a program that draws directly into the encoder's format.
///
/// The program defines `nearlight_pixel`, the colour of a pixel counted from the top left, each component from 0 to 1.
/// `nearlight_plane(ivec2(gl_FragCoord.xy), size)` then returns the value for a target of one byte a pixel (`GL_R8`) with the picture's
/// width and one and a half times its height. In the order of `glReadPixels`, its rows are the luma rows, top down, and then those of both
/// chroma planes: blue differences in the left half, red differences in the right half.
pub const PLANES_SHADER: &str = include_str!("planes.glsl");

/// Describes what a picture shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Content<'a> {
    /// The time that the picture shows, on the clock of [`crate::Host::now`]. `None` means the time of submission, as does a time in the
    /// future.
    pub captured_at: Option<Time>,
    /// The views for which it was rendered: one, or those of the left and the right eye. Empty when it does not depend on a viewer's pose.
    pub views: &'a [View],
    /// Whether its left half is for the left eye and its right half for the right eye.
    pub side_by_side: bool,
}

/// A finished picture, borrowed for the duration of one call.
#[derive(Clone, Copy, Debug)]
pub struct Picture<'a> {
    /// The whole picture, or the left eye's part when there is a right one.
    pub image: Image<'a>,
    /// The right eye's part, of the same size.
    pub right: Option<Image<'a>>,
    pub content: Content<'a>,
}

impl<'a> Picture<'a> {
    /// Creates a picture of the current time that does not depend on a viewer's pose.
    #[must_use]
    pub fn new(image: Image<'a>) -> Self {
        Self { image, right: None, content: Content::default() }
    }

    /// Returns whether the picture has a part for each eye, in one image or in two.
    pub(crate) const fn is_stereo(&self) -> bool {
        self.content.side_by_side || self.right.is_some()
    }

    /// Returns the size of the picture, with both eyes' parts side by side.
    pub(crate) fn size(&self) -> Size {
        let Size { width, height } = self.image.size;
        let eyes = if self.right.is_some() { 2 } else { 1 };
        Size { width: width.saturating_mul(eyes), height }
    }

    pub(crate) fn check(&self) -> Result<(), HostError> {
        self.image.check()?;
        if let Some(right) = &self.right {
            right.check()?;
            if right.size != self.image.size {
                return Err(HostError::Views("both eyes' pictures must have one size"));
            }
            if self.content.side_by_side {
                return Err(HostError::Views("a picture with a right eye's layer is not side by side as well"));
            }
        }
        check(self.size(), self.content.views, self.is_stereo())
    }

    /// Converts the picture into the planes, and returns them whether that succeeds or not.
    pub(crate) fn write(&self, planes: Planes) -> (Planes, Result<(), HostError>) {
        let Planes { width, height, luma, blue, red } = planes;
        let mut picture = CodedPicture { size: Size { width, height }, luma, blue, red };
        let converted = image::to_picture(&self.image, self.right.as_ref(), &mut picture);
        let CodedPicture { size: Size { width, height }, luma, blue, red } = picture;
        (Planes { width, height, luma, blue, red }, converted.map_err(HostError::from))
    }
}

/// Checks that a picture of this size, for one or two eyes, can have been rendered for these views.
pub(crate) fn check(size: Size, views: &[View], stereo: bool) -> Result<(), HostError> {
    size.check()?;
    if stereo && !size.width.is_multiple_of(4) {
        return Err(HostError::Views("each half of a picture for two eyes must have an even width"));
    }
    if views.len() > 2 || stereo && views.len() == 1 || !stereo && views.len() == 2 {
        return Err(HostError::Views("a picture has no views, or one per eye: two for a stereo picture, else one"));
    }
    if views.iter().any(|view| view.check().is_err()) {
        return Err(HostError::Views(
            "a view has a number that is not finite, a position beyond 10 km, an orientation that is not a unit quaternion, \
             or a field of view without width or height",
        ));
    }
    Ok(())
}
