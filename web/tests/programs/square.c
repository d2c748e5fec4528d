/* A window that is black or white: every key that is pressed changes its colour. For measuring from a key to a changed pixel. It asks the
 * dynamic linker for what it uses of libX11; no headers beyond C's are needed. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef unsigned long XID;
typedef union { int type; long room[24]; } Event;
enum { KEY_PRESS = 2, EXPOSE = 12, KEY_PRESS_MASK = 1, EXPOSURE_MASK = 1 << 15 };

static void *known(void *library, const char *name) {
  void *found = library ? dlsym(library, name) : NULL;
  if (!found) { fprintf(stderr, "libX11 lacks %s\n", name); exit(3); }
  return found;
}
#define X(result, name, ...) ((result (*)(__VA_ARGS__))known(library, "X" #name))

int main(int count, char **words) {
  int width = count > 2 ? atoi(words[1]) : 1280, height = count > 2 ? atoi(words[2]) : 720, white = 0;
  void *library = dlopen("libX11.so.6", RTLD_NOW);
  void *display = X(void *, OpenDisplay, const char *)(NULL);
  if (!display) { fprintf(stderr, "no display\n"); return 3; }
  XID root = X(XID, DefaultRootWindow, void *)(display);
  XID window = X(XID, CreateSimpleWindow, void *, XID, int, int, unsigned, unsigned, unsigned, unsigned long, unsigned long)(
      display, root, 0, 0, (unsigned)width, (unsigned)height, 0, 0, 0);
  X(int, SelectInput, void *, XID, long)(display, window, KEY_PRESS_MASK | EXPOSURE_MASK);
  X(int, MapWindow, void *, XID)(display, window);
  Event event;
  for (;;) {
    X(int, NextEvent, void *, Event *)(display, &event);
    if (event.type == EXPOSE) X(int, SetInputFocus, void *, XID, int, unsigned long)(display, window, 1, 0);
    if (event.type != KEY_PRESS) continue;
    white = !white;
    X(int, SetWindowBackground, void *, XID, unsigned long)(display, window, white ? 0xffffff : 0);
    X(int, ClearWindow, void *, XID)(display, window);
  }
}
