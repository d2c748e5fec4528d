//! A TCP stream that others may query and configure while its owner reads and writes it.

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use nearlight_wire::TcpInfo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The owner's end.
pub(crate) struct SharedTcp(Arc<TcpStream>);

/// The TCP socket below a connection: a weak handle that works as long as the connection is open.
#[derive(Clone, Debug)]
pub struct TcpSocket(Weak<TcpStream>);

impl SharedTcp {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self(Arc::new(stream))
    }

    pub(crate) fn socket(&self) -> TcpSocket {
        TcpSocket(Arc::downgrade(&self.0))
    }
}

impl TcpSocket {
    /// Returns the kernel's statistics of the connection.
    ///
    /// # Errors
    /// `NotConnected` once the connection is closed, `Unsupported` on systems that report nothing; otherwise the kernel's errors.
    pub fn info(&self) -> io::Result<TcpInfo> {
        crate::tcp::tcp_info(&*self.open()?)
    }

    /// The connection's congestion control.
    ///
    /// # Errors
    /// See [`TcpSocket::info`].
    pub fn congestion_control(&self) -> io::Result<String> {
        crate::tcp::congestion_control(&*self.open()?)
    }

    /// Selects the congestion control of this connection alone.
    ///
    /// # Errors
    /// See [`TcpSocket::info`]. Also `NotFound` and `PermissionDenied` if it is not available to this program.
    pub fn set_congestion_control(&self, name: &str) -> io::Result<()> {
        crate::tcp::set_congestion_control(&*self.open()?, name)
    }

    fn open(&self) -> io::Result<Arc<TcpStream>> {
        self.0.upgrade().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl AsyncRead for SharedTcp {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            match self.0.try_read(buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl SharedTcp {
    fn poll_write_with(
        &self,
        context: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            match write(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl AsyncWrite for SharedTcp {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(context, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(context, |stream| stream.try_write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing is buffered above the kernel.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match socket2::SockRef::from(&*self.0).shutdown(Shutdown::Write) {
            // The peer was quicker.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            ended => Poll::Ready(ended),
        }
    }
}
