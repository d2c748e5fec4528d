//! The classes `Viewer`, a viewer in this process, and `Picture`, a received picture.

use std::ffi::{CString, c_int, c_void};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread;

use nearlight_units::lock;
use nearlight_viewer::{
    CodecKind, Options, Pointer, ReceivedPicture, RecordOptions, Span, Target, Time, Viewer as NativeViewer,
    ViewerError,
};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyTuple};

use crate::error::{ErrorClass, viewer_error};
use crate::event;
use crate::input::{input_of, pointer_after};
use crate::pixels::{Sink, order_of};
use crate::server::without_position;
use crate::value::{display_of, make, views};
use crate::wait::{Limit, moment, receive, seconds, wait};

/// Maximum number of sample frames of sound in one call: a second.
const MAX_SOUND_FRAMES: usize = 48_000;

/// `nearlight._viewer.Viewer` has the documentation.
#[pyclass(frozen)]
pub(crate) struct Viewer {
    viewer: NativeViewer,
    /// The pointer as it was sent last.
    pointer: Mutex<Pointer>,
}

#[pymethods]
impl Viewer {
    /// Connects in a separate thread, so that Ctrl-C can end the wait. The thread then gives up by itself.
    #[new]
    fn connect(py: Python<'_>, link: &str, options: &Bound<'_, PyAny>) -> PyResult<Self> {
        let options = options_of(options)?;
        let target = py.detach(|| Target::open(link)).map_err(|error| match error {
            ViewerError::Net(error) => ErrorClass::Usage.with_message(error),
            error => viewer_error(&error),
        })?;
        let (sender, connected) = sync_channel(1);
        thread::Builder::new()
            .name("nearlight connect".to_owned())
            .spawn(move || drop(sender.send(NativeViewer::connect_to(target, &options))))
            .map_err(|error| ErrorClass::Error.with_message(format!("cannot start a thread to connect in: {error}")))?;
        let connected = receive(py, connected, || Ok(()))?;
        let connected =
            connected.ok_or_else(|| ErrorClass::Error.with_message("connecting panicked; see standard error"))?;
        Ok(Self { viewer: connected.map_err(|error| viewer_error(&error))?, pointer: Mutex::default() })
    }

    fn now(&self) -> f64 {
        seconds(self.viewer.now())
    }

    fn has_ended(&self) -> bool {
        self.viewer.has_ended()
    }

    /// Returns the next picture. Waits up to `timeout` seconds for one, or without a timeout until the viewer has ended.
    fn poll_picture(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Picture>> {
        let limit = Limit::new(timeout)?;
        let picture = wait(py, limit, || self.viewer.has_ended(), |limit| self.viewer.wait_picture(limit))?;
        Ok(picture.map(|picture| Picture(Arc::new(picture))))
    }

    fn poll_event<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let limit = Limit::new(timeout)?;
        let event = wait(py, limit, || self.viewer.has_ended(), |limit| self.viewer.wait_event(limit))?;
        event.map(|event| event::viewer_event(py, &event)).transpose()
    }

    fn displayed(&self, picture: &Picture, at: Option<f64>) -> PyResult<()> {
        let at = at.map(moment).transpose()?.unwrap_or_else(|| self.viewer.now());
        self.viewer.displayed(&picture.0, at).map_err(|error| viewer_error(&error))
    }

    fn send(&self, kind: &str, with: &Bound<'_, PyAny>) -> PyResult<()> {
        self.viewer.send(input_of(kind, with)?).map_err(|error| viewer_error(&error))
    }

    fn send_pointer(&self, x: f32, y: f32, with: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut pointer = lock(&self.pointer);
        let next = pointer_after(*pointer, x, y, with)?;
        self.viewer
            .send(nearlight_viewer::DeviceInput::Pointer(Some(next)).into())
            .map_err(|error| viewer_error(&error))?;
        *pointer = next;
        Ok(())
    }

    fn send_message(&self, data: &[u8], reliable: bool) -> PyResult<()> {
        self.viewer.send_message(data, reliable).map_err(|error| viewer_error(&error))
    }

