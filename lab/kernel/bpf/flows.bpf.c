/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Reads what Hera knows of every flow: an iterator over the storage of hera.bpf.c.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "hera.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* What is written for each flow, before its summary. */
struct flow_head {
	__u8 local[16];
	__u8 remote[16];
	/* In the host's order. */
	__u32 local_port;
	__u32 remote_port;
	/* AF_INET: four bytes of the addresses count. */
	__u32 family;
	/* A state of tcp_states.h; 1 is established. */
	__u32 state;
	/* The number that `lsns` shows. */
	__u32 namespace;
	/* In packets. */
	__u32 window;
	__u32 in_flight;
	__u32 segment;
	__u32 smoothed_round_trip_us;
	__u32 retransmissions;
	__u64 acknowledged;
};

/* Nothing reads these: they make the loader know the types. */
const struct flow_head *head_type;
const struct hera_summary *summary_type;

SEC("iter/bpf_sk_storage_map")
int read_flow(struct bpf_iter__bpf_sk_storage_map *context)
{
	struct seq_file *out = context->meta->seq;
	struct hera_state *state = context->value;
	struct sock *sk = context->sk;
	struct flow_head head = {};
	struct tcp_sock *tp;

	if (!sk || !state)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	head.family = sk->__sk_common.skc_family;
	head.state = sk->__sk_common.skc_state;
	head.local_port = sk->__sk_common.skc_num;
	head.remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	head.namespace = sk->__sk_common.skc_net.net->ns.inum;
	if (head.family == AF_INET6) {
		bpf_probe_read_kernel(head.local, 16, &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_probe_read_kernel(head.remote, 16, &sk->__sk_common.skc_v6_daddr);
	} else {
		*(__u32 *)head.local = sk->__sk_common.skc_rcv_saddr;
		*(__u32 *)head.remote = sk->__sk_common.skc_daddr;
	}
	head.window = tp->snd_cwnd;
	head.in_flight = tp->packets_out;
	head.segment = tp->mss_cache;
	head.smoothed_round_trip_us = tp->srtt_us >> 3;
	head.retransmissions = tp->total_retrans;
	head.acknowledged = tp->bytes_acked;
	bpf_seq_write(out, &head, sizeof(head));
	bpf_seq_write(out, &state->summary, sizeof(state->summary));
	return 0;
}
