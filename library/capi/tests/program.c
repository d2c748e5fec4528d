/* A program that the test builds against the library and that streams to the test: it prints the events that it gets. */

#include <math.h>
#include <nearlight.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WIDTH = 320, HEIGHT = 192, THREADS = 4 };

static uint8_t pixels[HEIGHT * WIDTH * 4];
static const float silence[2];
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

static nl_picture usual(void) {
    nl_picture picture = {0};
    picture.size = sizeof picture;
    picture.format = NL_PIXEL_FORMAT_RGBA;
    picture.width = WIDTH;
    picture.height = HEIGHT;
    picture.planes[0].bytes = pixels;
    return picture;
}

static void garbage(nl_host *host) {
    nl_picture picture;
    nl_options options = {0};
    nl_event event = {0};
    nl_viewer viewer = {0};
    nl_lent lent = {0};
    nl_haptics_pulse pulse = {0};
    nl_server_statistics statistics = {0};
    nl_sound sound = {0};
    nl_host *other = NULL;
    size_t count;

    expect("no picture", nl_submit(host, NULL), NL_STATUS_ARGUMENT);
    picture = usual();
    picture.size = 0;
    expect("no size field", nl_submit(host, &picture), NL_STATUS_ARGUMENT);
    picture.size = 3;
    expect("small size field", nl_submit(host, &picture), NL_STATUS_ARGUMENT);
    picture.size = (size_t)-1;
    expect("huge size field", nl_submit(host, &picture), NL_STATUS_ARGUMENT);
    picture = usual();
    picture.planes[0].bytes = NULL;
    expect("no pixels", nl_submit(host, &picture), NL_STATUS_ARGUMENT);
    picture = usual();
    picture.planes[0].stride = WIDTH * 4 - 1;
    expect("small stride", nl_submit(host, &picture), NL_STATUS_PICTURE);
    picture.planes[0].stride = (size_t)-1;
    expect("huge stride", nl_submit(host, &picture), NL_STATUS_PICTURE);
    picture = usual();
    picture.width = 0;
    expect("no width", nl_submit(host, &picture), NL_STATUS_PICTURE);
    picture.width = 321;
    expect("odd width", nl_submit(host, &picture), NL_STATUS_PICTURE);
    picture.width = 0xffffffff;
    expect("huge width", nl_submit(host, &picture), NL_STATUS_PICTURE);
    picture = usual();
    picture.format = 99;
    expect("format", nl_submit(host, &picture), NL_STATUS_PICTURE);
    picture = usual();
    picture.layout = 99;
    expect("layout", nl_submit(host, &picture), NL_STATUS_PICTURE);
    picture = usual();
    picture.flags = 0x80;
    expect("flags", nl_submit(host, &picture), NL_STATUS_PICTURE);
    picture = usual();
    picture.view_count = 3;
    expect("three views", nl_submit(host, &picture), NL_STATUS_PICTURE);
    picture.view_count = 1;
    picture.views[0].pose.orientation[3] = 1;
    picture.views[0].fov.left = picture.views[0].fov.down = -1;
    picture.views[0].fov.right = picture.views[0].fov.up = 1;
    expect("a view", nl_submit(host, &picture), NL_STATUS_OK);
    picture.views[0].pose.position[1] = NAN;
    expect("a position that is no number", nl_submit(host, &picture), NL_STATUS_PICTURE);
    picture.view_count = 0;
    picture.layout = NL_LAYOUT_LAYERS;
    expect("no right eye", nl_submit(host, &picture), NL_STATUS_ARGUMENT);

    expect("no event", nl_poll_event(host, NULL, 0), NL_STATUS_ARGUMENT);
    expect("event without size", nl_poll_event(host, &event, 0), NL_STATUS_ARGUMENT);
    viewer.size = sizeof viewer;
    expect("nobody", nl_viewer_state(host, 4711, &viewer), NL_STATUS_NO_VIEWER);
    expect("nowhere to count", nl_viewer_ids(host, NULL, 0, NULL), NL_STATUS_ARGUMENT);
    expect("no viewers", nl_viewer_ids(host, NULL, 0, &count), NL_STATUS_OK);
    expect("statistics without size", nl_statistics(host, &statistics), NL_STATUS_ARGUMENT);
    expect("no message", nl_send(host, 0, NULL, 10, 1), NL_STATUS_ARGUMENT);
    expect("long message", nl_send(host, 0, pixels, 16385, 1), NL_STATUS_ARGUMENT);
    expect("message to nobody", nl_send(host, 4711, "x", 1, 1), NL_STATUS_NO_VIEWER);
    pulse.size = sizeof pulse;
    pulse.strong = NAN;
    expect("pulse", nl_haptics(host, 0, &pulse), NL_STATUS_ARGUMENT);
    expect("clipboard", nl_set_clipboard(host, 0, NULL), NL_STATUS_ARGUMENT);
    expect("callback", nl_set_callback(host, NULL, NULL), NL_STATUS_ARGUMENT);
    expect("lent to nowhere", nl_lend(host, WIDTH, HEIGHT, NULL), NL_STATUS_ARGUMENT);
    lent.size = sizeof lent;
    expect("lent nothing", nl_lend(host, 0, HEIGHT, &lent), NL_STATUS_PICTURE);
    expect("lent", nl_lend(host, WIDTH, HEIGHT, &lent), NL_STATUS_OK);
    memset(lent.planes[0], 100, lent.strides[0] * HEIGHT);
    expect("put back", nl_put_back(host, &lent), NL_STATUS_OK);
    expect("put back twice", nl_submit_lent(host, &lent, NULL), NL_STATUS_ARGUMENT);
    if (nl_link(host, 1000) != NULL) {
        printf("FAULT a link that is none\n");
        failures++;
    }

    expect("no sound", nl_submit_sound(host, NULL), NL_STATUS_ARGUMENT);
    expect("sound without size", nl_submit_sound(host, &sound), NL_STATUS_ARGUMENT);
    sound.size = sizeof sound;
    sound.frames = 1;
    expect("no channels", nl_submit_sound(host, &sound), NL_STATUS_ARGUMENT);
    sound.channels = 2;
    expect("no samples", nl_submit_sound(host, &sound), NL_STATUS_ARGUMENT);
    sound.samples = silence;
    sound.frames = (size_t)-1;
    expect("too many frames", nl_submit_sound(host, &sound), NL_STATUS_ARGUMENT);
    sound.frames = 1;
    sound.rate = 1;
    expect("rate", nl_submit_sound(host, &sound), NL_STATUS_ARGUMENT);
    sound.rate = 0;
    sound.format = 99;
    expect("sample format", nl_submit_sound(host, &sound), NL_STATUS_ARGUMENT);
    sound.format = NL_SAMPLE_FORMAT_F32;
    sound.samples = (const char *)silence + 1;
    expect("crooked samples", nl_submit_sound(host, &sound), NL_STATUS_ARGUMENT);
    sound.samples = silence;
    expect("sound", nl_submit_sound(host, &sound), NL_STATUS_OK);

    expect("nowhere to open", nl_open(NULL, NULL), NL_STATUS_ARGUMENT);
    expect("options without size", nl_open(&options, &other), NL_STATUS_ARGUMENT);
    options.size = sizeof options;
    options.fps = 1000;
    expect("fps", nl_open(&options, &other), NL_STATUS_OPTIONS);
    options.fps = 0;
    options.token = "short";
    expect("token", nl_open(&options, &other), NL_STATUS_OPTIONS);
    expect("TOML", nl_open_toml("prot = 1", &other), NL_STATUS_OPTIONS);
    expect("no server", nl_submit(NULL, &picture), NL_STATUS_ARGUMENT);
    expect("a made up server", nl_submit((nl_host *)(uintptr_t)12345, &picture), NL_STATUS_CLOSED);
    if (other != NULL) {
        printf("FAULT a server from options that are refused\n");
        failures++;
    }
}

