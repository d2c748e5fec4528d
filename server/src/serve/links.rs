//! The links at which a server can be reached.

use nearlight_net::Link;
use nearlight_rooms::Role;

use super::BoundServer;
use crate::access::links::{check_of, token_for};

impl BoundServer {
    /// Returns the link through the owner's proxy.
    fn proxy_link(&self) -> Option<Link> {
        let public = self.options.public_url.as_ref()?;
        Some(Link { token: Some(self.token.to_string()), ..public.clone() })
    }

    /// Returns the link for a browser on this machine: through the owner's proxy, with a name of the owner's certificate, with localhost, or
    /// with the only address that the server listens on.
    #[must_use]
    pub fn local_link(&self) -> Link {
        if let Some(link) = self.proxy_link() {
            return link;
        }
        let only = self.listener.only_address().map(|address| address.to_string());
        match self.certified_names().into_iter().next().or(only) {
            Some(host) => self.link(true, host),
            None => self.link(false, "localhost".into()),
        }
    }

    /// Returns links for other machines: through the owner's proxy, with the certificate's names, or else with addresses, the likeliest first.
    #[must_use]
    pub fn other_links(&self) -> Vec<Link> {
        if let Some(link) = self.proxy_link() {
            return vec![link];
        }
        let announced = self.options.announced.iter().copied();
        let addresses =
            || announced.chain(self.listener.reachable_addresses()).map(|address| address.to_string()).collect();
        let names = self.certified_names();
        let hosts: Vec<String> = if names.is_empty() { addresses() } else { names };
        hosts.into_iter().map(|host| self.link(true, host)).collect()
    }

    /// Returns the names under which the owner's certificate is trusted. Those that the owner gave come first, because several servers may
    /// share a certificate that names them by a wildcard. Empty if the certificate is self-signed.
    fn certified_names(&self) -> Vec<String> {
        if self.identity.certificate_names().is_empty() {
            return Vec::new();
        }
        let others = self.identity.names().into_iter().filter(|name| !self.options.hosts.contains(name));
        self.given_names().cloned().chain(others).collect()
    }

    /// Returns the names that the owner gave, without wildcards.
    fn given_names(&self) -> impl Iterator<Item = &String> {
        self.options.hosts.iter().filter(|host| !host.contains('*'))
    }

    /// Returns the link to which a front sends clients, with `https` and without a token: through the owner's proxy, with a name that the owner
    /// gave, or else the likeliest link for other machines.
    #[must_use]
    pub fn public_link(&self) -> Link {
        let named = || self.given_names().next().map(|host| self.link(true, host.clone()));
        let given = self.proxy_link().or_else(named);
        let others = || self.other_links().into_iter().next();
        let link = given.or_else(others).unwrap_or_else(|| self.link(true, self.local_link().host));
        Link { token: None, ..link }
    }

    /// Returns a value that servers and fronts with the same token share and that does not reveal the token.
    #[must_use]
    pub fn token_check(&self) -> String {
        check_of(&self.token)
    }

    /// Returns `link` with the token of this role. All other links have the owner's token, which is that of hosts.
    #[must_use]
    pub fn link_for(&self, role: Role, link: &Link) -> Link {
        Link { token: Some(token_for(&self.token, role).to_string()), ..link.clone() }
    }

    fn link(&self, secure: bool, host: String) -> Link {
        let (port, path, token) = (self.port(), "/".into(), Some(self.token.to_string()));
        Link { secure, host, port, path, token, certificate: None }
    }

    /// Saves the page's address for the commands that print links.
    pub(super) fn save_page(&self) {
        if let Some(file) = &self.options.link_file {
            file.set_page(self.public_link().to_string());
        }
    }
}
