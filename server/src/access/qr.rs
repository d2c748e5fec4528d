//! QR codes of links, for a phone's camera.

use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use qrcode::types::QrError;

/// Returns the QR code of a link as lines of Unicode block characters, with the quiet zone that cameras need.
///
/// # Errors
/// If the text is too long for a QR code.
pub fn qr_code(link: &str) -> Result<String, QrError> {
    Ok(QrCode::new(link)?.render::<Dense1x2>().quiet_zone(true).build())
}