    fn head<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        crate::value::pose(py, &self.viewer.head())
    }

    /// Returns up to this many sample frames as native floats, left and right interleaved, and the time when the first one was due.
    fn read_sound<'py>(&self, py: Python<'py>, frames: usize) -> PyResult<(Bound<'py, PyByteArray>, f64)> {
        if frames > MAX_SOUND_FRAMES {
            return Err(ErrorClass::Usage
                .with_message(format!("{frames} sample frames are too many in one call: at most {MAX_SOUND_FRAMES}")));
        }
        let mut samples = vec![0.0_f32; frames * 2];
        let (count, at) = self.viewer.read_sound(&mut samples);
        let bytes: Vec<u8> = samples[..count].iter().flat_map(|sample| sample.to_ne_bytes()).collect();
        Ok((PyByteArray::new(py, &bytes), seconds(at)))
    }

    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let known = self.viewer.statistics();
        let fields = [
            known.connected.into_pyobject(py)?.to_owned().into_any(),
            known.connections.into_pyobject(py)?.into_any(),
            known.fps.into_pyobject(py)?.into_any(),
            known.motion_to_photon.map(Span::as_secs_f64).into_pyobject(py)?,
            known.received_rate.as_bps().into_pyobject(py)?.into_any(),
            known.received.frames.decoded.into_pyobject(py)?.into_any(),
            known.received.frames.displayed.into_pyobject(py)?.into_any(),
            known.received.frames.lost.into_pyobject(py)?.into_any(),
            known.received.loss.packets.into_pyobject(py)?.into_any(),
            known.clock.map(|clock| clock.round_trip.as_secs_f64()).into_pyobject(py)?,
            known.pictures_passed_over.into_pyobject(py)?.into_any(),
            known.events_dropped.into_pyobject(py)?.into_any(),
        ];
        make(py, "ViewerStatistics", PyTuple::new(py, fields)?)
    }

    /// Returns the measurements of the whole run as JSON, or `None` when the viewer was closed before.
    fn close(&self, py: Python<'_>) -> PyResult<Option<String>> {
        match py.detach(|| self.viewer.close()) {
            Ok(summary) => {
                let text = serde_json::to_string(&summary).map_err(|error| ErrorClass::Error.with_message(error))?;
                Ok(Some(text))
            }
            Err(ViewerError::Closed) => Ok(None),
            Err(error) => Err(viewer_error(&error)),
        }
    }
}

/// Reads the data class `nearlight._viewer._Options`.
fn options_of(from: &Bound<'_, PyAny>) -> PyResult<Options> {
    fn get<'py, T: FromPyObjectOwned<'py>>(from: &Bound<'py, PyAny>, name: &str) -> PyResult<T> {
        from.getattr(name)?.extract().map_err(Into::into)
    }
    let defaults = Options::default();
    let codecs: Option<Vec<String>> = get(from, "codecs")?;
    let codecs = codecs.map(|names| names.iter().map(|name| codec_of(name)).collect()).transpose()?;
    let limit: f64 = get(from, "connect_timeout")?;
    if !(0.0..=1e6).contains(&limit) {
        return Err(ErrorClass::Usage.with_message(format!("connect_timeout is {limit}: give seconds, such as 10")));
    }
    Ok(Options {
        name: get::<Option<String>>(from, "name")?.unwrap_or(defaults.name),
        display: display_of(&get::<String>(from, "display")?)?,
        display_hz: get(from, "display_hz")?,
        codecs: codecs.unwrap_or(defaults.codecs),
        sound: get(from, "sound")?,
        clipboard: get(from, "clipboard")?,
        connect_limit: Span::from_secs_f64(limit),
        pictures_kept: get(from, "pictures_kept")?,
        tells_display: get(from, "tells_display")?,
        record: RecordOptions {
            events: get(from, "events")?,
            trace: get(from, "trace")?,
            csv: get(from, "csv")?,
            sound: get(from, "sound_file")?,
            screenshot: None,
        },
        path: defaults.path,
    })
}

fn codec_of(name: &str) -> PyResult<CodecKind> {
    serde_json::from_value(name.into())
        .map_err(|error| ErrorClass::Usage.with_message(format!("codecs: {}", without_position(&error))))
}

/// `nearlight._viewer.Picture` has the documentation.
#[pyclass(frozen)]
pub(crate) struct Picture(Arc<ReceivedPicture>);

#[pymethods]
impl Picture {
    fn size(&self) -> (u16, u16) {
        (self.0.size().width, self.0.size().height)
    }

    /// Returns the planes of luma, blue differences and red differences.
    fn planes(&self) -> [PlaneMemory; 3] {
        [0, 1, 2].map(|index| PlaneMemory { picture: Arc::clone(&self.0), index })
    }

