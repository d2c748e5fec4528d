// libnearlight: the pictures of your own program, seen and touched in a browser, a headset or `nearlight view`; and the receiving end
// (nl_viewer_...) for programs that show such pictures.
//
// docs/embedding.md is the guide. Generated from library/capi; do not edit.
//
// Every structure that is passed by its address begins with `size`: set everything to zero and `size` to the sizeof before the call,
// whether the library reads or writes the structure. So structures can grow, and programs built against an older header go on working.
//
// Every function may be called from any thread at any time, also with a server that was closed, which is an error like another. No
// function ends the process, and none keeps a pointer to the caller's memory after it has returned, but for nl_set_callback's `user`.
// Functions that fail return a status that is not NL_STATUS_OK, and nl_error_message() has a sentence about it. Texts are UTF-8 and
// end with a zero byte. Times are nanoseconds since the server was opened (nl_now) or the viewer connected (nl_viewer_now). Poses are in metres, right-handed, y up, -z ahead.


#ifndef NEARLIGHT_H
#define NEARLIGHT_H

#include <stddef.h>
#include <stdint.h>

// Whether a call succeeded.
enum nl_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Done.
  NL_STATUS_OK = 0,
  // There is nothing to hand out: no event came in time, or there is no such index.
  NL_STATUS_NOTHING = 1,
  // An argument is NULL, out of its range, or a structure's `size` is none that this library knows.
  NL_STATUS_ARGUMENT = 2,
  // The options are refused.
  NL_STATUS_OPTIONS = 3,
  // The server is closed, or was never open.
  NL_STATUS_CLOSED = 4,
  // The server has ended by itself, or cannot start.
  NL_STATUS_FAILED = 5,
  // The picture is refused: size, format, planes, strides or views.
  NL_STATUS_PICTURE = 6,
  // Nobody with this number watches.
  NL_STATUS_NO_VIEWER = 7,
  // More waits than is kept; try again later.
  NL_STATUS_FULL = 8,
  // The system gives no thread, memory map or socket.
  NL_STATUS_SYSTEM = 9,
  // A fault of this library, which has been contained. Close the server; standard error has more.
  NL_STATUS_PANIC = 10,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum nl_status nl_status;
#else
typedef int32_t nl_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How a picture's colours lie in memory.
enum nl_pixel_format
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Four bytes a pixel, red first, in sRGB; the fourth is ignored.
  NL_PIXEL_FORMAT_RGBA = 0,
  // Four bytes per pixel, blue first.
  NL_PIXEL_FORMAT_BGRA = 1,
  // Three bytes a pixel, red first.
  NL_PIXEL_FORMAT_RGB = 2,
  // 4:2:0 in BT.709's limited range: a plane of luma, and one of blue and red differences in turn.
  NL_PIXEL_FORMAT_NV12 = 3,
  // One plane each for luma, blue and red differences. Encoders take this format as it is, which makes it the cheapest.
  NL_PIXEL_FORMAT_I420 = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum nl_pixel_format nl_pixel_format;
#else
typedef uint32_t nl_pixel_format;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How a picture's memory is shared between the eyes.
enum nl_layout
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // One picture for both eyes.
  NL_LAYOUT_MONO = 0,
  // The left eye's picture in the left half, the right eye's in the right one.
  NL_LAYOUT_SIDE_BY_SIDE = 1,
  // The left eye's in `planes`, the right eye's in `right`, of the same size and format.
  NL_LAYOUT_LAYERS = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum nl_layout nl_layout;
#else
typedef uint32_t nl_layout;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What converts the pictures of an OpenGL context into the planes that encoders take.
enum nl_conversion
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // A shader on a graphics processor; the processor where that draws as well.
  NL_CONVERSION_AUTO = 0,
  // The processor, while it copies.
  NL_CONVERSION_PROCESSOR = 1,
  // A shader in the program's context.
  NL_CONVERSION_SHADER = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum nl_conversion nl_conversion;
#else
typedef uint32_t nl_conversion;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How samples of sound lie in memory.
enum nl_sample_format
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // float, -1 to 1.
  NL_SAMPLE_FORMAT_F32 = 0,
  // int16_t, all of its range.
  NL_SAMPLE_FORMAT_I16 = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum nl_sample_format nl_sample_format;
#else
typedef uint32_t nl_sample_format;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What happened.
enum nl_event_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Pictures go to `viewer` from now on.
  NL_EVENT_KIND_VIEWER_JOINED = 1,
  // Whatever `viewer` held counts as let go of.
  NL_EVENT_KIND_VIEWER_LEFT = 2,
  // Head, pointer, sticks or hands moved; nl_viewer_state has the state. Comes once for however many movements until it is taken.
  NL_EVENT_KIND_MOVED = 3,
  // A key was pressed or released: `code` is its USB HID usage, page << 16 | usage (0x7002c is the space bar), the same on every
  // keyboard layout.
  NL_EVENT_KIND_KEY = 4,
  // `data` was typed: up to 32 bytes of text.
  NL_EVENT_KIND_TEXT = 5,
  // `code` is an nl_pointer_button, `x` and `y` where the pointer was.
  NL_EVENT_KIND_POINTER_BUTTON = 6,
  // A finger touched at `x` and `y`; `code` is its number, which is not used again.
  NL_EVENT_KIND_TOUCH_BEGAN = 7,
  // It was lifted, or with `pressed` 1 taken away by the system.
  NL_EVENT_KIND_TOUCH_ENDED = 8,
  // Button `code` of gamepad `device`, in W3C's standard mapping.
  NL_EVENT_KIND_GAMEPAD_BUTTON = 9,
  // Button `code` of the controller of hand `device`, in WebXR's xr-standard mapping.
  NL_EVENT_KIND_CONTROLLER_BUTTON = 10,
  // What gamepads and controllers there are: `data` has a line for each, such as "gamepad 0 NAME" or "controller left PROFILE".
  NL_EVENT_KIND_DEVICES = 11,
  // `data` is a message of the viewer's page or program; `reliable` says how it came.
  NL_EVENT_KIND_MESSAGE = 12,
  // `data` is the text of the viewer's clipboard.
  NL_EVENT_KIND_CLIPBOARD = 13,
  // The server has ended; `data` says why. No picture leaves any more.
  NL_EVENT_KIND_FAILED = 14,
  // Key `code` is still down, and the user's system repeats it. The text that it types follows.
  NL_EVENT_KIND_KEY_REPEATED = 15,
  // With the next press, key `code` is a command that means the character `data` in the user's layout, such as Control and a letter.
  NL_EVENT_KIND_KEY_CHARACTER = 16,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum nl_event_kind nl_event_kind;
