//! Pictures as programs hand them over.

use nearlight_codec::image::{self, Image};
use nearlight_codec::{Picture as CodedPicture, Size};
use nearlight_scene::Planes;
use nearlight_units::Time;
use nearlight_wire::View;

use crate::HostError;

/// GLSL that makes planes out of pixels, for the last pass of a program that draws straight into the encoder's format: nothing is converted
/// afterwards. The program defines `nearlight_pixel`, the colour of a pixel counted from the top left, each part from 0 to 1.
/// `nearlight_plane(ivec2(gl_FragCoord.xy), size)` is then the value of a target of one byte a pixel (`GL_R8`), as wide as the picture and half
/// as high again. Its rows are, from the first that `glReadPixels` answers: luma, top down, then those of both chroma planes, the blue
/// differences' in the left half and the red ones' in the right half.
pub const PLANES_SHADER: &str = include_str!("planes.glsl");

/// What a picture shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Content<'a> {
    /// When, on [`crate::Host::now`]'s clock; none: now. What lies ahead counts as now.
    pub captured_at: Option<Time>,
    /// The views that it was rendered for, one, or left and right eye; empty where it does not depend on where anybody is.
    pub views: &'a [View],
    /// Its left half is for the left eye and its right half for the right one.
    pub side_by_side: bool,
}

/// A finished picture, borrowed for the length of one call.
#[derive(Clone, Copy, Debug)]
pub struct Picture<'a> {
    /// The whole picture, or the left eye's where there is a right one.
    pub image: Image<'a>,
    /// The right eye's, of the same size.
    pub right: Option<Image<'a>>,
    pub content: Content<'a>,
}

impl<'a> Picture<'a> {
    /// A picture that does not depend on where anybody is, of this moment.
    #[must_use]
    pub fn new(image: Image<'a>) -> Self {
        Self { image, right: None, content: Content::default() }
    }

    /// Whether it has a half for each eye, one way or the other.
    pub(crate) const fn is_stereo(&self) -> bool {
        self.content.side_by_side || self.right.is_some()
    }

    /// The size with both eyes.
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

    /// Converts it into the planes, which it gives back whether that succeeds or not.
    pub(crate) fn write(&self, planes: Planes) -> (Planes, Result<(), HostError>) {
        let Planes { width, height, luma, blue, red } = planes;
        let mut picture = CodedPicture { size: Size { width, height }, luma, blue, red };
        let converted = image::to_picture(&self.image, self.right.as_ref(), &mut picture);
        let CodedPicture { size: Size { width, height }, luma, blue, red } = picture;
        (Planes { width, height, luma, blue, red }, converted.map_err(HostError::from))
    }
}

/// Whether a picture of this size, for one or two eyes, can have been rendered for these views.
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