    /// Converts the picture into an array (height, width, values) of bytes.
    fn write(&self, py: Python<'_>, out: &Bound<'_, PyAny>, order: &str) -> PyResult<()> {
        let order = order_of(order)?;
        let mut sink = Sink::new(out, self.0.size(), order)?;
        let written = py.detach(|| sink.write(|bytes, stride| self.0.write(order, bytes, stride)));
        written.map_err(|error| ErrorClass::Usage.with_message(error))
    }

    /// Returns frame, session, views, input, marker, key, damaged, and the times when the picture was captured, rendered, encoded, is to be
    /// displayed, and was decoded.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let info = &self.0.info;
        let time = |at: Option<Time>| at.map(seconds).into_pyobject(py);
        let marker = info.marker.map(|marker| (marker.frame.0, marker.input.0));
        let fields = [
            info.frame.0.into_pyobject(py)?.into_any(),
            info.session.into_pyobject(py)?.into_any(),
            views(py, &info.views)?.into_any(),
            info.input.0.into_pyobject(py)?.into_any(),
            marker.into_pyobject(py)?.into_any(),
            info.key.into_pyobject(py)?.to_owned().into_any(),
            info.damaged.into_pyobject(py)?.to_owned().into_any(),
            time(info.captured_at)?,
            time(info.rendered_at)?,
            time(info.encoded_at)?,
            time(info.display_at)?,
            seconds(info.decoded_at).into_pyobject(py)?.into_any(),
        ];
        PyTuple::new(py, fields)
    }
}

/// One plane of a picture, as read-only memory.
#[pyclass(frozen)]
pub(crate) struct PlaneMemory {
    picture: Arc<ReceivedPicture>,
    /// 0 for luma, 1 for blue and 2 for red differences.
    index: usize,
}

/// The memory to which a view's pointers point. It lives as long as the view.
struct ViewLayout {
    format: CString,
    shape: [ffi::Py_ssize_t; 2],
    strides: [ffi::Py_ssize_t; 2],
}

#[pymethods]
impl PlaneMemory {
    /// Fills a view of the plane.
    ///
    /// # Safety
    /// Python calls this with a view to fill.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no view to fill"));
        }
        if flags & ffi::PyBUF_WRITABLE != 0 {
            return Err(PyBufferError::new_err("a picture's planes cannot be written: copy them"));
        }
        let plane = slf.get();
        let (planes, size) = (plane.picture.planes(), plane.picture.size());
        let divisor = if plane.index == 0 { 1 } else { 2 };
        let (width, height) = (usize::from(size.width) / divisor, usize::from(size.height) / divisor);
        let bytes = match plane.index {
            0 => planes.luma,
            1 => planes.blue,
            _ => planes.red,
        };
        // Rows of a received picture have no padding.
        let bytes = bytes.get(..width * height).ok_or_else(|| PyBufferError::new_err("the plane is incomplete"))?;
        let layout = Box::new(ViewLayout {
            format: c"B".to_owned(),
            shape: [height as ffi::Py_ssize_t, width as ffi::Py_ssize_t],
            strides: [width as ffi::Py_ssize_t, 1],
        });
        let requests = |flag: c_int| flags & flag == flag;
        let layout = Box::into_raw(layout);
        // SAFETY: Python passes `view` to be filled, and `layout` lives until `__releasebuffer__` frees it. The bytes belong to a picture
        // that `slf` holds, and the view holds `slf`: the bytes do not move while the view lives, and nothing writes to them.
        unsafe {
            (*view).buf = bytes.as_ptr().cast_mut().cast::<c_void>();
            (*view).len = bytes.len() as ffi::Py_ssize_t;
            (*view).readonly = 1;
            (*view).itemsize = 1;
            (*view).ndim = if requests(ffi::PyBUF_ND) { 2 } else { 1 };
            (*view).format =
                if requests(ffi::PyBUF_FORMAT) { (*layout).format.as_ptr().cast_mut() } else { std::ptr::null_mut() };
            (*view).shape =
                if requests(ffi::PyBUF_ND) { (&raw mut (*layout).shape).cast() } else { std::ptr::null_mut() };
            (*view).strides =
                if requests(ffi::PyBUF_STRIDES) { (&raw mut (*layout).strides).cast() } else { std::ptr::null_mut() };
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = layout.cast();
            (*view).obj = slf.into_any().into_ptr();
        }
        Ok(())
    }

    /// Frees the memory of a view's layout.
    ///
    /// # Safety
    /// Python calls this once for each view that `__getbuffer__` filled.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: `internal` is from `Box::into_raw` in `__getbuffer__`, and Python releases a view once.
        drop(unsafe { Box::from_raw((*view).internal.cast::<ViewLayout>()) });
    }
}
