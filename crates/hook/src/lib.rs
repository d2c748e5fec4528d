//! What `nearlight hook` loads into a program that knows nothing of it: the program's pictures are streamed from its own process.
//!
//! The library stands in front of the functions that show a picture (`glXSwapBuffers`, `eglSwapBuffers` and their variants, and as a
//! layer `vkQueuePresentKHR`). Before a
//! picture is shown it has the graphics driver copy it into a buffer, without waiting; once the copy is there, the picture goes to a
//! server in this process (`nearlight-embed`), in the thread that draws. What viewers do goes to the program's window through the X
//! server, as if it came from the machine's own keyboard and mouse.
//!
//! The program must not notice: its OpenGL state is as before after every call, its signals are handled by its own threads, its children
//! run unstreamed, and where anything fails it runs on without being streamed, and `nearlight hook` says why.

// Everything here is called by C, or calls it; each block has its safety argument.
#![cfg(target_os = "linux")]
// In unit tests nothing is exported, so that the tests' own process is not hooked.
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
