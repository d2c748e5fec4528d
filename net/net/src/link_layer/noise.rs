//! Noise with randomness as an argument: `NNpsk0` (the token is the pre-shared key of both ends), X25519, ChaCha20-Poly1305, SHA-256.

use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::{CryptoResolver, DefaultResolver, FallbackResolver, RingResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState, StatelessTransportState};

use crate::link_layer::layout::{Cookie, MAX_HANDSHAKE_BYTES, Nonce};
use crate::link_layer::secrets::{AddressPair, Key, Secrets};

const NOISE_PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";
const PROLOGUE_LABEL: &[u8] = b"nearlight ethernet 1";

/// The parameters that each end sends to the other in its handshake message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// The number that transport frames to this end must carry.
    pub(crate) index: u32,
    /// The longest payload of a frame that this end's interface carries.
    pub(crate) mtu: u16,
}

impl Parameters {
    fn to_bytes(self) -> [u8; 6] {
        let mut bytes = [0; 6];
        bytes[..4].copy_from_slice(&self.index.to_be_bytes());
        bytes[4..].copy_from_slice(&self.mtu.to_be_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (index, mtu) = bytes.split_first_chunk()?;
        Some(Self { index: u32::from_be_bytes(*index), mtu: u16::from_be_bytes(mtu.try_into().ok()?) })
    }
}

/// The result of a finished handshake.
pub(crate) struct HandshakeResult {
    pub(crate) cipher: StatelessTransportState,
    /// The handshake's hash: the same at both ends, and different for every session.
    pub(crate) hash: Key,
    pub(crate) peer: Parameters,
}

/// The context of a handshake's messages. All of it is in the prologue, so that they are valid in no other handshake.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) secrets: &'a Secrets,
    /// The addresses from the client to the server.
    pub(crate) addresses: AddressPair,
    pub(crate) nonce: &'a Nonce,
    pub(crate) cookie: &'a Cookie,
}

impl Context<'_> {
    fn prologue(&self) -> Vec<u8> {
        [PROLOGUE_LABEL, &self.addresses.destination.0, &self.addresses.source.0, self.nonce, self.cookie].concat()
    }

    fn state(&self, random: Key, initiator: bool) -> Option<HandshakeState> {
        let prologue = self.prologue();
        let params: NoiseParams = NOISE_PATTERN.parse().ok()?;
        let builder = Builder::with_resolver(params, Box::new(SeededResolver::new(random)));
        let builder = builder.psk(0, &self.secrets.shared).ok()?.prologue(&prologue).ok()?;
        if initiator { builder.build_initiator().ok() } else { builder.build_responder().ok() }
    }
}

/// A client's half of a handshake.
pub(crate) struct Initiator(HandshakeState);

impl Initiator {
    /// Begins a handshake. Returns the state, and its message.
    pub(crate) fn new(context: Context<'_>, own: Parameters, random: Key) -> Option<(Self, Vec<u8>)> {
        let mut state = context.state(random, true)?;
        let message = write(&mut state, own)?;
        Some((Self(state), message))
    }

    /// Handles the server's message. Returns None, without any change, if it is not the server's.
    pub(crate) fn finish(&mut self, message: &[u8]) -> Option<Parameters> {
        read(&mut self.0, message)
    }

    /// Returns the result. Call it after [`Initiator::finish`].
    pub(crate) fn agree(self, peer: Parameters) -> Option<HandshakeResult> {
        agree(self.0, peer)
    }
}

/// Answers a client's message. Returns None if it was made without the token.
pub(crate) fn respond(
    context: Context<'_>,
    message: &[u8],
    own: Parameters,
    random: Key,
) -> Option<(HandshakeResult, Vec<u8>)> {
    let mut state = context.state(random, false)?;
    let peer = read(&mut state, message)?;
    let answer = write(&mut state, own)?;
    Some((agree(state, peer)?, answer))
}

fn agree(state: HandshakeState, peer: Parameters) -> Option<HandshakeResult> {
    let hash = state.get_handshake_hash().try_into().ok()?;
    Some(HandshakeResult { cipher: state.into_stateless_transport_mode().ok()?, hash, peer })
}

fn write(state: &mut HandshakeState, own: Parameters) -> Option<Vec<u8>> {
    let mut message = vec![0; MAX_HANDSHAKE_BYTES];
    let length = state.write_message(&own.to_bytes(), &mut message).ok()?;
    message.truncate(length);
    Some(message)
}

fn read(state: &mut HandshakeState, message: &[u8]) -> Option<Parameters> {
    let mut payload = [0; MAX_HANDSHAKE_BYTES];
    let length = state.read_message(message, &mut payload).ok()?;
    Parameters::parse(&payload[..length])
}

/// The library's primitives, with random bytes supplied by the caller.
struct SeededResolver {
    primitives: FallbackResolver,
    random: Key,
}

impl SeededResolver {
    fn new(random: Key) -> Self {
        Self { primitives: FallbackResolver::new(Box::new(RingResolver), Box::new(DefaultResolver)), random }
    }
}

impl CryptoResolver for SeededResolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(SingleUseRandom(Some(self.random))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        self.primitives.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        self.primitives.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        self.primitives.resolve_cipher(choice)
    }
}

/// Returns its bytes once, for the one ephemeral key that each end generates. A second request fails.
struct SingleUseRandom(Option<Key>);

impl Random for SingleUseRandom {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), snow::Error> {
        let random = self.0.take().filter(|random| random.len() == bytes.len()).ok_or(snow::Error::Rng)?;
        bytes.copy_from_slice(&random);
        Ok(())
    }
}
