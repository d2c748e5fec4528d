//! Systems without `AF_PACKET`.

use std::io;

use crate::link_layer::HardwareAddress;

use crate::packet::{Frames, PacketError};

/// The socket, which cannot be opened on this system.
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

/// Returns no names: there are no packet sockets on this system.
#[must_use]
pub fn interfaces() -> Vec<String> {
    Vec::new()
}
