/* The parts of DPDK's headers that pascaline-dpdk cannot link to: static inline functions, macros, and the
 * offsets of the mbuf's fields. The bindings are generated from this header.
 *
 * A call into C costs a few nanoseconds and is never inlined, so work per packet is done per burst.
 */
#ifndef PASCALINE_SHIM_H
#define PASCALINE_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include <rte_bus.h>
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_version.h>

enum psc_mbuf_layout {
	PSC_MBUF_SIZE = sizeof(struct rte_mbuf),
	PSC_MBUF_BUF_ADDR = offsetof(struct rte_mbuf, buf_addr),
	PSC_MBUF_BUF_LEN = offsetof(struct rte_mbuf, buf_len),
	PSC_MBUF_DATA_OFF = offsetof(struct rte_mbuf, data_off),
	PSC_MBUF_DATA_LEN = offsetof(struct rte_mbuf, data_len),
	PSC_MBUF_PKT_LEN = offsetof(struct rte_mbuf, pkt_len),
	PSC_MBUF_REFCNT = offsetof(struct rte_mbuf, refcnt),
	PSC_MBUF_NB_SEGS = offsetof(struct rte_mbuf, nb_segs),
	PSC_MBUF_NEXT = offsetof(struct rte_mbuf, next),
	PSC_MBUF_OL_FLAGS = offsetof(struct rte_mbuf, ol_flags),
	PSC_MBUF_POOL = offsetof(struct rte_mbuf, pool),
};

enum psc_limits {
	PSC_HEADROOM = RTE_PKTMBUF_HEADROOM,
	PSC_CACHE_MAX = RTE_MEMPOOL_CACHE_MAX_SIZE,
	PSC_MAX_LCORES = RTE_MAX_LCORE,
	PSC_NAME_MAX = RTE_MEMPOOL_NAMESIZE,
	PSC_ETHER_MTU = RTE_ETHER_MTU,
};

static const uint64_t PSC_F_RX_VLAN_STRIPPED = RTE_MBUF_F_RX_VLAN_STRIPPED;
static const uint64_t PSC_F_RX_IP_CKSUM_MASK = RTE_MBUF_F_RX_IP_CKSUM_MASK;
static const uint64_t PSC_F_RX_IP_CKSUM_BAD = RTE_MBUF_F_RX_IP_CKSUM_BAD;
static const uint64_t PSC_F_RX_L4_CKSUM_MASK = RTE_MBUF_F_RX_L4_CKSUM_MASK;
static const uint64_t PSC_F_RX_L4_CKSUM_BAD = RTE_MBUF_F_RX_L4_CKSUM_BAD;
/* The buffer belongs to another mbuf, or to no mbuf. */
static const uint64_t PSC_F_NOT_DIRECT = RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL;

static const uint64_t PSC_RX_IPV4_CKSUM = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM;
static const uint64_t PSC_RX_UDP_CKSUM = RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
static const uint64_t PSC_RX_SCATTER = RTE_ETH_RX_OFFLOAD_SCATTER;
static const uint64_t PSC_TX_MULTI_SEGS = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;

static const uint64_t PSC_RSS_L3 = RTE_ETH_RSS_IP;
static const uint64_t PSC_RSS_L4 = RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP;
static const uint64_t PSC_RSS_UDP = RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP;
static const uint64_t PSC_RSS_L4_DST_ONLY = RTE_ETH_RSS_L4_DST_ONLY;
static const uint32_t PSC_MQ_RSS = RTE_ETH_MQ_RX_RSS;

/* Exceptions in a burst; 0 for nearly all bursts. */
enum psc_odd {
	/* some mbuf is not the only holder of one segment of its own memory */
	PSC_ODD_SHAPE = 1,
	/* the driver took some VLAN tag out of the packet */
	PSC_ODD_VLAN = 2,
};

uint16_t psc_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **out, uint16_t room, uint32_t *odd);
uint16_t psc_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **frames, uint16_t count);

struct rte_mempool *psc_mbuf_pool_create(const char *name, unsigned int count, unsigned int cache,
					 uint16_t private_size, uint16_t data_room, int lifo);
struct rte_mbuf *psc_mbuf_alloc(struct rte_mempool *pool);
int psc_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **out, unsigned int count);
void psc_mbuf_free(struct rte_mbuf *mbuf);

/* Frees `count` packets, whatever their shape. */
void psc_mbuf_free_burst(struct rte_mbuf **mbufs, unsigned int count);
int psc_mbuf_linearize(struct rte_mbuf *mbuf);
int psc_vlan_insert(struct rte_mbuf *mbuf);

int psc_errno(void);
unsigned int psc_lcore_id(void);
uint64_t psc_rdtsc(void);

const char *psc_device_name(const struct rte_eth_dev_info *info);
int psc_link(uint16_t port, uint32_t *mbps);
/* Sets `removed` to 1 once the kernel, or a bus, wants the device back; never called off. */
int psc_on_removal(const char *device, uint8_t *removed);

/* Lets a device bring packets for a UDP port, over IPv4 or IPv6, to a queue. */
int psc_steer_udp(uint16_t port, int ipv6, uint16_t udp_port, uint16_t queue);
/* Sets the queues of the first `size` entries of a device's redirection table. */
int psc_reta_set(uint16_t port, const uint16_t *queues, uint16_t size);

#endif
