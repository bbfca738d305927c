/* For the events of devices. */
#define ALLOW_EXPERIMENTAL_API

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "shim.h"

#include <stdio.h>

#include <rte_mbuf_pool_ops.h>
#include <rte_memzone.h>

uint16_t psc_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **out, uint16_t room, uint32_t *odd)
{
	const uint16_t count = rte_eth_rx_burst(port, queue, out, room);
	uint64_t flags = 0;
	uint16_t shape = 1;

	/* Reads only fields that the driver has just written, in the line that the caller reads next, each as
	 * wide as it was written. Every packet has a holder and a segment; a second one of any packet shows. */
#pragma GCC unroll 4
	for (uint16_t i = 0; i < count; i++) {
		flags |= out[i]->ol_flags;
		shape |= rte_mbuf_refcnt_read(out[i]) | out[i]->nb_segs;
	}
	*odd = (shape != 1 || (flags & PSC_F_NOT_DIRECT) ? PSC_ODD_SHAPE : 0) |
	       (flags & PSC_F_RX_VLAN_STRIPPED ? PSC_ODD_VLAN : 0);
	return count;
}

uint16_t psc_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **frames, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, frames, count);
}

struct rte_mbuf *psc_mbuf_alloc(struct rte_mempool *pool)
{
	return rte_pktmbuf_alloc(pool);
}

/* A fresh packet is set up by few stores: data_off, refcnt, nb_segs and port are neighbours, and so are
 * packet_type, pkt_len, data_len and vlan_tci. */
static_assert(offsetof(struct rte_mbuf, port) + sizeof(uint16_t) - offsetof(struct rte_mbuf, data_off) == 8,
	      "rearm data");
static_assert(offsetof(struct rte_mbuf, vlan_tci) + sizeof(uint16_t) -
	      offsetof(struct rte_mbuf, packet_type) == 12, "lengths");

/* rte_pktmbuf_alloc_bulk without the stores that change nothing or have no meaning without a flag: a packet
 * in a pool has one segment, no next one and one holder, and its second cache line is not needed yet. Every
 * pool made here has the headroom. */
int psc_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **out, unsigned int count)
{
	const struct {
		uint16_t data_off, refcnt, nb_segs, port;
	} fresh = {RTE_PKTMBUF_HEADROOM, 1, 1, RTE_MBUF_PORT_INVALID};
	const int failed = rte_mempool_get_bulk(pool, (void **)out, count);
	const size_t data = sizeof(struct rte_mbuf) + rte_pktmbuf_priv_size(pool) + RTE_PKTMBUF_HEADROOM;

	if (failed)
		return failed;
	/* Prefetches all lines that will be written: buffers from the pool's ring are cold. Stores do not wait, so
	 * the rounds overlap. */
#pragma GCC unroll 4
	for (unsigned int i = 0; i < count; i++) {
		struct rte_mbuf *const mbuf = out[i];

		__builtin_prefetch(mbuf, 1);
		__builtin_prefetch((char *)mbuf + RTE_CACHE_LINE_MIN_SIZE, 1);
		__builtin_prefetch((char *)mbuf + data, 1);
		memcpy(&mbuf->data_off, &fresh, sizeof(fresh));
		mbuf->ol_flags = 0;
		memset(&mbuf->packet_type, 0, 12);
	}
	return 0;
}

static void free_zone(struct rte_mempool_memhdr *chunk, void *zone)
{
	RTE_SET_USED(chunk);
	rte_memzone_free(zone);
}

/* Gives a pool memory for all its packets in one piece, one directly behind the other. 0, or an error number.
 * The pool allows packets across pages; unlike DPDK's own way to populate such a pool, this tells it the
 * addresses that devices use. */
static int populate_densely(struct rte_mempool *pool)
{
	char name[RTE_MEMZONE_NAMESIZE];
	const struct rte_memzone *zone;
	size_t least, align;
	ssize_t size;
	int count;

	size = rte_mempool_op_calc_mem_size_default(pool, pool->size, 0, &least, &align);
	if (size < 0)
		return (int)-size;
	if (snprintf(name, sizeof(name), "PSC_%s", pool->name) >= (int)sizeof(name))
		return ENAMETOOLONG;
	zone = rte_memzone_reserve_aligned(name, (size_t)size, SOCKET_ID_ANY, 0, (unsigned int)align);
	if (!zone)
		return rte_errno;
	count = rte_mempool_populate_iova(pool, zone->addr, zone->iova, zone->len, free_zone,
					  (void *)(uintptr_t)zone);
	if (count <= 0) {
		rte_memzone_free(zone);
		return count ? -count : ENOMEM;
	}
	return (unsigned int)count == pool->size ? 0 : ENOMEM;
}

static int has_mempool_driver(const char *name)
{
	for (unsigned int i = 0; i < rte_mempool_ops_table.num_ops; i++)
		if (!strcmp(rte_mempool_ops_table.ops[i].name, name))
			return 1;
	return 0;
}

/* rte_pktmbuf_pool_create; but without hugepages, where devices take virtual addresses, a packet may cross
 * the end of a page. DPDK would not allow that, which nearly doubles the memory. And net_af_xdp takes a pool
 * for one dense piece: it would give the kernel packets beyond the memory that it registered, and lose their
 * frames. */
