//! OpenUVR's optimisations (RTAS 2021, table II) one after another, each as a switch whose effect is measured.
//!
//! A picture is finished in a program's memory; a device has it decoded. What lies between is built from the parts that the product is
//! built from: conversion and codec (`codec`), Ethernet frames (`packet`), segmentation offload (`quinn-udp`). The steps differ in one thing
//! each, and their turns are interleaved, so that other load on the machine hits all of them alike. The step that concerns the Wi-Fi
//! alone runs in virtual time (`wifi`).

#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

mod clock;
mod cpu;
mod device;
mod film;
mod host;
mod network;
mod other_process;
mod published;
mod report;
mod run;
mod step;
mod wifi;

pub use other_process::draw;
pub use report::{Figures, Ladder, Rung, SizeReport};
pub use run::{LadderError, Options, run};
pub use step::Step;
