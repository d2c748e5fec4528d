//! The open servers of this process.

use std::ffi::c_char;
use std::sync::{Arc, Mutex};

use nearlight_embed::{Host, Planes};
use nearlight_units::lock;

use crate::fault::Fault;
use crate::handles::{Handles, Texts};
use crate::types::{nl_host, nl_status};

/// Maximum number of pictures whose planes a server lends at a time. Guess: enough for several threads that draw two each.
const MAX_LENT_PICTURES: usize = 16;

static HOSTS: Handles<Entry> = Handles::new();

/// An open server, and the texts and planes that its program has pointers to.
pub(crate) struct Entry {
    pub(crate) host: Host,
    texts: Texts,
    lent: Mutex<LentPlanes>,
}

/// The planes that are lent to the program, by number.
#[derive(Default)]
struct LentPlanes {
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

/// Makes the handle invalid. Calls in progress finish normally.
pub(crate) fn remove(handle: *const nl_host) {
    HOSTS.remove(handle.addr());
}

impl Entry {
    /// Stores a text until the server is closed. Returns its address.
    pub(crate) fn text(&self, text: &str) -> *const c_char {
        self.texts.keep(text)
    }

    /// Stores planes that are lent to the program. Returns their number and the addresses of their bytes, or the planes when too many are
    /// lent.
    pub(crate) fn lend(&self, mut planes: Planes) -> Result<(u64, [*mut u8; 3]), Planes> {
        let mut lent = lock(&self.lent);
        if lent.planes.len() >= MAX_LENT_PICTURES {
            return Err(planes);
        }
        lent.next += 1;
        let id = lent.next;
        // Moving a vector does not move its bytes.
        let addresses = [&mut planes.luma, &mut planes.blue, &mut planes.red].map(Vec::as_mut_ptr);
        lent.planes.push((id, planes));
        Ok((id, addresses))
    }

    /// Removes the lent planes with this number and returns them.
    pub(crate) fn take_lent(&self, id: u64) -> Result<Planes, Fault> {
        let mut lent = lock(&self.lent);
        let index = lent.planes.iter().position(|(known, _)| *known == id);
        let index = index.ok_or_else(|| {
            Fault::argument(format!("no planes with the number {id} are lent: submit or return each of them only once"))
        })?;
        Ok(lent.planes.swap_remove(index).1)
    }
}