struct rte_mempool *psc_mbuf_pool_create(const char *name, unsigned int count, unsigned int cache,
					 uint16_t private_size, uint16_t data_room, int lifo)
{
	const char *const ops = lifo && has_mempool_driver("stack") ? "stack" : rte_mbuf_best_mempool_ops();
	struct rte_pktmbuf_pool_private private = {
		.mbuf_data_room_size = data_room,
		.mbuf_priv_size = private_size,
	};
	const unsigned int size = (unsigned int)sizeof(struct rte_mbuf) + private_size + data_room;
	struct rte_mempool *pool;
	int failed;

	if (rte_eal_has_hugepages() || rte_eal_iova_mode() != RTE_IOVA_VA)
		return rte_pktmbuf_pool_create_by_ops(name, count, cache, private_size, data_room, SOCKET_ID_ANY,
						      ops);
	pool = rte_mempool_create_empty(name, count, size, cache, sizeof(private), SOCKET_ID_ANY,
					RTE_MEMPOOL_F_NO_IOVA_CONTIG);
	if (!pool)
		return NULL;
	failed = -rte_mempool_set_ops_byname(pool, ops, NULL);
	if (!failed) {
		rte_pktmbuf_pool_init(pool, &private);
		failed = populate_densely(pool);
	}
	if (failed) {
		rte_mempool_free(pool);
		rte_errno = failed;
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

void psc_mbuf_free(struct rte_mbuf *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

/* rte_pktmbuf_free_bulk for packets with one holder and memory of their own: packets of one segment go back
 * as they are, runs of one pool in one call. A packet of one segment has no next one; this is not checked,
 * since the pointer is in the second cache line, and DPDK's own fast free relies on it too. */
void psc_mbuf_free_burst(struct rte_mbuf **mbufs, unsigned int count)
{
	struct rte_mempool *pool = count ? mbufs[0]->pool : NULL;
	unsigned int start = 0, i;

#pragma GCC unroll 4
	for (i = 0; i < count; i++) {
		struct rte_mbuf *mbuf = mbufs[i];

		if (likely(mbuf->nb_segs == 1 && mbuf->pool == pool))
			continue;
		if (i > start)
			rte_mempool_put_bulk(pool, (void *const *)&mbufs[start], i - start);
		rte_pktmbuf_free(mbuf);
		start = i + 1;
		if (start < count)
			pool = mbufs[start]->pool;
	}
	if (count > start)
		rte_mempool_put_bulk(pool, (void *const *)&mbufs[start], count - start);
}

int psc_mbuf_linearize(struct rte_mbuf *mbuf)
{
	return rte_pktmbuf_linearize(mbuf);
}

/* rte_vlan_insert takes the address of the pointer but does not change the pointer. */
int psc_vlan_insert(struct rte_mbuf *mbuf)
{
	return rte_vlan_insert(&mbuf);
}

int psc_errno(void)
{
	return rte_errno;
}

unsigned int psc_lcore_id(void)
{
	return rte_lcore_id();
}

uint64_t psc_rdtsc(void)
{
	return rte_rdtsc();
}

const char *psc_device_name(const struct rte_eth_dev_info *info)
{
#if RTE_VERSION >= RTE_VERSION_NUM(22, 11, 0, 0)
	return info->device == NULL ? NULL : rte_dev_name(info->device);
#else
	return info->device == NULL ? NULL : info->device->name;
#endif
}

/* 1: up, 0: down, negative: error. */
int psc_link(uint16_t port, uint32_t *mbps)
{
	struct rte_eth_link link = {0};
	const int failed = rte_eth_link_get_nowait(port, &link);

	*mbps = link.link_speed;
	return failed ? failed : link.link_status;
}

static void note_removal(const char *device, enum rte_dev_event_type event, void *removed)
{
	(void)device;
	if (event == RTE_DEV_EVENT_REMOVE)
		__atomic_store_n((uint8_t *)removed, 1, __ATOMIC_RELAXED);
}

int psc_on_removal(const char *device, uint8_t *removed)
{
	return rte_dev_event_callback_register(device, note_removal, removed);
}

int psc_steer_udp(uint16_t port, int ipv6, uint16_t udp_port, uint16_t queue)
{
	const struct rte_flow_attr attr = { .ingress = 1 };
	const struct rte_flow_item_udp udp = { .hdr = { .dst_port = rte_cpu_to_be_16(udp_port) } };
	const struct rte_flow_item_udp mask = { .hdr = { .dst_port = RTE_BE16(0xffff) } };
	const struct rte_flow_item pattern[] = {
		{ .type = RTE_FLOW_ITEM_TYPE_ETH },
		{ .type = ipv6 ? RTE_FLOW_ITEM_TYPE_IPV6 : RTE_FLOW_ITEM_TYPE_IPV4 },
		{ .type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp, .mask = &mask },
		{ .type = RTE_FLOW_ITEM_TYPE_END },
	};
	const struct rte_flow_action_queue to = { .index = queue };
	const struct rte_flow_action actions[] = {
		{ .type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to },
		{ .type = RTE_FLOW_ACTION_TYPE_END },
	};
	struct rte_flow_error error;

	rte_errno = 0;
	if (rte_flow_create(port, &attr, pattern, actions, &error))
		return 0;
	return rte_errno ? -rte_errno : -EINVAL;
}

int psc_reta_set(uint16_t port, const uint16_t *queues, uint16_t size)
{
	struct rte_eth_rss_reta_entry64 table[RTE_ETH_RSS_RETA_SIZE_512 / RTE_ETH_RETA_GROUP_SIZE];

	if (size > RTE_ETH_RSS_RETA_SIZE_512)
		return -EINVAL;
	memset(table, 0, sizeof(table));
	for (uint16_t i = 0; i < size; i++) {
		table[i / RTE_ETH_RETA_GROUP_SIZE].mask |= UINT64_C(1) << i % RTE_ETH_RETA_GROUP_SIZE;
		table[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE] = queues[i];
	}
	return rte_eth_dev_rss_reta_update(port, table, size);
}
