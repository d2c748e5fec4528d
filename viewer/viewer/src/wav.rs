//! Sound as a WAV file: 48 kHz, two channels, 16 bits a sample.

use std::fs::File;
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write as _};

use nearlight_wire::SOUND_RATE;

const CHANNELS: u16 = 2;
const SAMPLE_BYTES: u16 = 2;
/// Bytes before the samples.
const HEADER_BYTES: u32 = 44;

pub struct WavWriter {
    file: BufWriter<File>,
    /// Bytes of samples so far. The format counts to 4 GiB: six hours.
    bytes: u32,
}

impl WavWriter {
    pub fn new(file: File) -> io::Result<Self> {
        let mut writer = Self { file: BufWriter::new(file), bytes: 0 };
        writer.write_header()?;
        Ok(writer)
    }

    /// Appends samples, left and right in turn.
    pub fn write(&mut self, samples: &[f32]) -> io::Result<()> {
        let bytes: Vec<u8> = samples
            .iter()
            .flat_map(|sample| ((sample.clamp(-1.0, 1.0) * f32::from(i16::MAX)).round() as i16).to_le_bytes())
            .collect();
        let Some(total) = self.bytes.checked_add(bytes.len() as u32).filter(|bytes| *bytes < u32::MAX - HEADER_BYTES)
        else {
            return Ok(());
        };
        self.bytes = total;
        self.file.write_all(&bytes)
    }

    /// Completes the file with what it contains so far.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.write_header()?;
        self.file.seek(SeekFrom::End(0))?;
        self.file.flush()
    }

    fn write_header(&mut self) -> io::Result<()> {
        let frame_bytes = CHANNELS * SAMPLE_BYTES;
        let mut header = Vec::with_capacity(HEADER_BYTES as usize);
        header.extend_from_slice(b"RIFF");
        header.extend_from_slice(&(self.bytes + HEADER_BYTES - 8).to_le_bytes());
        header.extend_from_slice(b"WAVEfmt ");
        header.extend_from_slice(&16_u32.to_le_bytes());
        // PCM samples.
        header.extend_from_slice(&1_u16.to_le_bytes());
        header.extend_from_slice(&CHANNELS.to_le_bytes());
        header.extend_from_slice(&SOUND_RATE.to_le_bytes());
        header.extend_from_slice(&(SOUND_RATE * u32::from(frame_bytes)).to_le_bytes());
        header.extend_from_slice(&frame_bytes.to_le_bytes());
        header.extend_from_slice(&(SAMPLE_BYTES * 8).to_le_bytes());
        header.extend_from_slice(b"data");
        header.extend_from_slice(&self.bytes.to_le_bytes());
        self.file.write_all(&header)
    }
}
