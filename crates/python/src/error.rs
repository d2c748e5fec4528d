//! Errors of the library as exceptions of the package.

use nearlight_embed::HostError;
use nearlight_lab::{PlanError, RunnerError};
use nearlight_viewer::{MessageError, ViewerError};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// A class of `nearlight._errors`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Class {
    /// None of the others.
    Error,
    /// The caller's fault.
    Usage,
    Closed,
    Full,
    Refused,
    NoServer,
}

impl Class {
    const fn name(self) -> &'static str {
        match self {
            Self::Error => "Error",
            Self::Usage => "UsageError",
            Self::Closed => "ClosedError",
            Self::Full => "FullError",
            Self::Refused => "RefusedError",
            Self::NoServer => "NoServerError",
        }
    }

    pub(crate) fn because(self, message: impl ToString) -> PyErr {
        let message = message.to_string();
        Python::attach(|py| {
            let class = py.import("nearlight._errors").and_then(|errors| errors.getattr(self.name()));
            match class.and_then(|class| class.cast_into::<PyType>().map_err(PyErr::from)) {
                Ok(class) => PyErr::from_type(class, message),
                Err(_) => PyRuntimeError::new_err(message),
            }
        })
    }
}

/// What no value of the expected kind can be read from.
pub(crate) fn wrong_type(message: impl Into<String>) -> PyErr {
    PyTypeError::new_err(message.into())
}

pub(crate) fn of_host(error: &HostError) -> PyErr {
    let class = match error {
        HostError::Options(_)
        | HostError::Picture(_)
        | HostError::Views(_)
        | HostError::NoViewer(_)
        | HostError::TooLong { .. }
        | HostError::Output(_)
        | HostError::Sound(_)
        | HostError::NoSound => Class::Usage,
        HostError::Full => Class::Full,
        HostError::Closed => Class::Closed,
        HostError::Server(_) | HostError::System(_) | HostError::Failed(_) | HostError::CloseFromCallback => {
            Class::Error
        }
    };
    class.because(error)
}

pub(crate) fn of_viewer(error: &ViewerError) -> PyErr {
    let class = match error {
        ViewerError::Refused { .. } | ViewerError::NoToken | ViewerError::Impostor { .. } => Class::Refused,
        ViewerError::NoServer { .. } | ViewerError::NoPicture { .. } => Class::NoServer,
        ViewerError::Codec(_)
        | ViewerError::Input(_)
        | ViewerError::TooMany { .. }
        | ViewerError::Usage(_)
        | ViewerError::Message(MessageError::TooLong { .. }) => Class::Usage,
        ViewerError::Full | ViewerError::Message(MessageError::Full) => Class::Full,
        ViewerError::Closed | ViewerError::Message(MessageError::Ended) => Class::Closed,
        ViewerError::Net(_)
        | ViewerError::Sound(_)
        | ViewerError::File { .. }
        | ViewerError::System { .. }
        | ViewerError::Ended(_) => Class::Error,
    };
    class.because(error)
}

pub(crate) fn of_plan(error: &PlanError) -> PyErr {
    Class::Usage.because(error)
}

pub(crate) fn of_runner(error: &RunnerError) -> PyErr {
    let class = match error {
        RunnerError::NothingLeft { .. }
        | RunnerError::NotLive { .. }
        | RunnerError::OtherShard { .. }
        | RunnerError::EmptyShard { .. } => Class::Usage,
        RunnerError::Folder { .. } | RunnerError::Run { .. } => Class::Error,
    };
    class.because(error)
}