#else
typedef uint32_t nl_event_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a viewer watches on.
enum nl_display
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  NL_DISPLAY_SCREEN = 0,
  NL_DISPLAY_HEADSET = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum nl_display nl_display;
#else
typedef uint32_t nl_display;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a controller belongs to.
enum nl_hand
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Neither hand, or the device does not say.
  NL_HAND_NONE = 0,
  NL_HAND_LEFT = 1,
  NL_HAND_RIGHT = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum nl_hand nl_hand;
#else
typedef uint32_t nl_hand;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Buttons of a mouse or pen, as bits of nl_pointer's `buttons` 1 << NL_POINTER_BUTTON_...
enum nl_pointer_button
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  NL_POINTER_BUTTON_PRIMARY = 0,
  NL_POINTER_BUTTON_AUXILIARY = 1,
  NL_POINTER_BUTTON_SECONDARY = 2,
  NL_POINTER_BUTTON_BACK = 3,
  NL_POINTER_BUTTON_FORWARD = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum nl_pointer_button nl_pointer_button;
#else
typedef uint32_t nl_pointer_button;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What shakes.
enum nl_haptics_target
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // `index` is the gamepad's number.
  NL_HAPTICS_TARGET_GAMEPAD = 0,
  // `index` is an nl_hand.
  NL_HAPTICS_TARGET_CONTROLLER = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum nl_haptics_target nl_haptics_target;
#else
typedef uint32_t nl_haptics_target;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Bits of a picture's `flags`.
enum nl_picture_flags
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // The first row in memory is the lowest one, as OpenGL reads frame buffers.
  NL_PICTURE_FLAGS_BOTTOM_UP = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum nl_picture_flags nl_picture_flags;
#else
typedef uint32_t nl_picture_flags;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What happened to a viewer.
enum nl_viewer_event_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // A server has welcomed the viewer: at first, and after each loss of the connection. `data` names the server's version.
  NL_VIEWER_EVENT_KIND_CONNECTED = 1,
  // The connection was lost, and the viewer tries to open another one; `data` says why. What was held counts as let go of.
  NL_VIEWER_EVENT_KIND_LOST = 2,
  // Pictures are `width` by `height` at `fps` from now on, for `eyes` eyes; `data` names the codec.
  NL_VIEWER_EVENT_KIND_STREAM = 3,
  // Gamepad `device`, or the controller of hand `device` where `is_controller`, shakes.
  NL_VIEWER_EVENT_KIND_HAPTICS = 4,
  // How the application wants the pointer: `data` is a keyword of CSS' `cursor`, or empty for an image of its own; with `captured` 1 a
  // click captures it.
  NL_VIEWER_EVENT_KIND_POINTER = 5,
  // `data` is a text for the user's clipboard.
  NL_VIEWER_EVENT_KIND_CLIPBOARD = 6,
  // `data` is a message of the application; `reliable` says how it came.
  NL_VIEWER_EVENT_KIND_MESSAGE = 7,
  // No picture comes any more; `data` says why, and is empty where the viewer was closed.
  NL_VIEWER_EVENT_KIND_ENDED = 8,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum nl_viewer_event_kind nl_viewer_event_kind;
#else
typedef uint32_t nl_viewer_event_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a user does.
enum nl_input_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // The head is at `head`; the eyes and what they see follow from it.
  NL_INPUT_KIND_HEAD = 1,
  // `head`, `views`, `gaze` and `controllers` as a headset's driver knows them.
  NL_INPUT_KIND_PRESENCE = 2,
  // Key `code`, a USB HID usage page << 16 | usage, is `pressed` or not.
  NL_INPUT_KIND_KEY = 3,
  // `text` was typed, up to 4096 bytes.
  NL_INPUT_KIND_TEXT = 4,
  // The pointer is as in `pointer`.
  NL_INPUT_KIND_POINTER = 5,
  // The fingers are those of `touches`, all of them.
  NL_INPUT_KIND_TOUCHES = 6,
  // The gamepads are those of `gamepads`, all of them.
  NL_INPUT_KIND_GAMEPADS = 7,
  // The hand `code`, NL_HAND_LEFT or NL_HAND_RIGHT, is as in `hand`; with `tracked` 0 it is gone.
  NL_INPUT_KIND_HAND = 8,
  // Everything that is held is let go of.
  NL_INPUT_KIND_RELEASE_ALL = 9,
  // The display is of the kind `display` and refreshes `display_hz` times a second; 0 where it shows a picture at once.
  NL_INPUT_KIND_DISPLAY = 10,
  // The user pastes `text`.
  NL_INPUT_KIND_CLIPBOARD = 11,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum nl_input_kind nl_input_kind;
