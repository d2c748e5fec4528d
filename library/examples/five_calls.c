/* Nearlight in five calls: a picture in plain memory, seen and touched in a browser.
 *
 *   cc five_calls.c $(pkg-config --cflags --libs nearlight) -o five_calls && ./five_calls
 *
 * Open the link that it prints. Keys change the colours, the square follows the pointer, and Escape or Ctrl-C ends the program. */

#include <nearlight.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { WIDTH = 1280, HEIGHT = 720, FPS = 60, ESCAPE = 0x70029 };

static uint8_t pixels[HEIGHT][WIDTH][4];
static volatile sig_atomic_t ended;

static void on_signal(int number) {
    (void)number;
    ended = 1;
}

/* Draws moving stripes, and a square at the pointer. */
static void draw(unsigned moment, unsigned colour, float x, float y, unsigned pressed) {
    int left = (int)(x * WIDTH), top = (int)(y * HEIGHT);
    for (int row = 0; row < HEIGHT; row++) {
        for (int column = 0; column < WIDTH; column++) {
            uint8_t *pixel = pixels[row][column];
            unsigned stripe = (unsigned)(column + row) + 2 * moment;
            int inside = column > left - 40 && column < left + 40 && row > top - 40 && row < top + 40;
            pixel[0] = (uint8_t)(inside ? 255 : (stripe / 2 & 127) * (colour & 1));
            pixel[1] = (uint8_t)(inside ? (pressed ? 0 : 255) : (stripe / 2 & 127) * (colour >> 1 & 1));
            pixel[2] = (uint8_t)(inside ? 0 : (stripe / 2 & 127) * (colour >> 2 & 1));
        }
    }
}

int main(void) {
    nl_host *host;
    unsigned colour = 4, pressed = 0;
    float x = 0.5f, y = 0.5f;

    /* One: open. */
    if (nl_open(NULL, &host) != NL_STATUS_OK) {
        fprintf(stderr, "%s\n", nl_error_message());
        return 1;
    }
    /* Two: print the links. */
    for (size_t index = 0; nl_link(host, index) != NULL; index++) {
        printf("%s\n", nl_link(host, index));
    }
    fflush(stdout);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);

    for (unsigned moment = 0; !ended; moment++) {
        nl_event event = {0};
        nl_viewer viewer = {0};
        nl_picture picture = {0};
        struct timespec pause = {0, 1000000000 / FPS};
        event.size = sizeof event;
        viewer.size = sizeof viewer;
        picture.size = sizeof picture;

        /* Three: take the viewers' input. */
        while (nl_poll_event(host, &event, 0) == NL_STATUS_OK) {
            if (event.kind == NL_EVENT_KIND_KEY && event.pressed) {
                colour = colour % 7 + 1;
                ended = event.code == ESCAPE;
            } else if (event.kind == NL_EVENT_KIND_POINTER_BUTTON) {
                pressed = event.pressed;
            }
        }
        if (nl_viewer_state(host, 0, &viewer) == NL_STATUS_OK && viewer.pointer.present) {
            x = viewer.pointer.x;
            y = viewer.pointer.y;
        }
        draw(moment, colour, x, y, pressed);

        /* Four: submit the picture. */
        picture.format = NL_PIXEL_FORMAT_RGBA;
        picture.width = WIDTH;
        picture.height = HEIGHT;
        picture.planes[0].bytes = pixels[0][0];
        if (nl_submit(host, &picture) != NL_STATUS_OK) {
            fprintf(stderr, "%s\n", nl_error_message());
            break;
        }
        nanosleep(&pause, NULL);
    }

    /* Five: close. */
    return nl_close(host) != NL_STATUS_OK;
}
