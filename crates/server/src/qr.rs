//! Links for a phone's camera.

use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use qrcode::types::QrError;

/// The code of a link as lines of Unicode's block characters, with the quiet zone that cameras need. Fails where the text is too long.
pub fn qr_code(link: &str) -> Result<String, QrError> {
    Ok(QrCode::new(link)?.render::<Dense1x2>().quiet_zone(true).build())
}
