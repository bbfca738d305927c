// Measures the aggregator of OmniReduce (`ps`, of DAIET) as `pascaline-lab bench pipeline` measures ours:
// the same PSNs in the same order, in packets as the aggregator wants them.
// It is compiled together with the aggregator's own ps.cpp.
//
//   omnireduce hot|ring FAN_IN ELEMENTS SECONDS CORE MAIN_CORE
//
// hot: a net_null port whose receive callback writes each packet, its time taken out.
// ring: packets come from the main core and results go back there, by their addresses.
// Prints one line of JSON.

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "params.hpp"
#include "ps.hpp"
#include "stats.hpp"
#include "utils.hpp"

#include <rte_eth_ring.h>
#include <rte_ring.h>

namespace {

// As in `pascaline bench pipeline`.
constexpr uint32_t PSNS = 32;
constexpr uint32_t SLOTS = 64;
constexpr uint32_t SOURCE_BUFFERS = 4095;
constexpr unsigned BURST = 32;
constexpr double WARM_UP = 0.5;
constexpr uint64_t CHECK_EVERY = 1024;

constexpr uint8_t INT32 = 1;
constexpr uint16_t PORT = 48879;

[[noreturn]] void fail(const std::string &what)
{
	fprintf(stderr, "omnireduce: %s\n", what.c_str());
	exit(1);
}

struct Load {
	uint16_t fan_in;
	uint32_t elements;
	double seconds;
};

// What a worker's packet looks like, and the order in which they come.
class Frames {
public:
	Frames(const Load &load, int32_t value)
		: load_(load), value_(value), payload_(load.elements, rte_cpu_to_be_32(value)) {}

	static constexpr size_t HEADERS =
		sizeof(rte_ether_hdr) + sizeof(rte_ipv4_hdr) + sizeof(rte_udp_hdr) + sizeof(daiet::daiet_hdr);

	size_t length() const { return HEADERS + payload_.size() * sizeof(int32_t); }

	void payload(rte_mbuf *packet) const
	{
		void *tensor = rte_pktmbuf_mtod_offset(packet, void *, HEADERS);
		memcpy(tensor, payload_.data(), payload_.size() * sizeof(int32_t));
	}

	// The headers of the next contribution, and the packet's lengths.
	void next(rte_mbuf *packet)
	{
		uint32_t psn, behind;
		uint16_t rank;

		do {
			rank = turn_;
			psn = step_;
			if (++turn_ == load_.fan_in) {
				turn_ = 0;
				step_++;
			}
			behind = rank * PSNS / load_.fan_in;
		} while (psn < behind);
		psn -= behind;

		packet->data_len = (uint16_t)length();
		packet->pkt_len = (uint32_t)length();
		auto *eth = rte_pktmbuf_mtod(packet, rte_ether_hdr *);
		*eth = rte_ether_hdr{};
		eth->src_addr.addr_bytes[0] = 2;
		eth->src_addr.addr_bytes[5] = (uint8_t)rank;
		eth->dst_addr.addr_bytes[0] = 2;
		eth->ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
		auto *ip = (rte_ipv4_hdr *)(eth + 1);
		*ip = rte_ipv4_hdr{};
		ip->version_ihl = 0x45;
		ip->time_to_live = 64;
		ip->next_proto_id = IPPROTO_UDP;
		ip->total_length = rte_cpu_to_be_16((uint16_t)(length() - sizeof(rte_ether_hdr)));
		ip->src_addr = rte_cpu_to_be_32(RTE_IPV4(10, 78, 0, 0) + rank);
		ip->dst_addr = rte_cpu_to_be_32(RTE_IPV4(10, 77, 0, 254));
		auto *udp = (rte_udp_hdr *)(ip + 1);
		*udp = rte_udp_hdr{};
		udp->src_port = rte_cpu_to_be_16(40000);
		udp->dst_port = rte_cpu_to_be_16(PORT);
		udp->dgram_len = rte_cpu_to_be_16((uint16_t)(length() - sizeof(rte_ether_hdr) - sizeof(rte_ipv4_hdr)));
		auto *daiet = (daiet::daiet_hdr *)(udp + 1);
		daiet->tsi = psn * load_.elements;
		daiet->pool_index = rte_cpu_to_be_16((uint16_t)(psn % SLOTS | (psn / SLOTS & 1) << 15));
		daiet->next_tsi = (psn + SLOTS) * load_.elements;
		daiet->data_type = INT32;
	}

