//! Pairing of this device by a code that a person types.

use nearlight_pairing::{Code, Exchange, Share, SharedKey};
use nearlight_wire::Bytes32;
use wasm_bindgen::prelude::*;

/// The client's end of a pairing. Shares and confirmations are hexadecimal digits, as the server's JSON has them.
#[wasm_bindgen]
pub struct DevicePairing {
    share: Share,
    exchange: Option<Exchange>,
    key: Option<SharedKey>,
}

#[wasm_bindgen]
impl DevicePairing {
    /// Starts with the code as it was typed and 32 random bytes.
    ///
    /// # Errors
    /// If the text is no code, with a sentence for its user.
    #[wasm_bindgen(constructor)]
    pub fn new(code: &str, seed: &[u8]) -> Result<Self, JsError> {
        let code: Code = code.parse()?;
        let seed = seed.try_into().map_err(|_| JsError::new("a seed has 32 bytes"))?;
        let (exchange, share) = Exchange::client(&code, seed);
        Ok(Self { share, exchange: Some(exchange), key: None })
    }

    /// Returns the share to send.
    pub fn share(&self) -> String {
        self.share.to_string()
    }

    /// Takes the server's share. Returns the confirmation to send, or nothing if the share is invalid.
    pub fn finish(&mut self, share: &str) -> Option<String> {
        let share = share.parse().ok()?;
        let key = self.exchange.take()?.finish(&share).ok()?;
        let confirmation = key.client_confirmation().to_string();
        self.key = Some(key);
        Some(confirmation)
    }

    /// Checks the server's confirmation. Returns the device's token, or nothing if the server does not know the code.
    pub fn token(&self, confirmation: &str) -> Option<String> {
        let confirmation: Bytes32 = confirmation.parse().ok()?;
        let key = self.key.as_ref()?;
        key.is_confirmed_by_server(&confirmation).then(|| key.device_token())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_and_a_server_agree_on_a_token() {
        let Ok(mut page) = DevicePairing::new("123 456", &[7; 32]) else { panic!("it is a code") };
        let code: Code = "123456".parse().expect("a code");
        let (server, share) = Exchange::server(&code, [8; 32]);
        let key = server.finish(&page.share().parse().expect("digits")).expect("a share");
        let confirmation = page.finish(&share.to_string()).expect("a share");
        assert!(key.is_confirmed_by_client(&confirmation.parse().expect("32 bytes")));
        assert_eq!(page.token(&key.client_confirmation().to_string()), None, "its own, sent back");
        assert_eq!(page.token(&key.server_confirmation().to_string()), Some(key.device_token()));
        assert_eq!(page.finish(&share.to_string()), None, "an exchange has one end");
    }

    #[test]
    fn what_is_no_share_is_refused() {
        for share in ["", "0", "zz", "é", &"00".repeat(33), &"ff".repeat(33)] {
            let Ok(mut page) = DevicePairing::new("123456", &[7; 32]) else { panic!("it is a code") };
            assert_eq!(page.finish(share), None, "{share}");
            assert_eq!(page.token(&"00".repeat(32)), None);
        }
    }
}
