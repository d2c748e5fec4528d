// libnearlight: the pictures of your own program, seen and touched in a browser, a headset or `nearlight view`.
//
// docs/embedding.md is the guide. Generated from crates/capi; do not edit.
//
// Every structure that is passed by its address begins with `size`: set everything to zero and `size` to the sizeof before the call,
// whether the library reads or writes the structure. So structures can grow, and programs built against an older header go on working.
//
// Every function may be called from any thread at any time, also with a server that was closed, which is an error like another. No
// function ends the process, and none keeps a pointer to the caller's memory after it has returned, but for nl_set_callback's `user`.
// Functions that fail return a status that is not NL_STATUS_OK, and nl_error_message() has a sentence about it. Texts are UTF-8 and
// end with a zero byte. Times are nanoseconds since the server was opened (nl_now). Poses are in metres, right-handed, y up, -z ahead.


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
  // The same, blue first.
  NL_PIXEL_FORMAT_BGRA = 1,
  // Three bytes a pixel, red first.
  NL_PIXEL_FORMAT_RGB = 2,
  // 4:2:0 in BT.709's limited range: a plane of luma, and one of blue and red differences in turn.
  NL_PIXEL_FORMAT_NV12 = 3,
  // The same with a plane each for luma, blue and red differences. This is what encoders take, and cheapest.
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
  // The certificate was renewed: new viewers need one of the new links.
  NL_EVENT_KIND_LINKS_CHANGED = 14,
  // The server has ended; `data` says why. No picture leaves any more.
  NL_EVENT_KIND_FAILED = 15,
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

// A server in this process.
typedef struct nl_host nl_host;

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
  // Of the slow, strong and of the fast, weak motor, 0 to 1.
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

// The same with options as a TOML document, whose keys are those of docs/embedding.md.
nl_status nl_open_toml(const char *toml, nl_host **host);

// Lets what was submitted and sent before leave, says goodbye to every viewer and ends all threads of the server: within 5 s, usually within
// half a second. The handle means nothing afterwards: other calls with it fail with NL_STATUS_CLOSED. Not from an event callback.
nl_status nl_close(nl_host *host);

// The link number `index` to the page, for a browser on this machine first, then for others, the likeliest first; NULL beyond the last.
// Links are keys: whoever has one sees and acts. Valid until nl_close.
const char *nl_link(const nl_host *host,
                    size_t index);

// The same link as a QR code for a phone's camera, in lines of Unicode's block characters. Valid until nl_close.
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

// How the pointer of `viewer` looks, or of all and of those who come with 0: a keyword of CSS' `cursor`, such as "default", "grab" or
// "none"; and with `captured` 1 that it is captured when the user clicks, for its movement. Until it is set it is "default" and free.
nl_status nl_set_pointer(nl_host *host,
                         uint32_t viewer,
                         const char *cursor,
                         int32_t captured);

// A text of up to 32768 bytes for the clipboard of `viewer`, or of all with 0, where options and user allow it.
nl_status nl_set_clipboard(nl_host *host,
                           uint32_t viewer,
                           const char *text);

// What the server has counted.
nl_status nl_statistics(const nl_host *host, nl_server_statistics *statistics);

// What was counted of a viewer.
nl_status nl_viewer_statistics(const nl_host *host, uint32_t viewer, nl_session_statistics *statistics);

// Takes a picture: converts it, in this thread, into the memory that encoders read, and returns while it is encoded beside: a
// millisecond or two. Memory is allocated only for the first pictures of a size. Of two pictures that wait the newer one is sent. Where
// nobody watches it is checked and dropped.
nl_status nl_submit(nl_host *host,
                    const nl_picture *picture);

// Lends memory for the planes of a picture, with an old one in it. What the program draws there is not copied when it is submitted.
// At most 16 at a time.
nl_status nl_lend(nl_host *host,
                  uint32_t width,
                  uint32_t height,
                  nl_lent *lent);

// Takes lent planes as a picture; their memory is not the program's any more. Of `content` the layout (NL_LAYOUT_MONO or
// NL_LAYOUT_SIDE_BY_SIDE), `captured_at` and the views count; NULL stands for a picture of now for both eyes.
nl_status nl_submit_lent(nl_host *host,
                         const nl_lent *lent,
                         const nl_picture *content);

// Gives lent planes back that are not to be shown.
nl_status nl_put_back(nl_host *host, const nl_lent *lent);

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

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NEARLIGHT_H */
