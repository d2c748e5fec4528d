// OpenUVR's interface (Table I of "OpenUVR: an Open-Source System Framework for Untethered Virtual Reality Applications", 2021), over
// libnearlight. docs/embedding.md says how it maps to ours and where it departs.
//
// Functions that return an int return 0, or -1 after a failure, and nl_error_message() of nearlight.h has a sentence about it.

#ifndef OPENUVR_H
#define OPENUVR_H

#include <stdint.h>

// The paper's listings name encoders at both ends.
enum OPENUVR_DECODER_TYPE {
    // H.264 by a graphics card. There is none here: it is coded by the processor, as with OPENUVR_ENCODER_H264.
    OPENUVR_ENCODER_H264_CUDA = 1,
    OPENUVR_ENCODER_H264 = 2,
    OPENUVR_ENCODER_VP8 = 3
};

enum OPENUVR_NETWORK_TYPE {
    // Link-layer frames. The host sends them on the interface that OPENUVR_INTERFACE names (it takes CAP_NET_RAW), and over UDP as well, to
    // browsers. The device uses them where its link is one of Ethernet.
    OPENUVR_NETWORK_RAW = 1,
    OPENUVR_NETWORK_UDP = 2
};

enum OPENUVR_FEATURE {
    // Frames a second at most, 1 to 240; 60 if it is not set.
    TARGET_FPS = 1,
    // What the pixel buffer holds, 1920 by 1080 and OPENUVR_RGB if they are not set; rows without padding, bottom up.
    OPENUVR_WIDTH = 2,
    OPENUVR_HEIGHT = 3,
    OPENUVR_FORMAT = 4,
    // 1: openuvr_send_frame encodes in the calling thread and returns once the packets have left.
    OPENUVR_SYNCHRONOUS = 5,
    // Port of the page (TCP) and the media (UDP); 0, the default: a free one.
    OPENUVR_PORT = 6
};

enum OPENUVR_PIXELS { OPENUVR_RGB = 0, OPENUVR_RGBA = 1, OPENUVR_BGRA = 2 };

// Devices by an id that both ends know.
enum OPENUVR_DEVICE { SYS_MOUSE = 1, SYS_KEYBOARD = 2 };

struct openuvr_context;
struct openuvr_mud_context;

// A decoded picture: `height` rows of `width` pixels of four bytes, red first, without padding, valid until the callback returns.
struct openuvr_picture {
    const uint8_t *pixels;
    int width;
    int height;
};

#ifdef __cplusplus
extern "C" {
#endif

// --- The host.

// Associates a context with an OpenGL pixel buffer: `ptr` is the address of its name, which is read with each frame. NULL after a failure.
struct openuvr_context *openuvr_alloc_context(enum OPENUVR_DECODER_TYPE dec_type, enum OPENUVR_NETWORK_TYPE net_proto, void *ptr);

// Before openuvr_init_thread.
int openuvr_set_feature(struct openuvr_context *context, enum OPENUVR_FEATURE feature, int value);

// What device `id` of the viewers does is written to `fd` as Linux' struct input_event: a pipe, a socket or uinput. It stays the program's.
int openuvr_map_input_device(struct openuvr_context *context, int id, int fd);
// As the paper's listing spells it.
#define openuvr_map_device openuvr_map_input_device

// Opens the server and its threads. Where that fails, standard error says why, and openuvr_link answers NULL.
void openuvr_init_thread(struct openuvr_context *context);

// Beyond the paper's table, whose host copies the buffer by CUDA behind the program's back: sends what the program has read into the buffer,
// from the thread in which its OpenGL context is current. 1: it came sooner than TARGET_FPS allows, and was left out.
int openuvr_send_frame(struct openuvr_context *context);

// Beyond the paper's table: the link for a browser on this machine, with OPENUVR_NETWORK_RAW that for devices (`ether:`); NULL before
// openuvr_init_thread. Valid as long as the context.
const char *openuvr_link(struct openuvr_context *context);

// Beyond the paper's table: says goodbye and ends the threads. With the OpenGL context current, if frames were sent.
void openuvr_free_context(struct openuvr_context *context);

// --- The device ("MUD", mobile user device).

struct openuvr_mud_context *openuvr_alloc_mud_context(enum OPENUVR_DECODER_TYPE dec_type, enum OPENUVR_NETWORK_TYPE net_proto);

// Beyond the paper's table, whose device knows its host when it is built: the host's link. Without it, the environment's OPENUVR_LINK.
int openuvr_set_link(struct openuvr_mud_context *context, const char *link);

// Beyond the paper's table: `show` is called with each picture and with `user`, in a thread of the library.
int openuvr_set_display(struct openuvr_mud_context *context, void (*show)(void *user, const struct openuvr_picture *picture), void *user);

// What happens on `fd` is sent to the host as device `id`: struct input_event of an evdev device, a pipe or a socket, or the packets of
// /dev/input/mice. It stays the program's, and open until the context is freed.
int openuvr_register_input_device(struct openuvr_mud_context *context, int id, int fd);

// Connects, for 10 s at most, and begins to read devices and to show pictures.
int openuvr_init_mud_thread(struct openuvr_mud_context *context);

// Beyond the paper's table: says goodbye and ends the threads.
void openuvr_free_mud_context(struct openuvr_mud_context *context);

#ifdef __cplusplus
}
#endif

#endif
