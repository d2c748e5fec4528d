/* A window for measuring from a key to a changed pixel: square WIDTH HEIGHT [PICTURES]. Every key that is pressed turns it from black to white or
 * back. With PICTURES only a square in its middle changes colour, and around it the window pans over a texture so many times a second, as a
 * game's camera does; a patch left of the square has one of eight greys, the next with each picture, so that who watches it can
 * count the pictures. It asks the dynamic linker for what it uses of libX11; no headers beyond C's are needed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long XID;
typedef union { int type; long room[24]; } Event;
enum { KEY_PRESS = 2, EXPOSE = 12, KEY_PRESS_MASK = 1, EXPOSURE_MASK = 1 << 15 };
enum { ZPIXMAP = 2, REVERT_TO_POINTER_ROOT = 1 };
enum { SQUARE = 320, PATCH = 64, GREYS = 8 };

static void *library;
static void *known(const char *name) {
  void *found = library ? dlsym(library, name) : NULL;
  if (!found) { fprintf(stderr, "libX11 lacks %s\n", name); exit(3); }
  return found;
}
#define X(result, name, ...) ((result (*)(__VA_ARGS__))known("X" #name))

static double hash(int x, int y) {
  uint32_t h = (uint32_t)x * 374761393u + (uint32_t)y * 668265263u;
  h = (h ^ (h >> 13)) * 1274126177u;
  return ((h ^ (h >> 16)) & 0xffff) / 65535.0;
}

/* Value noise: hashes of a grid's corners, interpolated. */
static double noise(double x, double y) {
  int column = (int)floor(x), row = (int)floor(y);
  double u = x - column, v = y - row;
  u = u * u * (3 - 2 * u), v = v * v * (3 - 2 * v);
  double top = hash(column, row) * (1 - u) + hash(column + 1, row) * u;
  double bottom = hash(column, row + 1) * (1 - u) + hash(column + 1, row + 1) * u;
  return top * (1 - v) + bottom * v;
}

/* Six octaves of noise in three colours, which has detail at every scale, as a landscape has. */
static char *texture(int width, int height) {
  uint32_t *pixels = malloc((size_t)width * (size_t)height * 4);
  if (!pixels) exit(3);
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) {
      double sum = 0, share = 0.5, scale = 1 / 160.0;
      for (int octave = 0; octave < 6; octave++, share /= 2, scale *= 2.3) sum += share * noise(x * scale, y * scale);
      uint32_t level = (uint32_t)(sum * 255);
      pixels[(size_t)y * (size_t)width + (size_t)x] = level << 16 | (255 - level) << 8 | (level * 3 / 4 + 32);
    }
  return (char *)pixels;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void move(void *display, XID window, int width, int height, int pictures_a_second) {
  int wide = width * 2, high = height * 2, white = 0;
  int screen = X(int, DefaultScreen, void *)(display);
  int depth = X(int, DefaultDepth, void *, int)(display, screen);
  void *visual = X(void *, DefaultVisual, void *, int)(display, screen);
  void *image = X(void *, CreateImage, void *, void *, unsigned, int, int, char *, unsigned, unsigned, int, int)(
      display, visual, (unsigned)depth, ZPIXMAP, 0, texture(wide, high), (unsigned)wide, (unsigned)high, 32, 0);
  XID pixmap = X(XID, CreatePixmap, void *, XID, unsigned, unsigned, unsigned)(display, window, (unsigned)wide, (unsigned)high, (unsigned)depth);
  /* The whole picture becomes visible by one request, so that nobody captures a part of it. */
  XID next = X(XID, CreatePixmap, void *, XID, unsigned, unsigned, unsigned)(display, window, (unsigned)width, (unsigned)height, (unsigned)depth);
  void *context = X(void *, CreateGC, void *, XID, unsigned long, void *)(display, window, 0, NULL);
  X(int, PutImage, void *, XID, void *, void *, int, int, int, int, unsigned, unsigned)(
      display, pixmap, context, image, 0, 0, 0, 0, (unsigned)wide, (unsigned)high);
  double begun = now();
  for (unsigned long picture = 0;; picture++) {
    Event event;
    while (X(int, Pending, void *)(display)) {
      X(int, NextEvent, void *, Event *)(display, &event);
      if (event.type == EXPOSE) X(int, SetInputFocus, void *, XID, int, unsigned long)(display, window, REVERT_TO_POINTER_ROOT, 0);
      if (event.type == KEY_PRESS) white = !white;
    }
    double seconds = (double)picture / pictures_a_second;
    int x = (int)((width / 2) * (1 + sin(seconds * 0.9))), y = (int)((height / 2) * (1 + sin(seconds * 0.7)));
    void (*fill)(void *, XID, void *, int, int, unsigned, unsigned) = known("XFillRectangle");
    int (*colour)(void *, void *, unsigned long) = known("XSetForeground");
    int (*copy)(void *, XID, XID, void *, int, int, unsigned, unsigned, int, int) = known("XCopyArea");
    copy(display, pixmap, next, context, x, y, (unsigned)width, (unsigned)height, 0, 0);
    colour(display, context, white ? 0xffffff : 0);
    fill(display, next, context, (width - SQUARE) / 2, (height - SQUARE) / 2, SQUARE, SQUARE);
    colour(display, context, picture % GREYS * (255 / (GREYS - 1)) * 0x010101);
    fill(display, next, context, (width - SQUARE) / 2 - PATCH, (height - PATCH) / 2, PATCH, PATCH);
    copy(display, next, window, context, 0, 0, (unsigned)width, (unsigned)height, 0, 0);
    X(int, Flush, void *)(display);
    double wait = begun + (double)(picture + 1) / pictures_a_second - now();
    if (wait > 0) nanosleep(&(struct timespec){0, (long)(wait * 1e9)}, NULL);
  }
}

int main(int count, char **words) {
  int width = count > 2 ? atoi(words[1]) : 1280, height = count > 2 ? atoi(words[2]) : 720, white = 0;
  library = dlopen("libX11.so.6", RTLD_NOW);
  void *display = X(void *, OpenDisplay, const char *)(NULL);
  if (!display) { fprintf(stderr, "no display\n"); return 3; }
  XID root = X(XID, DefaultRootWindow, void *)(display);
  XID window = X(XID, CreateSimpleWindow, void *, XID, int, int, unsigned, unsigned, unsigned, unsigned long, unsigned long)(
      display, root, 0, 0, (unsigned)width, (unsigned)height, 0, 0, 0);
  X(int, SelectInput, void *, XID, long)(display, window, KEY_PRESS_MASK | EXPOSURE_MASK);
  X(int, MapWindow, void *, XID)(display, window);
  if (count > 3 && atoi(words[3]) > 0) move(display, window, width, height, atoi(words[3]));
  Event event;
  for (;;) {
    X(int, NextEvent, void *, Event *)(display, &event);
    if (event.type == EXPOSE) X(int, SetInputFocus, void *, XID, int, unsigned long)(display, window, REVERT_TO_POINTER_ROOT, 0);
    if (event.type != KEY_PRESS) continue;
    white = !white;
    X(int, SetWindowBackground, void *, XID, unsigned long)(display, window, white ? 0xffffff : 0);
    X(int, ClearWindow, void *, XID)(display, window);
  }
}
