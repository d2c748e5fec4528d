/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Hera's law on integers: the same statements as core/window/src/hera.rs, which names the paper and the departures from it.
 *
 * Compiled for the kernel (hera.bpf.c) and natively (native.c), where a test compares it with the Rust law. Includes nothing: who
 * includes it defines the types __u8, __u32, __u64, __s32 and __s64 before. The verifier accepts an array index only if it is bounded,
 * so lengths are powers of two and every index is masked.
 */
#ifndef NEARLIGHT_HERA_H
#define NEARLIGHT_HERA_H

/* The window's unit: so many in a packet. */
#define HERA_PARTS 1024
/* The most that the parameters may ask for. */
#define HERA_BUCKETS 256
#define HERA_BACKLOG 256
#define HERA_LIST 8192
/* Without a limit, counting stops here: a count times the largest step must fit 64 bits. */
#define HERA_MOST_COUNTS (1ULL << 36)

#define HERA_INLINE static inline __attribute__((always_inline))

/* What nearlight_window::HeraOptions holds, in order. */
struct hera_parameters {
	__u32 buckets;
	__u32 bucket_us;
	__u32 backlog;
	__u32 max_delta;
	/* Entries in the histogram; 0: all counts are kept. */
	__u32 limit;
	__u32 least;
	__u32 most;
	/* The printed algorithm's signs. */
	__u32 as_printed;
	/* The window moves with each measurement rather than once a round trip. */
	__u32 each_sample;
};

/* What is known of one flow. The first part is what `status` reads. */
struct hera_summary {
	/* In 1/HERA_PARTS of a packet. */
	__u64 window;
	/* Round trips that were measured. */
	__u64 samples;
	/* Times that the window was moved, or would have been had it been allowed to grow. */
	__u64 steps;
	/* Counts in all buckets. */
	__u64 total;
	__u64 counts[HERA_BUCKETS];
	/* Of the last round trips. */
	__u32 mean_us;
	__u32 bucket;
};

struct hera_state {
	struct hera_summary summary;
	__u64 backlog_sum;
	/* A round ends when a packet is acknowledged that was sent after so many had been delivered. */
	__u32 round_ends_at;
	__u32 backlog_length;
	/* Where the next entry goes: the oldest one's place once the list is full. */
	__u32 backlog_next;
	__u32 list_length;
	__u32 list_next;
	__u32 backlog[HERA_BACKLOG];
	__u8 list[HERA_LIST];
};

/* What one acknowledgement teaches. */
struct hera_ack {
	/* Packets ever delivered, now and when the newest acknowledged packet was sent; both wrap. */
	__u32 delivered;
	__u32 prior_delivered;
	/* Whether prior_delivered is known. */
	__u32 acknowledges;
	/* The window, not the application or the receiver, held the sender back. */
	__u32 window_limited;
	/* In microseconds; negative where none was measured. */
	__s64 round_trip_us;
};

HERA_INLINE void hera_bound(const volatile struct hera_parameters *with, struct hera_state *of)
{
	__u64 least = (__u64)with->least * HERA_PARTS, most = (__u64)with->most * HERA_PARTS;

	if (of->summary.window < least)
		of->summary.window = least;
	if (of->summary.window > most)
		of->summary.window = most;
}

/* `of` is all zero. */
HERA_INLINE void hera_begin(const volatile struct hera_parameters *with, struct hera_state *of, __u32 window,
			    __u32 delivered)
{
	of->summary.window = (__u64)window * HERA_PARTS;
	of->round_ends_at = delivered;
	hera_bound(with, of);
}

HERA_INLINE void hera_count(const volatile struct hera_parameters *with, struct hera_state *of, __u32 bucket)
{
	__u32 slot = of->list_next & (HERA_LIST - 1);

	if (!with->limit) {
		if (of->summary.total >= HERA_MOST_COUNTS)
			return;
	} else {
		if (of->list_length < with->limit) {
			of->list_length++;
		} else {
			of->summary.counts[of->list[slot] & (HERA_BUCKETS - 1)]--;
			of->summary.total--;
		}
		of->list[slot] = bucket;
		of->list_next = slot + 1 < with->limit ? slot + 1 : 0;
	}
	of->summary.counts[bucket & (HERA_BUCKETS - 1)]++;
	of->summary.total++;
}

HERA_INLINE void hera_measure(const volatile struct hera_parameters *with, struct hera_state *of, __u64 micros)
{
	__u32 slot = of->backlog_next & (HERA_BACKLOG - 1);
	__u64 mean, bucket;

	if (micros > 0xffffffff)
		micros = 0xffffffff;
	if (of->backlog_length < with->backlog)
		of->backlog_length++;
	else
		of->backlog_sum -= of->backlog[slot];
	of->backlog[slot] = micros;
	of->backlog_sum += micros;
	of->backlog_next = slot + 1 < with->backlog ? slot + 1 : 0;

	mean = of->backlog_sum / of->backlog_length;
	bucket = mean / with->bucket_us;
	if (bucket >= with->buckets)
		bucket = with->buckets - 1;
	of->summary.mean_us = mean;
	of->summary.bucket = bucket;
	of->summary.samples++;
	hera_count(with, of, bucket);
}

/* How many times the largest step the window moves in a bucket, before it is weighed: positive grows. */
HERA_INLINE __s32 hera_distance(const volatile struct hera_parameters *with, __u32 bucket)
{
	__s32 from_centre = (__s32)bucket - (__s32)(with->buckets / 2);

	if (from_centre < 0)
		return -from_centre;
	return with->as_printed ? 1 - from_centre : -1 - from_centre;
}

HERA_INLINE void hera_step(const volatile struct hera_parameters *with, struct hera_state *of, __u32 may_grow)
{
	__u32 bucket = of->summary.bucket & (HERA_BUCKETS - 1), index;
	__s32 distance = hera_distance(with, bucket);
	__u64 weight = 0, most, delta;

	for (index = 0; index < HERA_BUCKETS && index < with->buckets; index++)
		if (index <= bucket)
			weight += of->summary.counts[index];
	most = (__u64)(distance < 0 ? -distance : distance) * with->max_delta * HERA_PARTS;
	delta = of->summary.total ? weight * most / of->summary.total : 0;
	if (distance > 0 && may_grow)
		of->summary.window += delta;
	else if (distance < 0)
		of->summary.window = of->summary.window > delta ? of->summary.window - delta : 0;
	of->summary.steps++;
	hera_bound(with, of);
}

HERA_INLINE void hera_on_ack(const volatile struct hera_parameters *with, struct hera_state *of,
			     const struct hera_ack *ack)
{
	__u32 round_began = ack->acknowledges && (__s32)(ack->prior_delivered - of->round_ends_at) >= 0;

	if (round_began)
		of->round_ends_at = ack->delivered;
	if (ack->round_trip_us >= 0)
		hera_measure(with, of, ack->round_trip_us);
	if (with->each_sample ? ack->round_trip_us >= 0 : round_began && of->summary.total)
		hera_step(with, of, ack->window_limited);
}

/* Nothing was acknowledged for a whole retransmission time-out. */
HERA_INLINE void hera_on_timeout(const volatile struct hera_parameters *with, struct hera_state *of)
{
	of->summary.window = (__u64)with->least * HERA_PARTS;
}

/* In packets. */
HERA_INLINE __u32 hera_window(const struct hera_state *of)
{
	return of->summary.window / HERA_PARTS;
}

#endif
