/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Hera as a congestion control of the kernel's TCP (struct_ops).
 *
 * Departures from the law in virtual time, all of which the kernel's TCP makes: segments that a packet's offload has not cut yet leave
 * together; sk_pacing_rate is set as Linux sets it in slow start, which bounds such bursts, and paces only where the `fq` queueing
 * discipline is used or the application asked for pacing.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "hera.h"

/* The kernel accepts struct_ops programs under licences that are compatible with its own only. */
char _license[] SEC("license") = "Dual MIT/GPL";

/* Linux's net.ipv4.tcp_pacing_ss_ratio: twice the window in a smoothed round trip. */
#define PACING_RATIO 2

const volatile struct hera_parameters parameters = {
	.buckets = 6,
	.bucket_us = 15000,
	.backlog = 10,
	.max_delta = 10,
	.limit = 1000,
	.least = 4,
	.most = 20000,
};

/* For who reads the parameters: under which name this instance was registered. */
const volatile char registered_as[TCP_CA_NAME_MAX] = "hera";

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct hera_state);
} hera_flows SEC(".maps");

/* A flow without memory keeps its window, and asks again with the next acknowledgement. */
HERA_INLINE struct hera_state *state_of(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct hera_state *state = bpf_sk_storage_get(&hera_flows, sk, 0, 0);

	if (state)
		return state;
	state = bpf_sk_storage_get(&hera_flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (state)
		hera_begin(&parameters, state, tp->snd_cwnd, tp->delivered);
	return state;
}

HERA_INLINE void set_window(struct sock *sk, const struct hera_state *state)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 window = hera_window(state);
	/* The kernel keeps eight times the smoothed round trip. */
	__u64 round_trip_us = tp->srtt_us >> 3;

	tp->snd_cwnd = window < tp->snd_cwnd_clamp ? window : tp->snd_cwnd_clamp;
	if (round_trip_us)
		sk->sk_pacing_rate = (__u64)window * tp->mss_cache * PACING_RATIO * 1000000 / round_trip_us;
}

SEC("struct_ops")
void BPF_PROG(hera_init, struct sock *sk)
{
	/* What an earlier time with this law has left. */
	bpf_sk_storage_delete(&hera_flows, sk);
	state_of(sk);
}

SEC("struct_ops")
void BPF_PROG(hera_release, struct sock *sk)
{
	bpf_sk_storage_delete(&hera_flows, sk);
}

/* Losses change nothing. */
SEC("struct_ops")
__u32 BPF_PROG(hera_ssthresh, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(hera_undo_cwnd, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_cwnd;
}

SEC("struct_ops")
void BPF_PROG(hera_set_state, struct sock *sk, __u8 new_state)
{
	struct hera_state *state;

	if (new_state != TCP_CA_Loss)
		return;
	state = state_of(sk);
	if (state)
		hera_on_timeout(&parameters, state);
}

SEC("struct_ops")
void BPF_PROG(hera_control, struct sock *sk, __u32 acknowledged, int flag, const struct rate_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct hera_state *state = state_of(sk);
	struct hera_ack ack = {
		.delivered = tp->delivered,
		.prior_delivered = sample->prior_delivered,
		.acknowledges = sample->delivered >= 0,
		.window_limited = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited),
		.round_trip_us = sample->rtt_us,
	};

	if (!state)
		return;
	hera_on_ack(&parameters, state, &ack);
	set_window(sk, state);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops hera = {
	.name = "hera",
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)hera_init,
	.release = (void *)hera_release,
	.ssthresh = (void *)hera_ssthresh,
	.undo_cwnd = (void *)hera_undo_cwnd,
	.set_state = (void *)hera_set_state,
	.cong_control = (void *)hera_control,
};
