//! The servers of this process by their handles. A handle is a number, not an address: one that is closed or was never open is an error.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use nearlight_embed::{Host, Planes};

use crate::fault::Fault;
use crate::types::{nl_host, nl_status};

/// Pictures' planes that one program has at a time. Guess: several threads that draw two each.
const MOST_LENT: usize = 16;

/// Numbers are multiples of what `malloc` aligns to, so that debuggers show them as pointers.
const STEP: usize = 16;

static HOSTS: RwLock<BTreeMap<usize, Arc<Entry>>> = RwLock::new(BTreeMap::new());
static NEXT: AtomicUsize = AtomicUsize::new(STEP);

/// An open server and what its program has of it.
pub(crate) struct Entry {
    pub(crate) host: Host,
    /// Texts that were handed out: they stay until the server is closed.
    texts: Mutex<Vec<CString>>,
    lent: Mutex<Lent>,
}

#[derive(Default)]
struct Lent {
    next: u64,
    planes: Vec<(u64, Planes)>,
}

pub(crate) fn add(host: Host) -> *mut nl_host {
    let entry = Entry { host, texts: Mutex::default(), lent: Mutex::new(Lent::default()) };
    let number = NEXT.fetch_add(STEP, Ordering::Relaxed);
    HOSTS.write().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(entry));
    std::ptr::without_provenance_mut(number)
}

pub(crate) fn get(handle: *const nl_host) -> Result<Arc<Entry>, Fault> {
    if handle.is_null() {
        return Err(Fault::argument("the server is NULL: pass what nl_open has written"));
    }
    let hosts = HOSTS.read().unwrap_or_else(PoisonError::into_inner);
    let closed = || Fault::new(nl_status::Closed, "the server was closed, or was never open: open another one");
    hosts.get(&handle.addr()).cloned().ok_or_else(closed)
}

/// The handle means nothing from now on; calls that are under way end as they would.
pub(crate) fn remove(handle: *const nl_host) {
    HOSTS.write().unwrap_or_else(PoisonError::into_inner).remove(&handle.addr());
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Entry {
    /// A text for the program; the same one has the same address.
    pub(crate) fn text(&self, text: &str) -> *const c_char {
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        let mut texts = lock(&self.texts);
        if let Some(known) = texts.iter().find(|known| **known == text) {
            return known.as_ptr();
        }
        // The bytes stay where they are when the list grows.
        let place = text.as_ptr();
        texts.push(text);
        place
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
            Fault::argument(format!("no planes are lent under the number {id}: each is submitted or put back once"))
        })?;
        Ok(lent.planes.swap_remove(place).1)
    }
}
