//! Where rendered pixels become the planes that encoders take.

use std::str::FromStr;

/// What converts a rendered picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conversion {
    /// A shader on a graphics processor; the processor where that draws as well.
    #[default]
    Auto,
    /// The last pass draws planes, which are read back.
    Shader,
    /// Pixels are read back, and the processor converts them.
    Processor,
}

impl Conversion {
    /// Whether the last pass draws planes on an adapter of this kind.
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
