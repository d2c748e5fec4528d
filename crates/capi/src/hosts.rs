//! The servers of this process.

use std::ffi::c_char;
use std::sync::{Arc, Mutex};

use nearlight_embed::{Host, Planes};

use crate::fault::Fault;
use crate::handles::{Handles, Texts, lock};
use crate::types::{nl_host, nl_status};

/// Pictures' planes that one program has at a time. Guess: several threads that draw two each.
const MOST_LENT: usize = 16;

static HOSTS: Handles<Entry> = Handles::new();

/// An open server and what its program has of it.
pub(crate) struct Entry {
    pub(crate) host: Host,
    texts: Texts,
    lent: Mutex<Lent>,
}

#[derive(Default)]
struct Lent {
    next: u64,
    planes: Vec<(u64, Planes)>,
}

pub(crate) fn add(host: Host) -> *mut nl_host {
    let entry = Entry { host, texts: Texts::default(), lent: Mutex::default() };
    std::ptr::without_provenance_mut(HOSTS.add(entry))
}

pub(crate) fn get(handle: *const nl_host) -> Result<Arc<Entry>, Fault> {
    if handle.is_null() {
        return Err(Fault::argument("the server is NULL: pass what nl_open has written"));
    }
    let closed = || Fault::new(nl_status::Closed, "the server was closed, or was never open: open another one");
    HOSTS.get(handle.addr()).ok_or_else(closed)
}

/// The handle means nothing from now on; calls that are under way end as they would.
pub(crate) fn remove(handle: *const nl_host) {
    HOSTS.remove(handle.addr());
}

impl Entry {
    /// A text for the program, until the server is closed.
    pub(crate) fn text(&self, text: &str) -> *const c_char {
        self.texts.keep(text)
    }

    /// Keeps lent planes; answers their number and where their bytes are.
    pub(crate) fn lend(&self, mut planes: Planes) -> Result<(u64, [*mut u8; 3]), Planes> {
        let mut lent = lock(&self.lent);
        if lent.planes.len() >= MOST_LENT {
            return Err(planes);
        }
        lent.next += 1;
        let id = lent.next;
        // Moving a vector does not move its bytes.
        let places = [&mut planes.luma, &mut planes.blue, &mut planes.red].map(Vec::as_mut_ptr);
        lent.planes.push((id, planes));
        Ok((id, places))
    }

    pub(crate) fn take_lent(&self, id: u64) -> Result<Planes, Fault> {
        let mut lent = lock(&self.lent);
        let place = lent.planes.iter().position(|(known, _)| *known == id);
        let place = place.ok_or_else(|| {
            Fault::argument(format!("no planes with the number {id} are lent: submit or return each of them only once"))
        })?;
        Ok(lent.planes.swap_remove(place).1)
    }
}
