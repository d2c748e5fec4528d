//! The native part of the Python package `nearlight`: the embedded server, the viewer and the lab.
//!
//! It converts arguments and results, and releases the interpreter lock during everything that takes time. Names, defaults and
//! documentation for users are in `python/nearlight`, whose modules are the only callers. Signals end waits early, so that Ctrl-C works.

// Python's values become owned arguments, and its protocols call methods.
#![expect(clippy::needless_pass_by_value, clippy::unused_self, reason = "PyO3 prescribes the signatures")]

mod error;
mod event;
mod input;
mod lab;
mod memory;
mod pixels;
mod server;
mod sound;
mod value;
mod viewer;
mod wait;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    const PLANES_SHADER: &str = nearlight_embed::PLANES_SHADER;
    #[pymodule_export]
    use super::lab::{built_in_plan, built_in_plans, controllers, describe_plan, run_plan};
    #[pymodule_export]
    use super::server::Server;
    #[pymodule_export]
    use super::viewer::{Picture, PlaneMemory, Viewer};
}