#else
typedef uint32_t nl_input_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Pictures of one OpenGL context on their way to a server.
typedef struct nl_gl nl_gl;

// A server in this process.
typedef struct nl_host nl_host;

// A viewer in this process, connected to a server anywhere.
typedef struct nl_viewer_session nl_viewer_session;

// Images of one Vulkan device on their way to a server.
typedef struct nl_vulkan nl_vulkan;

// What to open. Zero and NULL stand for the usual.
typedef struct {
  // sizeof(nl_options)
  size_t size;
  // What makes the pictures, for the viewers' panels.
  const char *name;
  // Address to listen on; NULL: every address.
  const char *address;
  // Port for the page (TCP) and the media (UDP); 0: a free one.
  uint16_t port;
  // Port for WebRTC (UDP); 0: the one after `port`, or a free one.
  uint16_t rtc_port;
  // The usual size of the pictures, both even; 0: 1280x720. Encoders are prepared for it; a picture may have another.
  uint16_t width;
  uint16_t height;
  // The usual number of pictures a second, up to 240; 0: 60.
  uint16_t fps;
  // 1: screens get both halves of pictures for two eyes; 0: the left one.
  uint8_t stereo;
  // 1: texts of the clipboard pass between the program and users who allow it as well.
  uint8_t clipboard;
  // Most viewers at the same time; 0: 8.
  uint32_t max_clients;
  // Pairing token, 16 characters or more; NULL: a new one.
  const char *token;
  // Files with certificate chain and key in PEM; NULL: a self-signed one that the links name.
  const char *certificate;
  const char *key;
  // Codec to prefer: "h264" or "vp8".
  const char *codec;
  // Rate controller and redundancy, by the names of `nearlight serve --help`.
  const char *controller;
  const char *fec;
  // File for what happens, one JSON object a line.
  const char *events;
  // Rates in megabits a second: to start with, and the bounds.
  double rate_mbps;
  double min_rate_mbps;
  double max_rate_mbps;
  // 1: viewers hear what nl_submit_sound takes; 0: there is no sound.
  uint8_t sound;
  // 1: nl_submit encodes in the thread that calls it, and returns once the picture's packets have left as far as they may at once;
  // 0: pictures are encoded beside the program's work.
  uint8_t synchronous;
  // Recovery of viewers from losses, by the names of `nearlight serve --help`.
  const char *recovery;
  // Network interfaces, separated by commas, on which viewers are also served over Ethernet frames, without IP; NULL: none. Opening them
  // takes CAP_NET_RAW.
  const char *ethernet;
  // Hardware addresses of those viewers, separated by commas; NULL: of all that know the token.
  const char *ethernet_allow;
} nl_options;

// A pulse.
typedef struct {
  // sizeof(nl_haptics_pulse)
  size_t size;
  // An nl_haptics_target.
  uint32_t target;
  uint32_t index;
  // At most 5000; 0 ends the pulse before.
  uint32_t milliseconds;
  // Strength of the slow, strong motor and of the fast, weak one, 0 to 1.
  float strong;
  float weak;
} nl_haptics_pulse;

// What was counted since the server was opened.
typedef struct {
  // sizeof(nl_server_statistics)
  size_t size;
  // Pictures that were submitted, and those of them that nobody watched.
  uint64_t submitted;
  uint64_t unwatched;
  // Events that were not taken in time.
  uint64_t events_dropped;
  uint32_t viewers;
  // Frames of sound that were dropped: more was submitted than is played, or nobody listened.
  uint64_t sound_dropped;
} nl_server_statistics;

// What was counted since a viewer came, as of the last fifth of a second.
typedef struct {
  // sizeof(nl_session_statistics)
  size_t size;
  uint64_t frames;
  // Frames left out because pacer, path or encoder was behind.
  uint64_t frames_skipped;
  uint64_t key_frames;
  uint64_t packets;
  uint64_t packets_lost;
  uint64_t retransmissions;
  uint64_t repairs;
  uint64_t bytes;
  // Over the last second, in bits a second.
  uint64_t sent_bps;
  // What the rate controller allows the encoder, in bits a second.
  uint64_t target_bps;
  // Nanoseconds; 0: not known yet.
  uint64_t round_trip;
} nl_session_statistics;

// Rows of bytes.
typedef struct {
  const uint8_t *bytes;
  // Bytes from one row to the next; 0: rows without padding. After the last row no padding is read.
  size_t stride;
} nl_plane;

// Position in metres and orientation as a unit quaternion x, y, z, w.
typedef struct {
  float position[3];
  float orientation[4];
} nl_pose;

// Tangents of the angles between the view axis and the picture's edges: left and down are negative in a usual view.
typedef struct {
  float left;
  float right;
  float down;
  float up;
} nl_fov;

// Where an eye is and what it sees.
typedef struct {
  nl_pose pose;
  nl_fov fov;
} nl_view;

