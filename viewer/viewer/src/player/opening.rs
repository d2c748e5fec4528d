//! Opens a session: connects, checks the certificate, and exchanges hello and welcome with proofs of the token.

use std::time::Duration;

use nearlight_net::{
    Clock, ConnectOptions, Connection, ControlReceiver, ControlSender, Link, NetError, Trust, connect, connect_ethernet,
};
use nearlight_wire::{ClientMessage, Hello, RefusalReason, Role, ServerMessage, TokenProof, Welcome};

use crate::{Target, ViewOptions, ViewerError};

/// Maximum time that a server may take to answer the hello. Guess: it opens an encoder first.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// A session that the server has welcomed.
pub struct OpenSession {
    pub connection: Connection,
    pub to_server: ControlSender<ClientMessage>,
    pub from_server: ControlReceiver<ServerMessage>,
    pub welcome: Welcome,
}

/// Why no session was opened.
pub enum OpenError {
    /// The next attempt may succeed.
    Temporary(String),
    /// The next attempt would fail as well.
    Permanent(ViewerError),
    /// The server refused. `temporary` says that it may accept a later attempt.
    Refused { temporary: bool, reason: RefusalReason, message: String },
}

/// Connects and sends the hello. `reconnecting` says that this run has had a session before.
pub async fn open(
    options: &ViewOptions,
    reconnecting: bool,
    display_hz: u16,
    clock: Clock,
) -> Result<OpenSession, OpenError> {
    let connection = match &options.target {
        Target::Page(link) => {
            let trust = trust(link, reconnecting);
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
    let answer = tokio::time::timeout(HANDSHAKE_TIMEOUT, from_server.recv()).await;
    match answer.map_err(|_| OpenError::Temporary("the server did not answer the hello".into()))?? {
        ServerMessage::Welcome(welcome)
            if !welcome.proof.is_some_and(|proof| binding.verify(token, Role::Server, &proof)) =>
        {
            connection.finish(0, "no proof").await;
            Err(OpenError::Permanent(ViewerError::Impostor { target: options.target.name() }))
        }
        ServerMessage::Welcome(welcome) => Ok(OpenSession { connection, to_server, from_server, welcome }),
        ServerMessage::Refused { reason, message } => {
            connection.finish(0, "refused").await;
            let temporary = matches!(reason, RefusalReason::Full | RefusalReason::Internal);
            Err(OpenError::Refused { temporary, reason, message })
        }
        ServerMessage::Goodbye { message } => Err(OpenError::Temporary(message)),
        ServerMessage::Challenge { .. }
        | ServerMessage::Stream(_)
        | ServerMessage::Rate(_)
        | ServerMessage::Haptics(_)
        | ServerMessage::Pointer { .. }
        | ServerMessage::Clipboard { .. }
        | ServerMessage::Application { .. } => {
            Err(OpenError::Temporary("the server answered the hello with an unexpected message".into()))
        }
    }
}

/// Returns which certificates to accept. The proof of the token shows whether this is the server of the link: it is bound to the connection,
/// so nobody in between can relay it, and the server learns nothing else before the client has verified its proof. A hash in the link is
/// accepted alone until the first session, because the server replaces its certificate from time to time.
fn trust(link: &Link, reconnecting: bool) -> Trust {
    match link.certificate {
        Some(hash) if !reconnecting => Trust::Certificate(hash),
        _ => Trust::Any,
    }
}

impl From<NetError> for OpenError {
    fn from(error: NetError) -> Self {
        match error {
            NetError::Link(_)
            | NetError::Packet(_)
            | NetError::OtherEthernetVersion { .. }
            | NetError::Name { .. }
            | NetError::WrongPath { .. }
            | NetError::CertificateMismatch { .. } => Self::Permanent(error.into()),
            error => Self::Temporary(error.to_string()),
        }
    }
}