	bool right(rte_mbuf *result) const
	{
		const auto *body = rte_pktmbuf_mtod_offset(result, const unsigned char *, HEADERS);
		const uint32_t sum = rte_cpu_to_be_32(value_ * load_.fan_in);

		for (size_t i = 0; i < payload_.size(); i++)
			if (memcmp(body + i * sizeof(sum), &sum, sizeof(sum)))
				return false;
		return result->data_len == length();
	}

private:
	Load load_;
	int32_t value_;
	std::vector<uint32_t> payload_;
	uint32_t step_ = 0;
	uint16_t turn_ = 0;
};

struct Seen {
	uint64_t packets = 0, checked = 0, wrong = 0;
	double seconds = 0;
};

uint64_t ticks(double seconds)
{
	return (uint64_t)(seconds * (double)rte_get_tsc_hz());
}

void report(const Seen &seen)
{
	double mpps = (double)seen.packets / seen.seconds / 1e6;
	printf("{\"mpps\":%.4f,\"checked\":%" PRIu64 ",\"wrong\":%" PRIu64 "}\n", mpps, seen.checked, seen.wrong);
}

// Room for a frame, packed as densely as may be: without hugepages DPDK lets no packet reach across a page.
uint16_t room(const Frames &frames)
{
	return (uint16_t)RTE_ALIGN_CEIL(RTE_PKTMBUF_HEADROOM + frames.length(), 64);
}

rte_mempool *pool(const char *name, const Frames &frames, uint32_t count)
{
	auto *made = rte_pktmbuf_pool_create(name, count, 256, 0, room(frames), rte_socket_id());

	if (!made)
		fail("no memory for packets");
	return made;
}

void start(uint16_t port, rte_mempool *into)
{
	rte_eth_conf conf = {};

	if (rte_eth_dev_configure(port, 1, 1, &conf) ||
	    rte_eth_rx_queue_setup(port, 0, 1024, rte_socket_id(), nullptr, into) ||
	    rte_eth_tx_queue_setup(port, 0, 1024, rte_socket_id(), nullptr) || rte_eth_dev_start(port))
		fail("the port does not start");
}

// A port that makes packets out of nothing.
struct Hot {
	Frames frames;
	double for_seconds;
	uint16_t port = 0;
	const rte_eth_rxtx_callback *check = nullptr;
	Seen seen;
	uint64_t begun = 0, until = 0, hook = 0;

	explicit Hot(const Load &load) : frames(load, 2), for_seconds(load.seconds) {}

	static uint16_t receive(uint16_t, uint16_t, rte_mbuf **packets, uint16_t count, uint16_t, void *own)
	{
		auto &hot = *(Hot *)own;
		const uint64_t start = rte_rdtsc();

		for (uint16_t i = 0; i < count; i++) {
			hot.frames.next(packets[i]);
			hot.frames.payload(packets[i]);
		}
		hot.account(start, count);
		return count;
	}

	// Results are checked before the measurement begins.
	static uint16_t transmit(uint16_t, uint16_t, rte_mbuf **packets, uint16_t count, void *own)
	{
		auto &hot = *(Hot *)own;

		for (uint16_t i = 0; i < count; i++)
			hot.seen.wrong += !hot.frames.right(packets[i]);
		hot.seen.checked += count;
		return count;
	}