// A finished picture, read before nl_submit returns.
typedef struct {
  // sizeof(nl_picture)
  size_t size;
  // An nl_pixel_format.
  uint32_t format;
  // An nl_layout.
  uint32_t layout;
  // NL_PICTURE_FLAGS_... or 0.
  uint32_t flags;
  // In pixels, even, 16 to 4096; with NL_LAYOUT_LAYERS of each eye, and both together up to 4096 wide.
  uint32_t width;
  uint32_t height;
  // As many as the format has: 1, 2 (NV12) or 3 (I420).
  nl_plane planes[3];
  // The right eye's, with NL_LAYOUT_LAYERS.
  nl_plane right[3];
  // When what it shows was so, on nl_now's clock; 0: now. One that is older than a picture before it is dropped.
  uint64_t captured_at;
  // The views that it was rendered for, as nl_viewer_state had them: none where the picture does not depend on where anybody is, else
  // one, or two for two eyes.
  uint32_t view_count;
  nl_view views[2];
} nl_picture;

// Memory for the planes of a picture in NL_PIXEL_FORMAT_I420, which encoders read without a copy.
typedef struct {
  // sizeof(nl_lent)
  size_t size;
  // Names it for nl_submit_lent and nl_put_back.
  uint64_t id;
  uint32_t width;
  uint32_t height;
  // Luma, blue, red: to be written until the picture is submitted or put back or the server is closed, and not after.
  uint8_t *planes[3];
  // Bytes from one row to the next.
  size_t strides[3];
} nl_lent;

// Answers OpenGL's function of this name, or NULL, as eglGetProcAddress and SDL_GL_GetProcAddress do.
typedef const void *(*nl_gl_loader)(void *user, const char *name);

// How pictures of an OpenGL context are read. Zero stands for the usual.
typedef struct {
  // sizeof(nl_gl_options)
  size_t size;
  // 1: each picture is handed over before the call returns, which waits for the GPU; 0: with the next one, or by nl_gl_finish.
  uint32_t at_once;
  // An nl_conversion: what converts pixels into planes.
  uint32_t conversion;
} nl_gl_options;

// A picture in a buffer that another device or process exports, or in shared memory (memfd_create).
typedef struct {
  // sizeof(nl_dmabuf)
  size_t size;
  // Stays the program's, which closes it.
  int32_t descriptor;
  // A code of drm_fourcc.h: AR24, XR24, AB24, XB24, NV12 or YU12.
  uint32_t fourcc;
  // Modifier from drm_fourcc.h. Linear buffers are read, tiled ones are refused.
  uint64_t modifier;
  // Offset of each plane, in bytes.
  size_t offsets[3];
  size_t strides[3];
} nl_dmabuf;

// Vulkan's vkGetInstanceProcAddr, cast to this type.
typedef void (*(*nl_vulkan_loader)(void *instance, const char *name))(void);

// The program's own Vulkan, which outlives the reader.
typedef struct {
  // sizeof(nl_vulkan_options)
  size_t size;
  nl_vulkan_loader loader;
  // VkInstance, VkPhysicalDevice, VkDevice.
  void *instance;
  void *physical_device;
  void *device;
  // VkQueue, of a family with graphics, compute or transfer. It copies the images; nl_vulkan calls count as uses of it.
  void *queue;
  uint32_t queue_family;
  // 1: each picture is handed over before the call returns, which waits for the GPU; 0: with the next one, or by nl_vulkan_finish.
  uint32_t at_once;
} nl_vulkan_options;

// An image with one level, one layer and one sample per pixel, whose usage has VK_IMAGE_USAGE_TRANSFER_SRC_BIT.
typedef struct {
  // sizeof(nl_vulkan_image)
  size_t size;
  // VkImage.
  uint64_t image;
  // VkSemaphore that the copy waits for, where other queues draw the image; 0: none. Not of a timeline.
  uint64_t wait;
  // VkFormat: R8G8B8A8 or B8G8R8A8, UNORM or SRGB. Bytes are taken as they are.
  int32_t format;
  // VkImageLayout, before and after the call.
  int32_t layout;
} nl_vulkan_image;

// The next portion of a program's sound, read before nl_submit_sound returns.
typedef struct {
  // sizeof(nl_sound)
  size_t size;
  // One after the other, or left and right in turn.
  const void *samples;
  // Samples of each channel, up to 65536.
  size_t frames;
  // An nl_sample_format.
  uint32_t format;
  // 1 or 2.
  uint32_t channels;
  // In hertz, 8000 to 192000; 0: 48000, which is the cheapest.
  uint32_t rate;
} nl_sound;

// Something that happened.
typedef struct {
  // sizeof(nl_event)
  size_t size;
  // An nl_event_kind; ignore those that you do not know.
  uint32_t kind;
  // Number of the viewer; 0 for what concerns none.
  uint32_t viewer;
  // When, on nl_now's clock.
  uint64_t at;
  uint32_t code;
  // Number of a gamepad, or an nl_hand.
  uint32_t device;
  // 1: pressed; 0: released.
  uint32_t pressed;
  // 1: a message that came once and in order; 0: one that may be lost, come twice or overtake others.
  uint32_t reliable;
  // A place in the picture, 0 to 1 from its left and upper edge.
  float x;
  float y;
  // Text or message, followed by a zero byte; valid until this thread's next nl_poll_event, or in a callback until it returns.
  const uint8_t *data;
  size_t data_size;
} nl_event;

// Called with each event in a thread of the library; `event` is valid until it returns.
typedef void (*nl_event_callback)(void *user, const nl_event *event);

