//! Loads Hera into the kernel.

use std::fs;
use std::mem::MaybeUninit;
use std::path::Path;

use libbpf_rs::skel::{OpenSkel as _, SkelBuilder as _};
use libbpf_rs::{Error, ErrorKind, Link};

use crate::instances::attached_map;
use crate::programs::{hera, listen, reason};
use crate::{KernelError, LoadOptions, Parameters, support, system};

/// Hera in the kernel: unregistered when this is dropped, or when the process ends in any way, unless it is pinned. Flows that use it
/// keep it until they end.
pub struct LoadedLaw {
    link: Link,
    name: String,
}

impl std::fmt::Debug for LoadedLaw {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LoadedLaw").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Loads and registers Hera: from then on, every socket in every network namespace may select it by its name.
pub fn load(options: &LoadOptions) -> Result<LoadedLaw, KernelError> {
    options.check()?;
    support::check()?;
    let available = nearlight_net::tcp::available_congestion_control().unwrap_or_default();
    if available.contains(&options.name) {
        return Err(KernelError::AlreadyLoaded(options.name.clone()));
    }
    if options.pin {
        system::make_pin_folder()?;
    }
    listen();
    let mut place = MaybeUninit::uninit();
    let mut open = hera::HeraSkelBuilder::default().open(&mut place).map_err(|error| refusal("Hera", &error))?;
    let named = named(&options.name);
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.parameters = parameters(&Parameters::from(options.hera));
        constants.registered_as = named.map(|byte| byte as _);
    }
    // The structure that is registered begins with its name (bpf/kernel.h).
    if let Some(law) = open.maps.hera.initial_value_mut() {
        law[..named.len()].copy_from_slice(&named);
    }
    let mut programs = open.load().map_err(|error| refusal("Hera", &error))?;
    let mut link = programs.maps.hera.attach_struct_ops().map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => KernelError::AlreadyLoaded(options.name.clone()),
        _ => refusal("Hera's registration", &error),
    })?;
    if options.pin {
        let path = system::pin_path(&options.name);
        // A detached link leaves this behind.
        let _ = fs::remove_file(&path);
        link.pin(&path).map_err(|error| refusal("to keep Hera", &error))?;
    }
    Ok(LoadedLaw { link, name: options.name.clone() })
}

impl LoadedLaw {
    /// Returns whether sockets can select the law, which means that it has not been unloaded.
    pub fn is_registered(&self) -> bool {
        attached_map(&self.link).is_some()
    }
}

fn named(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    // Checked before: shorter than that, with a zero at the end.
    bytes.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
    bytes
}

fn parameters(from: &Parameters) -> hera::types::hera_parameters {
    hera::types::hera_parameters {
        buckets: from.buckets,
        bucket_us: from.bucket_us,
        backlog: from.backlog,
        max_delta: from.max_delta,
        limit: from.limit.unwrap_or(0),
        least: from.least,
        most: from.most,
        as_printed: u32::from(from.reading == "as-printed"),
        each_sample: u32::from(from.step == "sample"),
    }
}

/// Translates a refusal of the kernel into an error.
pub(crate) fn refusal(what: &'static str, error: &Error) -> KernelError {
    let reason = reason(error);
    match error.kind() {
        ErrorKind::PermissionDenied if !reason.contains("prog") => KernelError::Contained,
        // The type by which a kernel with struct_ops describes a congestion control.
        _ if reason.contains("struct_ops") && !has_struct_ops() => {
            KernelError::NoStructOps { release: support::release() }
        }
        _ => KernelError::Refused { what, reason },
    }
}

fn has_struct_ops() -> bool {
    let types = fs::read(Path::new("/sys/kernel/btf/vmlinux")).unwrap_or_default();
    let name = b"bpf_struct_ops_tcp_congestion_ops\0";
    types.windows(name.len()).any(|window| window == name)
}
