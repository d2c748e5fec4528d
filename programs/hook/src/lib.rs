//! The library that `nearlight hook` loads into an unmodified program, to stream its pictures from its own process.
//!
//! The library replaces the functions that show a picture (`glXSwapBuffers`, `eglSwapBuffers` and their variants, and as a layer
//! `vkQueuePresentKHR`). Before a picture is shown, the graphics driver copies it into a buffer, without waiting. Once the copy is
//! complete, the thread that draws submits it to a server in this process (`nearlight-embed`). The viewers' input is injected into the
//! program's window through the X server, as if it came from the machine's own keyboard and mouse.
//!
//! The program must not be affected. Its OpenGL state is the same after every call, its signals are handled by its own threads, and its
//! children are not streamed. If anything fails, the program continues without being streamed, and `nearlight hook` says why.

// The crate calls C functions and is called by C. Each unsafe block has its safety argument.
#![cfg(target_os = "linux")]
// Nothing is exported in unit tests, so that the test process itself is not hooked.
#![cfg_attr(test, allow(dead_code))]

mod exports;
mod gl;
mod input;
mod pace;
mod process;
mod readback;
mod stream;
mod symbols;
mod vulkan;
mod window;
mod x11;