// A mouse or a pen.
typedef struct {
  // 0: there is none.
  uint32_t present;
  // 1: only movement counts, not where it is.
  uint32_t captured;
  // 0 to 1 from the left and upper edge.
  float x;
  float y;
  // Right and down in CSS pixels, since the session began; wraps around.
  int32_t moved[2];
  // Scrolled right and down in sixteenths of a CSS pixel, since the session began; wraps around.
  int32_t scrolled[2];
  // Bits 1 << nl_pointer_button.
  uint32_t buttons;
} nl_pointer;

// A finger on a touch screen.
typedef struct {
  uint32_t id;
  float x;
  float y;
  // 0 to 1.
  float pressure;
} nl_touch;

// A gamepad in W3C's standard mapping.
typedef struct {
  uint32_t index;
  // A bit for each button that is down.
  uint32_t pressed;
  // How far each button is down, 0 to 1.
  uint32_t value_count;
  float values[20];
  // -1 to 1: left stick right and down, right stick right and down.
  uint32_t axis_count;
  float axes[6];
} nl_gamepad;

// An XR controller, or another thing that points in space.
typedef struct {
  // An nl_hand.
  uint32_t hand;
  // 1: `grip` says how it is held.
  uint32_t has_grip;
  // Where it points from, along -z.
  nl_pose aim;
  nl_pose grip;
  // A bit for each button of WebXR's xr-standard mapping: 0 trigger, 1 squeeze, 2 touchpad, 3 thumbstick, then the profile's own.
  uint32_t pressed;
  uint32_t touched;
  // How far each button is down, 0 to 1.
  uint32_t value_count;
  float values[10];
  // -1 to 1: touchpad right and down, thumbstick right and down.
  uint32_t axis_count;
  float axes[4];
} nl_controller;

// A joint of a hand.
typedef struct {
  nl_pose pose;
  // From the joint to the skin, in metres.
  float radius;
} nl_joint;

// A hand, in WebXR's order of joints, the wrist first.
typedef struct {
  // 0: it is not tracked.
  uint32_t tracked;
  nl_joint joints[25];
} nl_tracked_hand;

// A viewer as its newest input has it.
typedef struct {
  // sizeof(nl_viewer)
  size_t size;
  // Its number, not used again.
  uint32_t id;
  // 1: it acted last, or nobody has acted yet and it has been here longest.
  uint32_t drives;
  // An nl_display.
  uint32_t display;
  // What to draw for it now: a headset's views as they will be at `display_at`, a screen's as they are; none before its first input.
  uint32_t view_count;
  nl_view views[2];
  // When a picture that is submitted now is displayed; an estimate before pictures were displayed.
  uint64_t display_at;
  nl_pose head;
  nl_pointer pointer;
  // Keys that are down, as in NL_EVENT_KIND_KEY.
  uint32_t key_count;
  uint32_t keys[16];
  uint32_t touch_count;
  nl_touch touches[10];
  uint32_t gamepad_count;
  nl_gamepad gamepads[4];
  uint32_t controller_count;
  nl_controller controllers[3];
  // 1: `gaze` says where the eyes look from, along -z.
  uint32_t has_gaze;
  nl_pose gaze;
  // The left and the right one.
  nl_tracked_hand hands[2];
} nl_viewer;

// How a viewer connects. Zero and NULL stand for the usual.
typedef struct {
  // sizeof(nl_viewer_options)
  size_t size;
  // The viewer's name for itself, for the server's log.
  const char *name;
  // Codecs that the server may use, best first, with commas between: "h264,vp8".
  const char *codecs;
  // How long nl_viewer_connect tries to reach a server, in milliseconds; 0: 10000.
  uint32_t connect_limit_ms;
  // Pictures that wait for the program: of more, the oldest is passed over. 0: 1, which is the shortest delay.
  uint32_t pictures_kept;
  // An nl_display: NL_DISPLAY_HEADSET requests two eyes side by side.
  uint32_t display;
  // Refresh rate of the display in hertz; 0: a picture is displayed the moment it is decoded.
  uint16_t display_hz;
  // 1: requests the program's sound.
  uint8_t sound;
  // 1: shares texts of the clipboard, where the server's owner allows it too.
  uint8_t clipboard;
  // 1: the program says by nl_viewer_displayed when each picture is seen; 0: it counts as seen when it is taken.
  uint8_t tells_display;
} nl_viewer_options;

// A decoded picture. Times are on nl_viewer_now's clock; 0 before the clocks were compared, which takes a round trip.
typedef struct {
  // sizeof(nl_received_picture)
  size_t size;
  // Names it for nl_viewer_release and the other calls.
  uint64_t id;
  uint32_t width;
  uint32_t height;
  // Luma, blue, red: 4:2:0 in BT.709's limited range, to be read until the picture is released or the viewer closed.
  const uint8_t *planes[3];
  // Bytes from one row to the next.
  size_t strides[3];
  // Counts from 0 in each session.
  uint32_t frame;
  // Counts from 1: another one begins when the connection was lost, or the codec changes.
  uint32_t session;
  // The newest input that it shows; 0 before the first.
  uint32_t input;
  // 1: `marker_frame` and `marker_input` were read from the rows below the picture.
  uint32_t has_marker;
  uint32_t marker_frame;
  uint32_t marker_input;
  // 1: decodes without any other frame.
  uint32_t key;
  // 1: something that it depends on was lost.
  uint32_t damaged;
  // When its rendering, or its capture, began and ended.
  uint64_t captured_at;
  uint64_t rendered_at;
  // When it left the encoder.
  uint64_t encoded_at;
  // When it was rendered to be displayed.
  uint64_t display_at;
  uint64_t decoded_at;
  // What each eye of the picture sees, left first: one for a screen, two side by side for a headset.
  uint32_t view_count;
  nl_view views[2];
} nl_received_picture;

