/* A viewer that the test builds against the library: it watches the link of its first argument and prints what it receives. */

#include <math.h>
#include <nearlight.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

/* An unexpected status, or a failure without a message, is a fault of the library. */
static void expect(const char *what, nl_status status, nl_status wanted) {
    if (status != wanted) {
        printf("FAULT %s: status %d, not %d (%s)\n", what, (int)status, (int)wanted, nl_error_message());
        failures++;
    }
    if (wanted > NL_STATUS_NOTHING && strlen(nl_error_message()) < 20) {
        printf("FAULT %s: no sentence, but `%s`\n", what, nl_error_message());
        failures++;
    }
}

static void before(void) {
    nl_viewer_session *viewer = NULL;
    nl_viewer_options options = {0};
    const char *link = "https://127.0.0.1:9/#token=abcdefghijklmnopqrstuv";

    expect("no link", nl_viewer_connect(NULL, NULL, &viewer), NL_STATUS_ARGUMENT);
    expect("nowhere", nl_viewer_connect(link, NULL, NULL), NL_STATUS_ARGUMENT);
    expect("no link at all", nl_viewer_connect("hello", NULL, &viewer), NL_STATUS_OPTIONS);
    expect("no UTF-8", nl_viewer_connect("\xff\xfe", NULL, &viewer), NL_STATUS_ARGUMENT);
    expect("options without size", nl_viewer_connect(link, &options, &viewer), NL_STATUS_ARGUMENT);
    options.size = sizeof options;
    options.codecs = "h264,av7";
    expect("codec", nl_viewer_connect(link, &options, &viewer), NL_STATUS_OPTIONS);
    options.codecs = NULL;
    options.display = 99;
    expect("display", nl_viewer_connect(link, &options, &viewer), NL_STATUS_ARGUMENT);
    options.display = NL_DISPLAY_SCREEN;
    options.connect_limit_ms = 300;
    expect("nobody answers", nl_viewer_connect(link, &options, &viewer), NL_STATUS_FAILED);
    if (viewer != NULL) {
        printf("FAULT a viewer that is not connected\n");
        failures++;
    }
    expect("no viewer", nl_viewer_close(NULL), NL_STATUS_ARGUMENT);
    expect("a made up viewer", nl_viewer_close((nl_viewer_session *)(uintptr_t)12345), NL_STATUS_CLOSED);
}

static void misuse(nl_viewer_session *viewer) {
    nl_received_picture picture = {0};
    nl_viewer_event event = {0};
    nl_viewer_counts counts = {0};
    nl_input input = {0};
    uint8_t pixels[16];

    expect("no picture", nl_viewer_poll_picture(viewer, NULL, 0), NL_STATUS_ARGUMENT);
    expect("picture without size", nl_viewer_poll_picture(viewer, &picture, 0), NL_STATUS_ARGUMENT);
    picture.size = sizeof picture;
    expect("release nothing", nl_viewer_release(viewer, &picture), NL_STATUS_ARGUMENT);
    expect("write nothing", nl_viewer_write_pixels(viewer, &picture, NL_PIXEL_FORMAT_RGBA, pixels, 0, 16), NL_STATUS_ARGUMENT);
    expect("nothing was seen", nl_viewer_displayed(viewer, &picture, 0), NL_STATUS_ARGUMENT);
    expect("no event", nl_viewer_poll_event(viewer, NULL, 0), NL_STATUS_ARGUMENT);
    expect("event without size", nl_viewer_poll_event(viewer, &event, 0), NL_STATUS_ARGUMENT);
    expect("counts without size", nl_viewer_count(viewer, &counts), NL_STATUS_ARGUMENT);
    expect("no input", nl_viewer_send_input(viewer, NULL), NL_STATUS_ARGUMENT);
    expect("input without size", nl_viewer_send_input(viewer, &input), NL_STATUS_ARGUMENT);
    input.size = sizeof input;
    expect("input of no kind", nl_viewer_send_input(viewer, &input), NL_STATUS_ARGUMENT);
    input.kind = NL_INPUT_KIND_TEXT;
    expect("no text", nl_viewer_send_input(viewer, &input), NL_STATUS_ARGUMENT);
    input.kind = NL_INPUT_KIND_TOUCHES;
    input.touch_count = 11;
    expect("eleven fingers", nl_viewer_send_input(viewer, &input), NL_STATUS_ARGUMENT);
    input.kind = NL_INPUT_KIND_POINTER;
    input.pointer.present = 1;
    input.pointer.x = NAN;
    expect("a pointer nowhere", nl_viewer_send_input(viewer, &input), NL_STATUS_ARGUMENT);
    input.kind = NL_INPUT_KIND_HEAD;
    input.head.orientation[3] = 2;
    expect("a head twice as large", nl_viewer_send_input(viewer, &input), NL_STATUS_ARGUMENT);
    input.kind = NL_INPUT_KIND_CLIPBOARD;
    input.text = "x";
    expect("clipboard", nl_viewer_send_input(viewer, &input), NL_STATUS_ARGUMENT);
    expect("no message", nl_viewer_send_message(viewer, NULL, 10, 1), NL_STATUS_ARGUMENT);
    if (nl_viewer_read_sound(viewer, NULL, 100, NULL) != 0 || nl_viewer_read_sound(NULL, NULL, 0, NULL) != 0) {
        printf("FAULT sound from nowhere\n");
        failures++;
    }
}

