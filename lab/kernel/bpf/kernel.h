/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What the programs here use of the kernel's types, in place of a generated vmlinux.h. libbpf finds each field by its name in the
 * running kernel's BTF when a program is loaded, so neither order nor completeness matter.
 */
#ifndef NEARLIGHT_KERNEL_H
#define NEARLIGHT_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef _Bool bool;

/* linux/bpf.h; these are enumerators of the system call's interface and never change. */
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_SK_STORAGE 24
#define BPF_F_NO_PREALLOC 1
#define BPF_SK_STORAGE_GET_F_CREATE 1
#define BPF_SOCK_OPS_TCP_CONNECT_CB 3
#define BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB 5
#define BPF_SOCK_OPS_TCP_LISTEN_CB 11
/* linux/tcp.h, net/tcp.h, linux/socket.h */
#define TCP_CA_Loss 4
#define TCP_CONG_NON_RESTRICTED 1
#define TCP_CONGESTION 13
#define IPPROTO_TCP 6
#define AF_INET6 10
#define TCP_CA_NAME_MAX 16

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		__u8 u6_addr8[16];
	} in6_u;
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 mss_cache;
	__u32 srtt_us;
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 packets_out;
	__u32 delivered;
	__u32 total_retrans;
	__u64 bytes_acked;
	__u8 is_cwnd_limited : 1;
};

struct rate_sample {
	__u32 prior_delivered;
	__s32 delivered;
	long rtt_us;
};

struct seq_file;
struct bpf_map;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};

#pragma clang attribute pop

/* The system call's own type: at the same places in every kernel. */
struct bpf_sock_ops {
	__u32 op;
};

/* Matched by its members' names when it is registered. The name comes first, so that the loader can set it. */
struct tcp_congestion_ops {
	char name[TCP_CA_NAME_MAX];
	__u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*set_state)(struct sock *sk, __u8 state);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *sample);
};

#endif