// What a viewer has counted, as of the last half second.
typedef struct {
  // sizeof(nl_viewer_counts)
  size_t size;
  // 1: a server has welcomed the viewer, and the connection was not lost.
  uint32_t connected;
  // How often one has.
  uint32_t connections;
  // Pictures displayed a second.
  double fps;
  // Median in nanoseconds, from an input to the display of the first picture that shows it; 0 before one was.
  uint64_t motion_to_photon;
  // Over the last second, in bits a second.
  uint64_t received_bps;
  // Bytes received on the newest connection.
  uint64_t bytes;
  // Frames that the decoder refused.
  uint64_t refused;
  // Datagrams that are none.
  uint64_t malformed;
  // Pictures that newer ones replaced before the program took them.
  uint64_t pictures_passed_over;
  // Events and frames of sound that the program did not take in time.
  uint64_t events_dropped;
  uint64_t sound_dropped;
} nl_viewer_counts;

// Something that happened to a viewer.
typedef struct {
  // sizeof(nl_viewer_event)
  size_t size;
  // An nl_viewer_event_kind; ignore those that you do not know.
  uint32_t kind;
  // 1: a message that came once and in order.
  uint32_t reliable;
  // When, on nl_viewer_now's clock.
  uint64_t at;
  uint32_t width;
  uint32_t height;
  uint32_t fps;
  uint32_t eyes;
  // Number of a gamepad, or an nl_hand.
  uint32_t device;
  uint32_t is_controller;
  uint32_t milliseconds;
  // Strength of the slow, strong motor and of the fast, weak one, 0 to 1.
  float strong;
  float weak;
  uint32_t captured;
  // Text or message, followed by a zero byte; valid until this thread's next nl_viewer_poll_event.
  const uint8_t *data;
  size_t data_size;
} nl_viewer_event;

// What a user does now.
typedef struct {
  // sizeof(nl_input)
  size_t size;
  // An nl_input_kind, which says what of the rest counts.
  uint32_t kind;
  uint32_t code;
  uint32_t pressed;
  uint32_t display;
  uint32_t display_hz;
  const char *text;
  nl_pointer pointer;
  uint32_t touch_count;
  nl_touch touches[10];
  uint32_t gamepad_count;
  nl_gamepad gamepads[4];
  nl_pose head;
  uint32_t view_count;
  nl_view views[2];
  uint32_t has_gaze;
  nl_pose gaze;
  uint32_t controller_count;
  nl_controller controllers[3];
  nl_tracked_hand hand;
} nl_input;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The library's version, such as "0.1.0". While the first number is 0, another second number means another interface; after that
// another first one does.
const char *nl_version(void);

// A sentence about this thread's last call that failed: what happened, what it means and what to do. Empty before the first. Valid
// until this thread's next call.
const char *nl_error_message(void);

// Opens a server and waits until viewers can connect, tens of milliseconds. NULL options are the usual ones. Writes the server to `host`,
// or NULL where it fails.
nl_status nl_open(const nl_options *options,
                  nl_host **host);

// Opens with options as a TOML document, whose keys are those of docs/embedding.md.
nl_status nl_open_toml(const char *toml, nl_host **host);

// Lets what was submitted and sent before leave, says goodbye to every viewer and ends all threads of the server: within 5 s, usually within
// half a second. The handle means nothing afterwards: other calls with it fail with NL_STATUS_CLOSED. Not from an event callback.
nl_status nl_close(nl_host *host);

// The link number `index` to the page, for a browser on this machine first, then for others, the likeliest first; then those for viewers
// over Ethernet frames, which begin with `ether:`; NULL beyond the last. Links are keys: whoever has one sees and acts. Valid until
// nl_close.
const char *nl_link(const nl_host *host,
                    size_t index);

// A link to the page as a QR code for a phone's camera, in lines of Unicode's block characters. Valid until nl_close.
const char *nl_qr_code(const nl_host *host,
                       size_t index);

// Nanoseconds since the server was opened; 0 for one that is not open.
uint64_t nl_now(const nl_host *host);

// 1: somebody watches; 0: pictures would be made in vain, or the server is not open.
int32_t nl_is_watched(const nl_host *host);

// Sends a message to the page or program of `viewer`, or of all with 0: up to 16384 bytes that come once and in order, or with
// `reliable` 0 up to 1100 that may be lost, come twice or overtake others.
nl_status nl_send(nl_host *host,
                  uint32_t viewer,
                  const void *data,
                  size_t size,
                  int32_t reliable);

// Shakes a gamepad or controller of `viewer`, or of all with 0.
nl_status nl_haptics(nl_host *host, uint32_t viewer, const nl_haptics_pulse *pulse);

// Sets how the pointer of `viewer` looks, or with 0 that of all viewers, including later ones. `cursor` is a keyword of CSS' `cursor`, such as
// "default", "grab" or "none"; NULL stands for "default". With `captured` 1 the pointer is captured when the user clicks, for its movement.
// Until this is called, the pointer is "default" and free.
nl_status nl_set_pointer(nl_host *host,
                         uint32_t viewer,
                         const char *cursor,
                         int32_t captured);

// A text of up to 4 MiB for the clipboard of `viewer`, or of all with 0, where options and user allow it.
nl_status nl_set_clipboard(nl_host *host, uint32_t viewer, const char *text);