int main(int count, char **arguments) {
    nl_viewer_session *viewer = NULL;
    nl_viewer_options options = {0};
    nl_viewer_counts counts = {0};
    nl_received_picture held = {0};
    nl_input input = {0};
    int pictures = 0, connected = 0, heard = 0, loud = 0, bright = 0, done = 0, turn;
    static uint8_t pixels[192 * 1300];
    static float samples[2 * 4800];

    if (count != 2) {
        return 2;
    }
    before();
    options.size = sizeof options;
    options.name = "the test's viewer";
    options.sound = 1;
    expect("connect", nl_viewer_connect(arguments[1], &options, &viewer), NL_STATUS_OK);
    if (viewer == NULL) {
        return 1;
    }
    misuse(viewer);
    input.size = sizeof input;
    /* A minute is enough on a busy machine. */
    for (turn = 0; turn < 6000 && !done; turn++) {
        nl_received_picture picture = {0};
        nl_viewer_event event = {0};
        size_t frames, index;
        uint64_t due = 0;
        picture.size = sizeof picture;
        event.size = sizeof event;
        while (nl_viewer_poll_event(viewer, &event, 0) == NL_STATUS_OK) {
            connected += event.kind == NL_VIEWER_EVENT_KIND_CONNECTED;
            if (event.kind == NL_VIEWER_EVENT_KIND_MESSAGE) {
                heard += event.data_size == 5 && memcmp(event.data, "hello", 6) == 0 && event.reliable;
            }
        }
        if (nl_viewer_poll_picture(viewer, &picture, 10) == NL_STATUS_OK) {
            pictures++;
            expect("RGB", nl_viewer_write_pixels(viewer, &picture, NL_PIXEL_FORMAT_RGB, pixels, 1300, sizeof pixels), NL_STATUS_OK);
            if (picture.width != 320 || picture.height != 192 || picture.view_count != 1 || picture.strides[0] < 320) {
                printf("FAULT a picture of %u by %u for %u eyes\n", (unsigned)picture.width, (unsigned)picture.height,
                       (unsigned)picture.view_count);
                failures++;
            }
            bright += picture.planes[0][0] > 150 && pixels[1300 * 100 + 3 * 100] > 180;
            expect("too little room", nl_viewer_write_pixels(viewer, &picture, NL_PIXEL_FORMAT_RGBA, pixels, 0, 1000),
                   NL_STATUS_ARGUMENT);
            expect("planes", nl_viewer_write_pixels(viewer, &picture, NL_PIXEL_FORMAT_NV12, pixels, 0, sizeof pixels),
                   NL_STATUS_ARGUMENT);
            if (held.size == 0) {
                held = picture;
            } else {
                expect("release", nl_viewer_release(viewer, &picture), NL_STATUS_OK);
                expect("release twice", nl_viewer_release(viewer, &picture), NL_STATUS_ARGUMENT);
            }
        }
        while ((frames = nl_viewer_read_sound(viewer, samples, 4800, &due)) > 0) {
            for (index = 0; index < 2 * frames; index++) {
                loud += samples[index] > 0.3f;
            }
        }
        input.kind = NL_INPUT_KIND_KEY;
        input.code = 0x7002c;
        input.pressed = turn & 1;
        expect("key", nl_viewer_send_input(viewer, &input), NL_STATUS_OK);
        input.kind = NL_INPUT_KIND_POINTER;
        input.pointer.present = 1;
        input.pointer.x = 0.25f;
        input.pointer.y = 0.5f;
        expect("pointer", nl_viewer_send_input(viewer, &input), NL_STATUS_OK);
        if (turn % 50 == 0) {
            expect("message", nl_viewer_send_message(viewer, "ping", 4, 1), NL_STATUS_OK);
        }
        done = pictures >= 20 && heard > 0 && loud > 4800 && bright > 0;
    }
    counts.size = sizeof counts;
    expect("count", nl_viewer_count(viewer, &counts), NL_STATUS_OK);
    expect("last message", nl_viewer_send_message(viewer, "done", 4, 1), NL_STATUS_OK);
    /* It is sent together with the viewer's next input. */
    for (turn = 0; turn < 30; turn++) {
        nl_received_picture picture = {0};
        picture.size = sizeof picture;
        if (nl_viewer_poll_picture(viewer, &picture, 10) == NL_STATUS_OK) {
            nl_viewer_release(viewer, &picture);
        }
    }
    /* Closing the viewer frees a held picture. */
    expect("close", nl_viewer_close(viewer), NL_STATUS_OK);
    expect("close twice", nl_viewer_close(viewer), NL_STATUS_CLOSED);
    expect("release after close", nl_viewer_release(viewer, &held), NL_STATUS_CLOSED);
    printf("SEEN pictures %d connected %d heard %d loud %d bright %d connections %u bytes %d now %d\n", pictures >= 20, connected, heard > 0,
           loud > 4800, bright > 0, (unsigned)counts.connections, counts.bytes > 1000, (int)nl_viewer_now(viewer));
    return failures != 0;
}
