//! Systems without `AF_PACKET`.

use std::io;

use nearlight_ethernet::HardwareAddress;

use crate::{Frames, PacketError};

/// Never opened here.
#[derive(Debug)]
pub enum PacketSocket {}

impl PacketSocket {
    pub fn open(_: &str) -> Result<Self, PacketError> {
        Err(PacketError::NotLinux)
    }

    pub fn try_clone(&self) -> io::Result<Self> {
        match *self {}
    }

    #[must_use]
    pub fn name(&self) -> &str {
        match *self {}
    }

    #[must_use]
    pub const fn address(&self) -> HardwareAddress {
        match *self {}
    }

    pub fn mtu(&self) -> Result<usize, PacketError> {
        match *self {}
    }

    pub fn rebind(&self) -> Result<(), PacketError> {
        match *self {}
    }

    pub fn send(&self, _: HardwareAddress, _: &[Vec<u8>]) -> io::Result<usize> {
        match *self {}
    }

    pub fn recv(&self, _: &mut Frames) -> io::Result<()> {
        match *self {}
    }
}

/// None.
#[must_use]
pub fn interfaces() -> Vec<String> {
    Vec::new()
}