// What the server has counted.
nl_status nl_statistics(const nl_host *host, nl_server_statistics *statistics);

// What was counted of a viewer.
nl_status nl_viewer_statistics(const nl_host *host, uint32_t viewer, nl_session_statistics *statistics);

// Takes a picture: converts it, in this thread, into the memory that encoders read, and returns while it is encoded beside: a
// millisecond or two. Memory is allocated only for the first pictures of a size. Of two pictures that wait the newer one is sent. Where
// nobody watches it is checked and dropped. With nl_options' `synchronous` it is encoded in this thread too, and returns once its packets
// have left as far as they may at once; it waits for them 5 ms at most.
nl_status nl_submit(nl_host *host,
                    const nl_picture *picture);

// Lends memory for the planes of a picture, with an old one in it. What the program draws there is not copied when it is submitted.
// At most 16 at a time.
nl_status nl_lend(nl_host *host,
                  uint32_t width,
                  uint32_t height,
                  nl_lent *lent);

// GLSL (3.30, or ES 3.00) that makes planes out of pixels, for the last pass of a program that draws straight into the encoder's format.
// Put it behind the `#version` line of a fragment shader that defines `vec3 nearlight_pixel(ivec2 place)`: the colour of a pixel counted
// from the top left, each part from 0 to 1. `nearlight_plane(ivec2(gl_FragCoord.xy), size)` is then the value of a target of one byte a
// pixel (GL_R8), as wide as the picture and half as high again. From the first row that glReadPixels answers it has luma, top down, then
// the blue differences in the left half and the red ones in the right half: read each into lent planes. Valid as long as the library is loaded.
const char *nl_planes_shader(void);

// Takes lent planes as a picture; their memory is not the program's any more. Of `content` the layout (NL_LAYOUT_MONO or
// NL_LAYOUT_SIDE_BY_SIDE), `captured_at` and the views count; NULL stands for a picture of now for both eyes.
nl_status nl_submit_lent(nl_host *host,
                         const nl_lent *lent,
                         const nl_picture *content);

// Gives lent planes back that are not to be shown.
nl_status nl_put_back(nl_host *host, const nl_lent *lent);

// Prepares to read pictures of the OpenGL context that is current in this thread (OpenGL 3.3, OpenGL ES 3.0, or later). `loader` finds
// OpenGL's functions and is called with `user`, in this call alone; NULL: as EGL or GLX does. NULL options are the usual ones. Writes the
// reader to `gl`, or NULL where it fails. The other nl_gl calls are made with the same context current, and leave its state as it was.
nl_status nl_gl_open(nl_host *host,
                     nl_gl_loader loader,
                     void *user,
                     const nl_gl_options *options,
                     nl_gl **gl);

// Takes a two-dimensional texture of the context as a picture. Of `picture` its size, layout (NL_LAYOUT_MONO or NL_LAYOUT_SIDE_BY_SIDE),
// `flags`, `captured_at` and views count; what OpenGL has drawn is NL_PICTURE_FLAGS_BOTTOM_UP.
nl_status nl_gl_submit_texture(nl_gl *gl,
                               uint32_t texture,
                               const nl_picture *picture);

// Takes what is drawn in a frame buffer of the context, 0 for the window's, as a picture, from its read buffer. Of `picture` its size, layout,
// `captured_at` and views count; it is bottom up as OpenGL has it.
nl_status nl_gl_submit_framebuffer(nl_gl *gl,
                                   uint32_t framebuffer,
                                   const nl_picture *picture);

// Takes pixels that the program has read into a pixel buffer of the context, rows without padding, and waits until they are there. Of
// `picture` its format (NL_PIXEL_FORMAT_RGBA, _BGRA or _RGB), size, layout, `flags`, `captured_at` and views count.
nl_status nl_gl_submit_buffer(nl_gl *gl,
                              uint32_t buffer,
                              const nl_picture *picture);

// Hands over what is still being read.
nl_status nl_gl_finish(nl_gl *gl);

// Deletes what the reader has in its context. Before the context, and after or before nl_close.
nl_status nl_gl_close(nl_gl *gl);

// Takes a picture out of a buffer that another device or process exports: maps it, waits until the device has finished writing, converts or
// copies it in this thread, and unmaps it. Of `picture` its size, layout (NL_LAYOUT_MONO or NL_LAYOUT_SIDE_BY_SIDE), `flags`, `captured_at`
// and views count. Tiled buffers are refused: import them into OpenGL and submit the texture.
nl_status nl_submit_dmabuf(nl_host *host,
                           const nl_dmabuf *buffer,
                           const nl_picture *picture);

// Prepares to read images of a Vulkan device. Writes the reader to `vulkan`, or NULL where it fails.
nl_status nl_vulkan_open(nl_host *host,
                         const nl_vulkan_options *options,
                         nl_vulkan **vulkan);

// Takes an image as a picture. What was submitted to the reader's queue before is drawn first; what is submitted afterwards may draw into the
// image again. Of `picture` its size, layout (NL_LAYOUT_MONO or NL_LAYOUT_SIDE_BY_SIDE), `flags`, `captured_at` and views count.
nl_status nl_vulkan_submit(nl_vulkan *vulkan,
                           const nl_vulkan_image *image,
                           const nl_picture *picture);

// Hands over what is still being read.
nl_status nl_vulkan_finish(nl_vulkan *vulkan);

// Frees what the reader has on its device. Before the device is destroyed, and after or before nl_close.
nl_status nl_vulkan_close(nl_vulkan *vulkan);

