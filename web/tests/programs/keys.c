/* From a key to its picture, without a browser: keys LINK COUNT. Presses a key COUNT times, and says for each after how many
 * milliseconds a decoded picture came whose middle is another shade. The program at the other end is square.c. */
#include <nearlight.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEY_A = 0x70004, MILLISECOND = 1000000, LIMIT = 1000 };

static void press(nl_viewer_session *viewer, uint32_t pressed) {
  nl_input input = {0};
  input.size = sizeof input;
  input.kind = NL_INPUT_KIND_KEY;
  input.code = KEY_A;
  input.pressed = pressed;
  if (nl_viewer_send_input(viewer, &input) != NL_STATUS_OK) fprintf(stderr, "key: %s\n", nl_error_message());
}

/* Takes pictures until one's middle differs from `level`, or the time is over. Returns the newest shade, -1 without a picture. */
static int look(nl_viewer_session *viewer, int level, uint64_t until) {
  int seen = -1;
  for (uint64_t now = nl_viewer_now(viewer); now < until; now = nl_viewer_now(viewer)) {
    nl_received_picture picture = {0};
    picture.size = sizeof picture;
    if (nl_viewer_poll_picture(viewer, &picture, (uint32_t)((until - now) / MILLISECOND) + 1) != NL_STATUS_OK) continue;
    seen = picture.planes[0][picture.strides[0] * (picture.height / 2) + picture.width / 2] > 125;
    nl_viewer_release(viewer, &picture);
    if (level >= 0 && seen != level) break;
  }
  return seen;
}

int main(int count, char **words) {
  nl_viewer_session *viewer;
  nl_viewer_options options = {0};
  options.size = sizeof options;
  options.pictures_kept = 8;
  if (count < 3 || nl_viewer_connect(words[1], &options, &viewer) != NL_STATUS_OK) {
    fprintf(stderr, "%s\n", count < 3 ? "keys LINK COUNT" : nl_error_message());
    return 1;
  }
  int level = look(viewer, -1, nl_viewer_now(viewer) + 2000ull * MILLISECOND);
  uint32_t random = 1;
  for (long key = strtol(words[2], NULL, 10); key > 0; key--) {
    uint64_t pressed = nl_viewer_now(viewer);
    press(viewer, 1);
    int seen = look(viewer, level, pressed + (uint64_t)LIMIT * MILLISECOND);
    uint64_t shown = nl_viewer_now(viewer);
    if (seen >= 0 && seen != level) printf("%.3f\n", (double)(shown - pressed) / MILLISECOND);
    if (seen >= 0) level = seen;
    press(viewer, 0);
    random = random * 1664525u + 1013904223u;
    uint64_t pause = 120 + (uint64_t)(random / 4294967296.0 * 160);
    look(viewer, -1, nl_viewer_now(viewer) + pause * MILLISECOND);
  }
  nl_viewer_close(viewer);
  return 0;
}
