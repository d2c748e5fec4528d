/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Gives the TCP sockets of one control group a congestion control.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual MIT/GPL";

const volatile char wanted[TCP_CA_NAME_MAX] = "hera";

/* Sockets that got it, and that did not. */
__u64 given, refused;

SEC("sockops")
int choose(struct bpf_sock_ops *context)
{
	char name[TCP_CA_NAME_MAX];
	int index;

	switch (context->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		break;
	default:
		return 1;
	}
	for (index = 0; index < TCP_CA_NAME_MAX; index++)
		name[index] = wanted[index];
	if (bpf_setsockopt(context, IPPROTO_TCP, TCP_CONGESTION, name, sizeof(name)))
		__sync_fetch_and_add(&refused, 1);
	else
		__sync_fetch_and_add(&given, 1);
	return 1;
}