// Takes the program's next sound, which follows what it submitted before: in portions of any length, at the pace at which it is to be heard.
// Viewers hear it together with pictures of the same moment. Copies it and returns. Of what was not heard yet, 200 ms are kept. Needs
// nl_options' `sound`.
nl_status nl_submit_sound(nl_host *host,
                          const nl_sound *sound);

// Writes the oldest event that was not taken; waits for one up to `wait_ms` milliseconds, 0 not at all. NL_STATUS_NOTHING: none came.
nl_status nl_poll_event(nl_host *host,
                        nl_event *event,
                        uint32_t wait_ms);

// Has `on_event` called with each event and with `user`, in a thread of the library's own, in place of polling, until nl_close has
// returned. It may call everything but nl_close.
nl_status nl_set_callback(nl_host *host,
                          nl_event_callback on_event,
                          void *user);

// Writes the numbers of those who watch, in the order of their coming, up to `capacity` of them to `ids`, and how many there are to
// `count`.
nl_status nl_viewer_ids(const nl_host *host,
                        uint32_t *ids,
                        size_t capacity,
                        size_t *count);

// Writes what is known of a viewer; of the one that drives with 0: who acted last, else who came first. NL_STATUS_NO_VIEWER: nobody
// with this number, or nobody at all, watches.
nl_status nl_viewer_state(const nl_host *host,
                          uint32_t viewer,
                          nl_viewer *state);

// Connects to the server of a link, `http[s]://HOST:PORT/#token=...` or `ether:[INTERFACE/]ADDRESS#token=...`, and waits until it has
// welcomed the viewer, as long as the options say. NULL options are the usual ones. When the connection is lost later, the viewer opens
// another one by itself. Writes the viewer to `viewer`, or NULL where it fails.
nl_status nl_viewer_connect(const char *link,
                            const nl_viewer_options *options,
                            nl_viewer_session **viewer);

// Says goodbye to the server and ends all threads of the viewer: within 2 s, usually at once. The handle means nothing afterwards, and
// pictures that were not released are gone. NL_STATUS_FAILED: it had ended before by itself, and the sentence says why.
nl_status nl_viewer_close(nl_viewer_session *viewer);

// Nanoseconds since the viewer was connected; 0 for one that is not open.
uint64_t nl_viewer_now(const nl_viewer_session *viewer);

// Writes the newest picture, if one came since the last call; waits for one up to `wait_ms` milliseconds, 0 not at all.
// NL_STATUS_NOTHING: none came. NL_STATUS_FULL: 16 are held; release some. The memory of a picture that was released is used again.
nl_status nl_viewer_poll_picture(nl_viewer_session *viewer,
                                 nl_received_picture *picture,
                                 uint32_t wait_ms);

// Converts a picture that is held into pixels of the caller's, NL_PIXEL_FORMAT_RGBA, _BGRA or _RGB, whose rows begin `stride` bytes apart;
// 0: without padding. `capacity` is how many bytes there are.
nl_status nl_viewer_write_pixels(nl_viewer_session *viewer,
                                 const nl_received_picture *picture,
                                 uint32_t format,
                                 uint8_t *pixels,
                                 size_t stride,
                                 size_t capacity);

// The user saw a picture that is held first at `at`, on nl_viewer_now's clock; 0: now. Only with nl_viewer_options' `tells_display`.
nl_status nl_viewer_displayed(nl_viewer_session *viewer,
                              const nl_received_picture *picture,
                              uint64_t at);

// The program does not read a picture's planes any more.
nl_status nl_viewer_release(nl_viewer_session *viewer, const nl_received_picture *picture);

// Sends the application a message: up to 16384 bytes that come once and in order, or with `reliable` 0 up to 1100 that may be lost, come
// twice or overtake others.
nl_status nl_viewer_send_message(nl_viewer_session *viewer,
                                 const void *data,
                                 size_t size,
                                 int32_t reliable);

// Fills `samples` with up to `frames` frames of sound that is due and was not read, left and right in turn at 48 kHz within -1 and 1.
// Answers how many; where fewer came than asked for, play silence for the rest. Writes when the first one is due to `due_at`, which may be
// NULL. An audio device's own callback may call it: it allocates nothing and waits for nobody.
size_t nl_viewer_read_sound(nl_viewer_session *viewer,
                            float *samples,
                            size_t frames,
                            uint64_t *due_at);

// What a viewer has counted.
nl_status nl_viewer_count(const nl_viewer_session *viewer, nl_viewer_counts *counts);

// Writes the oldest event that was not taken; waits for one up to `wait_ms` milliseconds, 0 not at all. NL_STATUS_NOTHING: none came.
nl_status nl_viewer_poll_event(nl_viewer_session *viewer,
                               nl_viewer_event *event,
                               uint32_t wait_ms);

// Sends what the user does now; what a server would drop is an error. What is sent while no server is reached has no effect, but for where
// the user is.
nl_status nl_viewer_send_input(nl_viewer_session *viewer,
                               const nl_input *input);

// Writes the oldest event that was not taken; waits for one up to `wait_ms` milliseconds, 0 not at all. NL_STATUS_NOTHING: none came.
nl_status nl_viewer_poll_event(nl_viewer_session *viewer,
                               nl_viewer_event *event,
                               uint32_t wait_ms);

// Sends what the user does now; what a server would drop is an error. What is sent while no server is reached has no effect, but for where
// the user is.
nl_status nl_viewer_send_input(nl_viewer_session *viewer,
                               const nl_input *input);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NEARLIGHT_H */
