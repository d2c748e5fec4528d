/* The receiving end in C: receives pictures and sound from a link, sends input, and saves the last picture.
 *
 *   cc viewer.c $(pkg-config --cflags --libs nearlight) -o viewer && ./viewer LINK [SECONDS [PICTURE.ppm]]
 *
 * It presses W for the first second, prints its figures once a second, and writes the last picture as PPM. Where a program has a window, it
 * uploads the three planes of each picture and lets its audio device's callback call nl_viewer_read_sound. */

#include <nearlight.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEY_W = 0x7001a, SECOND = 1000000000 };

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, nl_error_message());
    return 1;
}

static void press(nl_viewer_session *viewer, int pressed) {
    nl_input input = {0};
    input.size = sizeof input;
    input.kind = NL_INPUT_KIND_KEY;
    input.code = KEY_W;
    input.pressed = (uint32_t)pressed;
    if (nl_viewer_send_input(viewer, &input) != NL_STATUS_OK) {
        fail("key");
    }
}

/* Converts a picture into RGB and writes it. */
static void save(nl_viewer_session *viewer, const nl_received_picture *picture, const char *path) {
    size_t size = (size_t)picture->width * picture->height * 3;
    uint8_t *pixels = malloc(size);
    FILE *file = fopen(path, "wb");
    if (pixels == NULL || file == NULL) {
        perror(path);
    } else if (nl_viewer_write_pixels(viewer, picture, NL_PIXEL_FORMAT_RGB, pixels, 0, size) != NL_STATUS_OK) {
        fail("pixels");
    } else {
        fprintf(file, "P6 %u %u 255\n", (unsigned)picture->width, (unsigned)picture->height);
        fwrite(pixels, 1, size, file);
    }
    if (file != NULL) {
        fclose(file);
    }
    free(pixels);
}

int main(int count, char **arguments) {
    nl_viewer_session *viewer;
    nl_viewer_options options = {0};
    nl_received_picture last = {0};
    long seconds = count > 2 ? strtol(arguments[2], NULL, 10) : 10;
    const char *path = count > 3 ? arguments[3] : NULL;
    unsigned long pictures = 0, frames = 0;
    uint64_t began, said;
    int pressed = 1, ended = 0;

    if (count < 2) {
        fprintf(stderr, "usage: viewer LINK [SECONDS [PICTURE.ppm]]\n");
        return 2;
    }
    options.size = sizeof options;
    options.name = "the example in C";
    options.sound = 1;
    if (nl_viewer_connect(arguments[1], &options, &viewer) != NL_STATUS_OK) {
        return fail("connect");
    }
    began = said = nl_viewer_now(viewer);
    press(viewer, 1);
    while (!ended && nl_viewer_now(viewer) - began < (uint64_t)seconds * SECOND) {
        nl_received_picture picture = {0};
        nl_viewer_event event = {0};
        float samples[2 * 480];
        size_t read;
        picture.size = sizeof picture;
        event.size = sizeof event;
        while (nl_viewer_poll_event(viewer, &event, 0) == NL_STATUS_OK) {
            switch (event.kind) {
            case NL_VIEWER_EVENT_KIND_CONNECTED: printf("connected to %s\n", (const char *)event.data); break;
            case NL_VIEWER_EVENT_KIND_LOST: printf("lost: %s\n", (const char *)event.data); break;
            case NL_VIEWER_EVENT_KIND_STREAM: printf("%ux%u %s\n", (unsigned)event.width, (unsigned)event.height, (const char *)event.data); break;
            case NL_VIEWER_EVENT_KIND_ENDED: ended = 1; break;
            default: break;
            }
        }
        if (nl_viewer_poll_picture(viewer, &picture, 20) == NL_STATUS_OK) {
            pictures++;
            if (last.size != 0) {
                nl_viewer_release(viewer, &last);
            }
            last = picture;
        }
        while ((read = nl_viewer_read_sound(viewer, samples, 480, NULL)) > 0) {
            frames += read;
        }
        if (pressed && nl_viewer_now(viewer) - began > SECOND) {
            pressed = 0;
            press(viewer, 0);
        }
        if (nl_viewer_now(viewer) - said > SECOND) {
            nl_viewer_counts counts = {0};
            counts.size = sizeof counts;
            said = nl_viewer_now(viewer);
            if (nl_viewer_count(viewer, &counts) == NL_STATUS_OK) {
                printf("%lu pictures, %.1f a second, %.2f Mb/s, %.1f ms motion to photon, %.1f s of sound\n", pictures, counts.fps,
                       (double)counts.received_bps / 1e6, (double)counts.motion_to_photon / 1e6, (double)frames / 48000);
                fflush(stdout);
            }
        }
    }
    if (last.size != 0 && path != NULL) {
        save(viewer, &last, path);
    }
    return nl_viewer_close(viewer) == NL_STATUS_OK ? 0 : fail("close");
}