int main(void) {
    nl_host *host = NULL;
    nl_options options = {0};
    nl_server_statistics statistics = {0};
    int watched = 0, inputs = 0, moved = 0, messages = 0, left = 0, last = 0;

    options.size = sizeof options;
    options.name = "the test's program";
    options.address = "127.0.0.1";
    options.width = WIDTH;
    options.height = HEIGHT;
    options.fps = 30;
    options.codec = "vp8";
    options.sound = 1;
    expect("open", nl_open(&options, &host), NL_STATUS_OK);
    if (host == NULL) {
        return 1;
    }
    garbage(host);
    printf("LINK %s\n", nl_link(host, 0));
    printf("CODE %d\n", (int)(strlen(nl_qr_code(host, 0)) > 100));
    fflush(stdout);

    /* A minute is enough on a busy machine. */
    for (int moment = 0; moment < 1800 && !last; moment++) {
        struct timespec pause = {0, 33000000};
        nl_event event = {0};
        nl_picture picture = usual();
        event.size = sizeof event;
        while (nl_poll_event(host, &event, 0) == NL_STATUS_OK) {
            switch (event.kind) {
            case NL_EVENT_KIND_VIEWER_JOINED: watched++; break;
            case NL_EVENT_KIND_VIEWER_LEFT: left++; break;
            case NL_EVENT_KIND_MOVED: moved++; break;
            case NL_EVENT_KIND_MESSAGE:
                messages++;
                if (event.data_size == 4 && memcmp(event.data, "last", 5) == 0) {
                    last = 1;
                } else {
                    expect("echo", nl_send(host, event.viewer, event.data, event.data_size, event.reliable), NL_STATUS_OK);
                }
                break;
            case NL_EVENT_KIND_KEY:
            case NL_EVENT_KIND_POINTER_BUTTON: inputs++; break;
            default: break;
            }
        }
        memset(pixels, moment & 127, sizeof pixels);
        expect("submit", nl_submit(host, &picture), NL_STATUS_OK);
        nanosleep(&pause, NULL);
    }
    /* Messages and pictures that are sent just before the end still arrive. */
    {
        nl_picture picture = usual();
        memset(pixels, 255, sizeof pixels);
        expect("the last picture", nl_submit(host, &picture), NL_STATUS_OK);
        expect("the last message", nl_send(host, 0, "farewell", 8, 1), NL_STATUS_OK);
    }
    statistics.size = sizeof statistics;
    expect("statistics", nl_statistics(host, &statistics), NL_STATUS_OK);
    expect("close", nl_close(host), NL_STATUS_OK);
    expect("close twice", nl_close(host), NL_STATUS_CLOSED);
    expect("statistics of a closed one", nl_statistics(host, &statistics), NL_STATUS_CLOSED);
    if (nl_link(host, 0) != NULL) {
        printf("FAULT a closed server has a link\n");
        failures++;
    }
    printf("SEEN joined %d left %d moved %d inputs %d messages %d submitted %d unwatched %d\n", watched, left, moved > 0, inputs > 0,
           messages, (int)(statistics.submitted > 0), (int)(statistics.unwatched > 0));
    return failures != 0;
}
