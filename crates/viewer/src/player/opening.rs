//! Opens a session: trust, connection, hello with the proof of the token.

use std::time::Duration;

use nearlight_net::{
    Clock, ConnectOptions, Connection, ControlReceiver, ControlSender, Link, NetError, Trust, connect, connect_ethernet,
};
use nearlight_wire::{ClientMessage, Hello, RefusalReason, Role, ServerMessage, TokenProof, Welcome};

use crate::{Target, ViewOptions, ViewerError};

/// How long a server may take to answer the hello. Guess: it opens an encoder first.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// A session that the server has welcomed.
pub struct Opened {
    pub connection: Connection,
    pub to_server: ControlSender<ClientMessage>,
    pub from_server: ControlReceiver<ServerMessage>,
    pub welcome: Welcome,
}

/// Why no session opened.
pub enum Trouble {
    /// The next attempt may succeed.
    Passing(String),
    /// The next attempt would fail as well.
    Lasting(ViewerError),
    /// `passing`: the server had no free slot, but may have one later.
    Refused { passing: bool, reason: RefusalReason, message: String },
}

/// Connects and sends the hello. `returning`: this run has had a session before.
pub async fn open(options: &ViewOptions, returning: bool, display_hz: u16, clock: Clock) -> Result<Opened, Trouble> {
    let connection = match &options.target {
        Target::Page(link) => {
            let trust = trust(link, options.trust_first_use, returning);
            connect(&ConnectOptions::new(link, trust), clock).await?
        }
        Target::Ethernet { link, interface } => connect_ethernet(interface, link, clock).await?,
    };
    let token = options.target.token().unwrap_or_default();
    let binding = connection.exporter();
    let (mut to_server, mut from_server) = connection.open_control().await?;
    let proof = TokenProof::Exporter { mac: binding.prove(token, Role::Client) };
    let hello = Hello {
        display: options.display,
        codecs: options.codecs.clone(),
        display_hz,
        sound: options.sound,
        clipboard: options.clipboard,
        marker: true,
        ..Hello::without_media(options.name.clone(), Some(proof))
    };
    to_server.send(&ClientMessage::Hello(hello)).await?;
    let answer = tokio::time::timeout(HANDSHAKE_LIMIT, from_server.recv()).await;
    match answer.map_err(|_| Trouble::Passing("the server did not answer the hello".into()))?? {
        ServerMessage::Welcome(welcome)
            if !welcome.proof.is_some_and(|proof| binding.verify(token, Role::Server, &proof)) =>
        {
            connection.finish(0, "no proof").await;
            Err(Trouble::Lasting(ViewerError::Impostor { target: options.target.name() }))
        }
        ServerMessage::Welcome(welcome) => Ok(Opened { connection, to_server, from_server, welcome }),
        ServerMessage::Refused { reason, message } => {
            connection.finish(0, "refused").await;
            let passing = matches!(reason, RefusalReason::Full | RefusalReason::Internal);
            Err(Trouble::Refused { passing, reason, message })
        }
        ServerMessage::Goodbye { message } => Err(Trouble::Passing(message)),
        ServerMessage::Challenge { .. }
        | ServerMessage::Stream(_)
        | ServerMessage::Rate(_)
        | ServerMessage::Haptics(_)
        | ServerMessage::Pointer { .. }
        | ServerMessage::Clipboard { .. }
        | ServerMessage::Application { .. } => {
            Err(Trouble::Passing("the server answered the hello with an unexpected message".into()))
        }
    }
}

/// Which certificate to accept. A server that was restarted shows another one than the link names: a client that has had a session with it
/// recognizes it by the proof of the token, which cannot be relayed from one connection to another.
fn trust(link: &Link, trust_first_use: bool, returning: bool) -> Trust {
    match link.certificate {
        Some(_) if returning => Trust::Any,
        Some(hash) => Trust::Certificate(hash),
        None if trust_first_use => Trust::Any,
        None => Trust::Roots,
    }
}

impl From<NetError> for Trouble {
    fn from(error: NetError) -> Self {
        match error {
            NetError::Link(_)
            | NetError::Packet(_)
            | NetError::OtherEthernetVersion { .. }
            | NetError::Name { .. }
            | NetError::NoRoots(_)
            | NetError::WrongPath { .. }
            | NetError::CertificateMismatch { .. }
            | NetError::CertificateNotTrusted { .. } => Self::Lasting(error.into()),
            passing => Self::Passing(passing.to_string()),
        }
    }
}
