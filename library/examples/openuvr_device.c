/* The device ("MUD") of OpenUVR's figure 9(b), extended to a program that reads input devices and saves the last picture.
 *
 *   cc openuvr_device.c $(pkg-config --cflags --libs nearlight) -o openuvr_device
 *   ./openuvr_device LINK [SECONDS [PICTURE.ppm [MOUSE [KEYBOARD]]]]
 *
 * MOUSE is /dev/input/mice unless another device or a pipe of struct input_event is named; KEYBOARD is an evdev device, such as one of
 * /dev/input/by-id. A device with a display draws each picture where this one counts it. What the paper's listing has is marked. */

#include <fcntl.h>
#include <nearlight.h>
#include <openuvr.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long shown;
static uint8_t *last;
static int width, height;

/* Called in a thread of the library. */
static void show(void *user, const struct openuvr_picture *picture) {
    size_t size = (size_t)picture->width * (size_t)picture->height * 4;
    (void)user;
    pthread_mutex_lock(&lock);
    if (last == NULL || width != picture->width || height != picture->height) {
        free(last);
        last = malloc(size);
    }
    if (last != NULL) {
        memcpy(last, picture->pixels, size);
    }
    width = picture->width;
    height = picture->height;
    shown++;
    pthread_mutex_unlock(&lock);
}

static int save(const char *path) {
    FILE *file = last == NULL ? NULL : fopen(path, "wb");
    size_t place, count = (size_t)width * (size_t)height;
    if (file == NULL) {
        fprintf(stderr, "no picture for %s\n", path);
        return 1;
    }
    fprintf(file, "P6 %d %d 255\n", width, height);
    for (place = 0; place < count; place++) {
        fwrite(last + 4 * place, 1, 3, file);
    }
    return fclose(file) != 0;
}

static void add(struct openuvr_mud_context *context, int id, const char *path) {
    int fd = open(path, O_RDONLY);
    if (openuvr_register_input_device(context, id, fd) != 0) {
        fprintf(stderr, "%s: %s\n", path, nl_error_message());
    }
}

int main(int count, char **arguments) {
    long seconds = count > 2 ? strtol(arguments[2], NULL, 10) : 10;
    struct openuvr_mud_context *ouvr_ctx;

    if (count < 2) {
        fprintf(stderr, "usage: openuvr_device LINK [SECONDS [PICTURE.ppm [MOUSE [KEYBOARD]]]]\n");
        return 2;
    }
    /* The paper's listing. */
    ouvr_ctx = openuvr_alloc_mud_context(OPENUVR_ENCODER_H264_CUDA, OPENUVR_NETWORK_RAW);
    if (ouvr_ctx == NULL) {
        fprintf(stderr, "couldn't allocate openuvr context: %s\n", nl_error_message());
        exit(1);
    }
    add(ouvr_ctx, SYS_MOUSE, count > 4 ? arguments[4] : "/dev/input/mice");
    if (count > 5) {
        add(ouvr_ctx, SYS_KEYBOARD, arguments[5]);
    }
    openuvr_set_link(ouvr_ctx, arguments[1]);
    openuvr_set_display(ouvr_ctx, show, NULL);
    if (openuvr_init_mud_thread(ouvr_ctx) != 0) {
        fprintf(stderr, "couldn't connect: %s\n", nl_error_message());
        openuvr_free_mud_context(ouvr_ctx);
        return 1;
    }
    for (; seconds > 0; seconds--) {
        sleep(1);
        pthread_mutex_lock(&lock);
        printf("%lu pictures of %dx%d\n", shown, width, height);
        pthread_mutex_unlock(&lock);
        fflush(stdout);
    }
    openuvr_free_mud_context(ouvr_ctx);
    return count > 3 ? save(arguments[3]) : 0;
}
