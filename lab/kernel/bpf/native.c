/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Hera's law as the kernel's programs have it, for tests on this machine's processor.
 */
#include <linux/types.h>
#include <stdlib.h>
#include "hera.h"

struct hera_state *nearlight_hera_begin(const struct hera_parameters *with, __u32 window, __u32 delivered)
{
	struct hera_state *state = calloc(1, sizeof(*state));

	if (state)
		hera_begin(with, state, window, delivered);
	return state;
}

void nearlight_hera_on_ack(const struct hera_parameters *with, struct hera_state *of, const struct hera_ack *ack)
{
	hera_on_ack(with, of, ack);
}

void nearlight_hera_on_timeout(const struct hera_parameters *with, struct hera_state *of)
{
	hera_on_timeout(with, of);
}

/* In 1/HERA_PARTS of a packet. */
__u64 nearlight_hera_window(const struct hera_state *of)
{
	return of->summary.window;
}

__u32 nearlight_hera_bucket(const struct hera_state *of)
{
	return of->summary.bucket;
}

void nearlight_hera_end(struct hera_state *of)
{
	free(of);
}
