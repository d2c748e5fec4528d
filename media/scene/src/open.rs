//! Opens a source by name.

use std::path::PathBuf;

use nearlight_units::Time;

use crate::render::{Backend, Conversion};
use crate::{PushSource, SceneError, Source, TestCard, VideoSource, WorldSource, scene_file};

/// The kind of source to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// The shared world: the plaza, or what a glTF file describes.
    World {
        scene: Option<PathBuf>,
    },
    Video(PathBuf),
    TestCard,
    /// A source that the program provides, which [`open`] cannot open.
    Own,
}

impl SourceKind {
    /// Returns the files that the source reads, of which there are several for a scene with files beside it.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        match self {
            Self::World { scene } => scene.as_deref().map(scene_file::list_files).unwrap_or_default(),
            Self::Video(file) => vec![file.clone()],
            Self::TestCard | Self::Own => Vec::new(),
        }
    }

    /// Returns the source with the scene that lies in a folder instead of the folder, if one was given.
    pub fn found(self) -> Result<Self, SceneError> {
        match self {
            Self::World { scene: Some(path) } => Ok(Self::World { scene: Some(scene_file::find(&path)?) }),
            other => Ok(other),
        }
    }
}

/// Options for opening a source.
#[derive(Clone, Copy)]
pub struct OpenOptions<'a> {
    pub backend: Backend,
    /// Which processor converts the pictures of a rendered world.
    pub conversion: Conversion,
    /// Size that a video is decoded to. Other sources draw any requested size.
    pub size: (u16, u16),
    /// Pictures per second of a video.
    pub fps: u16,
    /// Used to find the faster of two software renderers.
    pub clock: &'a dyn Fn() -> Time,
}

/// An opened source of one of the two kinds.
pub enum OpenedSource {
    OnDemand(Box<dyn Source>),
    SelfPaced(Box<dyn PushSource>),
}

/// Opens a source. A test card then draws on demand; callers that know its size can use [`crate::PacedTestCard`].
pub fn open(kind: &SourceKind, options: &OpenOptions<'_>) -> Result<OpenedSource, SceneError> {
    Ok(match kind {
        SourceKind::World { scene } => {
            let on = (options.backend.or_environment()?, options.conversion);
            let world = WorldSource::open(scene.clone(), on, options.clock)?;
            OpenedSource::OnDemand(Box::new(world))
        }
        SourceKind::Video(file) => {
            OpenedSource::SelfPaced(Box::new(VideoSource::open(file, options.size, options.fps)?))
        }
        SourceKind::TestCard => OpenedSource::OnDemand(Box::<TestCard>::default()),
        SourceKind::Own => return Err(SceneError::NoSource),
    })
}
