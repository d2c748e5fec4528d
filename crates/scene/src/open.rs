//! Opens a source by name.

use std::path::{Path, PathBuf};

use nearlight_units::Time;

use crate::render::{Backend, Conversion};
use crate::{PushSource, SceneError, Source, TestCard, VideoSource, WorldSource};

/// What to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// The shared world: the plaza, or what a binary glTF file describes.
    World {
        scene: Option<PathBuf>,
    },
    Video(PathBuf),
    TestCard,
    /// The program that opens the server provides its own, which [`open`] does not know.
    Own,
}

impl SourceKind {
    /// The file that it needs.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::World { scene } => scene.as_deref(),
            Self::Video(file) => Some(file),
            Self::TestCard | Self::Own => None,
        }
    }
}

/// How to show it.
#[derive(Clone, Copy)]
pub struct OpenOptions<'a> {
    pub backend: Backend,
    /// What converts the pictures of a rendered world.
    pub conversion: Conversion,
    /// Size that a video is decoded to; the others draw any requested size.
    pub size: (u16, u16),
    /// Pictures a second of a video.
    pub fps: u16,
    /// Used to find the faster of two software renderers.
    pub clock: &'a dyn Fn() -> Time,
}

/// A source of one of the two kinds.
pub enum Opened {
    OnDemand(Box<dyn Source>),
    SelfPaced(Box<dyn PushSource>),
}

/// Opens a source. A test card draws on demand; [`crate::PacedTestCard`] is for callers that know its size.
pub fn open(kind: &SourceKind, options: &OpenOptions<'_>) -> Result<Opened, SceneError> {
    Ok(match kind {
        SourceKind::World { scene } => {
            let on = (options.backend.or_environment()?, options.conversion);
            let world = WorldSource::open(scene.clone(), on, options.clock)?;
            Opened::OnDemand(Box::new(world))
        }
        SourceKind::Video(file) => Opened::SelfPaced(Box::new(VideoSource::open(file, options.size, options.fps)?)),
        SourceKind::TestCard => Opened::OnDemand(Box::<TestCard>::default()),
        SourceKind::Own => return Err(SceneError::NoSource),
    })
}