	void account(uint64_t start, uint16_t count)
	{
		if (!until) {
			until = start + ticks(WARM_UP);
		} else if (!begun && start > until) {
			rte_eth_remove_tx_callback(port, 0, check);
			begun = rte_rdtsc();
			until = begun + ticks(for_seconds);
			return;
		} else if (begun && start > until) {
			seen.seconds = (double)(start - begun - hook) / (double)rte_get_tsc_hz();
			begun = until = UINT64_MAX;
			daiet::force_quit = true;
			return;
		}
		if (begun) {
			seen.packets += count;
			hook += rte_rdtsc() - start;
		}
	}
};

Seen measure_hot(const Load &load, unsigned lcore)
{
	Hot hot(load);
	const std::string arguments = "size=" + std::to_string(hot.frames.length());

	if (rte_eal_hotplug_add("vdev", "net_null0", arguments.c_str()) ||
	    rte_eth_dev_get_port_by_name("net_null0", &hot.port))
		fail("no net_null port");
	start(hot.port, pool("received", hot.frames, 8191));
	hot.check = rte_eth_add_tx_callback(hot.port, 0, Hot::transmit, &hot);
	if (!hot.check || !rte_eth_add_rx_callback(hot.port, 0, Hot::receive, &hot))
		fail("no callback");
	daiet::dpdk_par.portid = hot.port;
	if (rte_eal_remote_launch(daiet::ps, nullptr, lcore) || rte_eal_wait_lcore(lcore))
		fail("the aggregator does not run");
	return hot.seen;
}

Seen measure_ring(const Load &load, unsigned lcore)
{
	// Sums are written to where a contribution was, whose payload is used again: zeros stay zeros.
	Frames frames(load, 0);
	auto *there = rte_ring_create("there", 1024, (int)rte_socket_id(), RING_F_SP_ENQ | RING_F_SC_DEQ);
	auto *back = rte_ring_create("back", 1024, (int)rte_socket_id(), RING_F_SP_ENQ | RING_F_SC_DEQ);

	if (!there || !back)
		fail("no rings");
	const int port = rte_eth_from_rings("net_ring_peer", &there, 1, &back, 1, rte_socket_id());
	if (port < 0)
		fail("no net_ring port");
	auto *own = pool("source", frames, SOURCE_BUFFERS);
	start((uint16_t)port, own);
	std::vector<rte_mbuf *> all(SOURCE_BUFFERS);
	size_t count = 0;
	while (count < all.size() && (all[count] = rte_pktmbuf_alloc(own)))
		frames.payload(all[count++]);
	rte_pktmbuf_free_bulk(all.data(), (unsigned)count);
	daiet::dpdk_par.portid = (uint16_t)port;
	if (rte_eal_remote_launch(daiet::ps, nullptr, lcore))
		fail("the aggregator does not run");

	Seen seen;
	rte_mbuf *pending[BURST], *results[BURST];
	unsigned sent = BURST;
	uint64_t begun = 0, until = rte_rdtsc() + ticks(WARM_UP);
	for (uint64_t poll = 1;; poll++) {
		if (sent == BURST && !rte_pktmbuf_alloc_bulk(own, pending, BURST)) {
			for (auto *packet : pending)
				frames.next(packet);
			sent = 0;
		}
		sent += rte_ring_enqueue_burst(there, (void **)&pending[sent], BURST - sent, nullptr);
		const unsigned got = rte_ring_dequeue_burst(back, (void **)results, BURST, nullptr);
		if (got && poll % CHECK_EVERY == 0) {
			seen.checked++;
			seen.wrong += !frames.right(results[0]);
		}
		rte_pktmbuf_free_bulk(results, got);
		seen.packets += begun ? got : 0;
		if (poll % 64)
			continue;
		const uint64_t now = rte_rdtsc();
		if (now < until)
			continue;
		if (begun) {
			seen.seconds = (double)(now - begun) / (double)rte_get_tsc_hz();
			break;
		}
		begun = now;
		until = now + ticks(load.seconds);
	}
	daiet::force_quit = true;
	// It waits for room for the results that it is at.
	while (rte_eal_get_lcore_state(lcore) == RUNNING)
		rte_pktmbuf_free_bulk(results, rte_ring_dequeue_burst(back, (void **)results, BURST, nullptr));
	rte_eal_wait_lcore(lcore);
	return seen;
}

} // namespace

