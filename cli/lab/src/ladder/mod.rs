//! OpenUVR's optimisations (RTAS 2021, table II) one after another, each as a switch whose effect is measured.
//!
//! A picture is finished in a program's memory; a device has it decoded. Everything in between uses the product's own parts: conversion and codec
//! (`codec`), Ethernet frames (`packet`), segmentation offload (`quinn-udp`). The steps differ in one thing each, and their turns are interleaved, so
//! that other load on the machine hits all of them alike. The step that concerns the Wi-Fi alone runs in virtual time (`wifi`).

mod clock;
mod cpu;
mod device;
mod host;
mod network;
mod other_process;
mod pictures;
mod published;
mod report;
mod run;
mod step;
mod wifi;

pub(crate) use other_process::draw;
pub(crate) use report::{Figures, Ladder, Rung, SizeReport};
pub(crate) use run::{LadderError, Options, run};
pub(crate) use step::Step;
