//! Writers of pcap and pcapng.

use super::Datagram;

pub const SERVER: ([u8; 4], u16) = ([192, 168, 0, 2], 50_000);
pub const CLIENT: ([u8; 4], u16) = ([192, 168, 0, 7], 40_000);

/// How packets are wrapped and stored.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub link: Link,
    pub big_endian: bool,
    pub nanoseconds: bool,
    pub ipv6: bool,
    /// Bytes kept of each packet.
    pub snaplen: usize,
    /// Added to every time: the capturing machine's clock, nanoseconds since 1970 at the stream's beginning.
    pub epoch: i64,
    /// Parts per million that this clock runs too fast.
    pub drift_ppm: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Ethernet,
    Vlan,
    RawIp,
    Null,
    Sll,
    Sll2,
}

pub const EPOCH: i64 = 1_700_000_000_000_000_000;

impl Default for Form {
    fn default() -> Self {
        Self {
            link: Link::Ethernet,
            big_endian: false,
            nanoseconds: true,
            ipv6: false,
            snaplen: 96,
            epoch: EPOCH,
            drift_ppm: 0.0,
        }
    }
}

impl Form {
    fn nanos(&self, datagram: &Datagram) -> u64 {
        let drift = (datagram.nanos as f64 * self.drift_ppm * 1e-6) as i64;
        (self.epoch + datagram.nanos + drift) as u64
    }

    fn number(&self, number: u32) -> [u8; 4] {
        if self.big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn short(&self, number: u16) -> [u8; 2] {
        if self.big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn link_type(&self) -> u16 {
        match self.link {
            Link::Null => 0,
            Link::Ethernet | Link::Vlan => 1,
            Link::RawIp => 101,
            Link::Sll => 113,
            Link::Sll2 => 276,
        }
    }

    /// The packet's bytes and its whole length.
    fn packet(&self, datagram: &Datagram) -> (Vec<u8>, u32) {
        let mut bytes = self.frame(datagram);
        let length = bytes.len() as u32;
        bytes.truncate(self.snaplen);
        (bytes, length)
    }

    pub fn frame(&self, datagram: &Datagram) -> Vec<u8> {
        let ether: u16 = if self.ipv6 { 0x86dd } else { 0x0800 };
        let mut bytes = match self.link {
            Link::RawIp => Vec::new(),
            Link::Null => self.number(if self.ipv6 { 30 } else { 2 }).to_vec(),
            Link::Ethernet => [&[2; 12][..], &ether.to_be_bytes()].concat(),
            Link::Vlan => [&[2; 12][..], &[0x81, 0, 0, 5], &ether.to_be_bytes()].concat(),
            Link::Sll => [&[0; 14][..], &ether.to_be_bytes()].concat(),
            Link::Sll2 => [&ether.to_be_bytes()[..], &[0; 18]].concat(),
        };
        let (from, to) = if datagram.down { (SERVER, CLIENT) } else { (CLIENT, SERVER) };
        let udp = 8 + datagram.payload.len() as u16;
        if self.ipv6 {
            bytes.extend([0x60, 0, 0, 0]);
            bytes.extend(udp.to_be_bytes());
            bytes.extend([17, 64]);
            for address in [from.0, to.0] {
                bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                bytes.extend(address);
            }
        } else {
            bytes.extend([0x45, 0]);
            bytes.extend((20 + udp).to_be_bytes());
            bytes.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
            bytes.extend(from.0);
            bytes.extend(to.0);
        }
        for field in [from.1, to.1, udp, 0] {
            bytes.extend(field.to_be_bytes());
        }
        bytes.extend(&datagram.payload);
        bytes
    }
}

pub fn pcap(form: &Form, datagrams: &[Datagram]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(form.number(if form.nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }));
    file.extend([form.short(2), form.short(4)].concat());
    for field in [0, 0, form.snaplen as u32, u32::from(form.link_type())] {
        file.extend(form.number(field));
    }
    for datagram in datagrams {
        let (bytes, length) = form.packet(datagram);
        let nanos = form.nanos(datagram);
        let fraction = (nanos % 1_000_000_000) as u32;
        let fraction = if form.nanoseconds { fraction } else { fraction / 1_000 };
        for field in [(nanos / 1_000_000_000) as u32, fraction, bytes.len() as u32, length] {
            file.extend(form.number(field));
        }
        file.extend(bytes);
    }
    file
}

pub fn pcapng(form: &Form, datagrams: &[Datagram]) -> Vec<u8> {
    let mut file = Vec::new();
    let section = [&form.number(0x1a2b_3c4d)[..], &form.short(1), &form.short(0), &[0xff; 8]].concat();
    block(form, &mut file, 0x0a0d_0d0a, &section);
    let mut interface = [&form.short(form.link_type())[..], &[0; 2], &form.number(form.snaplen as u32)].concat();
    interface.extend([form.short(9), form.short(1)].concat());
    interface.extend([if form.nanoseconds { 9 } else { 6 }, 0, 0, 0]);
    interface.extend([0; 4]);
    block(form, &mut file, 1, &interface);
    // A comment of an unknown kind.
    block(form, &mut file, 0x0bad, &[7; 12]);
    for datagram in datagrams {
        let (bytes, length) = form.packet(datagram);
        let units = form.nanos(datagram) / if form.nanoseconds { 1 } else { 1_000 };
        let mut body = Vec::new();
        for field in [0, (units >> 32) as u32, units as u32, bytes.len() as u32, length] {
            body.extend(form.number(field));
        }
        body.extend(bytes);
        block(form, &mut file, 6, &body);
    }
    // What the interface dropped: three packets.
    let mut statistics = [form.number(0), form.number(0), form.number(0)].concat();
    statistics.extend([form.short(5), form.short(8)].concat());
    let drops = if form.big_endian { 3_u64.to_be_bytes() } else { 3_u64.to_le_bytes() };
    statistics.extend(drops);
    block(form, &mut file, 5, &statistics);
    file
}

pub fn block(form: &Form, file: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let padded = body.len().next_multiple_of(4);
    let length = form.number(padded as u32 + 12);
    file.extend(form.number(kind));
    file.extend(length);
    file.extend(body);
    file.resize(file.len() + padded - body.len(), 0);
    file.extend(length);
}
