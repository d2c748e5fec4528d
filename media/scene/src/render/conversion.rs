//! The choice of where rendered pixels are converted into the planes of encoders.

use std::str::FromStr;

/// The converter of rendered pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conversion {
    /// A shader if a GPU draws; the processor if it draws as well.
    #[default]
    Auto,
    /// The last pass draws planes, which are read back.
    Shader,
    /// Pixels are read back, and the processor converts them.
    Processor,
}

impl Conversion {
    /// Returns whether the last pass draws planes on an adapter of this kind.
    pub(super) const fn draws_planes(self, software: bool) -> bool {
        match self {
            Self::Auto => !software,
            Self::Shader => true,
            Self::Processor => false,
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("there is no conversion `{0}`: use auto, shader or processor")]
pub struct UnknownConversion(String);

impl FromStr for Conversion {
    type Err = UnknownConversion;

    fn from_str(name: &str) -> Result<Self, UnknownConversion> {
        match name {
            "auto" => Ok(Self::Auto),
            "shader" => Ok(Self::Shader),
            "processor" => Ok(Self::Processor),
            _ => Err(UnknownConversion(name.to_owned())),
        }
    }
}