// What ps.cpp finds in the program's other files.
namespace daiet {

volatile bool force_quit = false;
std::ofstream daiet_log;
struct dpdk_data dpdk_data;
struct dpdk_params dpdk_par;
daiet_params daiet_par;
pkt_statistics pkt_stats;

template <typename T> void LOG_FATAL(T what) { fail(what); }
template void LOG_FATAL<std::string>(std::string);
template void LOG_FATAL<const char *>(const char *);
template <typename T> void LOG_INFO(T) {}
template void LOG_INFO<std::string>(std::string);

std::string mac_to_str(const rte_ether_addr) { return ""; }

void deep_copy_single_segment_pkt(rte_mbuf *to, const rte_mbuf *from)
{
	to->pkt_len = from->pkt_len;
	to->data_len = from->data_len;
	rte_memcpy(rte_pktmbuf_mtod(to, void *), rte_pktmbuf_mtod(from, const void *), from->data_len);
}

daiet_params::daiet_params()
	: num_updates(0), max_num_pending_messages(SLOTS),
	  tx_flags(RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_UDP_CKSUM),
	  ps_port(PORT), num_workers(0)
{
}
daiet_params::~daiet_params() {}
void daiet_params::setNumUpdates(uint32_t count) { num_updates = count; }
uint16_t &daiet_params::getNumWorkers() { return num_workers; }

pkt_statistics::pkt_statistics() {}
void pkt_statistics::set_ps(uint32_t, uint64_t, uint64_t) {}

} // namespace daiet

int main(int count, char **arguments)
{
	if (count != 7)
		fail("hot|ring FAN_IN ELEMENTS SECONDS CORE MAIN_CORE");
	const std::string kind = arguments[1];
	const Load load = {(uint16_t)atoi(arguments[2]), (uint32_t)atoi(arguments[3]), atof(arguments[4])};
	const unsigned lcore = (unsigned)atoi(arguments[5]);
	if (load.fan_in == 0 || load.fan_in > PSNS || load.elements == 0)
		fail("no such load");

	std::vector<std::string> words = {"omnireduce", "--no-pci", "--no-shconf", "--log-level=lib.*:error",
					  "-m", "240"};
	std::string cores = std::string(arguments[5]) + "," + arguments[6];
	words.insert(words.end(), {"-l", cores, "--main-lcore", arguments[6]});
	words.insert(words.end(), {"--file-prefix", "pascaline-peer-" + std::to_string(getpid())});
	// As Pascaline does where there are none.
	FILE *free_pages = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "r");
	int pages = 0;
	if (!free_pages || fscanf(free_pages, "%d", &pages) != 1 || pages < 120)
		words.push_back("--no-huge");
	if (free_pages)
		fclose(free_pages);
	std::vector<char *> raw;
	for (auto &word : words)
		raw.push_back(&word[0]);
	if (rte_eal_init((int)raw.size(), raw.data()) < 0)
		fail("DPDK does not start");

	daiet::daiet_par.setNumUpdates(load.elements);
	daiet::daiet_par.getNumWorkers() = load.fan_in;
	daiet::dpdk_par.pool_size = 8191;
	daiet::dpdk_data.pool_buffer_size = room(Frames(load, 0));
	daiet::dpdk_data.core_to_thread_id[lcore] = 0;

	const Seen seen = kind == "hot" ? measure_hot(load, lcore) : measure_ring(load, lcore);
	if (!seen.packets || !seen.checked || seen.wrong)
		fail(std::to_string(seen.wrong) + " of " + std::to_string(seen.checked) +
		     " results are wrong: the measurement is void");
	report(seen);
	return 0;
}
