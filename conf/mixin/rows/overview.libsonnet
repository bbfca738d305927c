local p = import '../panels.libsonnet';

function(config) p.row('Overview', [
  p.line(4, [
    p.stat(
      'Appliances',
      'Appliances that Prometheus reaches.',
      'none',
      4,
      'sum(up{,%(selector)s})' % config,
      [['red', null], ['green', 1]]
    ),
    p.stat(
      'Received',
      'Packets per second, all ports.',
      'pps',
      4,
      'sum(rate(pascaline_received_packets_total{}[]))'
    ),
    p.stat(
      'Results',
      'Sums completed per second.',
      'ops',
      4,
      'sum(rate(pascaline_results_total{}[]))'
    ),
    p.stat(
      'Contributions per result',
      'How many packets become one: the traffic that the network is spared.',
      'none',
      4,
      'sum(rate(pascaline_absorbed_packets_total{}[])) / sum(rate(pascaline_results_total{}[]))'
    ),
    p.stat(
      'Dropped',
      'Share of the received packets, duplicates included.',
      'percentunit',
      4,
      'sum(rate(pascaline_dropped_packets_total{}[])) / sum(rate(pascaline_received_packets_total{}[]))',
      [['green', null], ['orange', 0.01], ['red', 0.1]]
    ),
    p.stat(
      'Unaccounted',
      'Received packets that are neither forwarded, absorbed, answered nor dropped. Small numbers are on their way; what stays is a defect.',
      'none',
      4,
      'sum(pascaline_received_packets_total{}) - sum(pascaline_forwarded_packets_total{}) - sum(pascaline_absorbed_packets_total{}) - sum(pascaline_answered_packets_total{}) - sum(pascaline_dropped_packets_total{})'
    ),
  ]),
  p.line(8, [
    p.areas(
      'Where received packets go',
      'Absorbed into sums, answered (results sent again, ARP, control), forwarded to the peer port, dropped.',
      'pps',
      8,
      [
        ['sum(rate(pascaline_absorbed_packets_total{}[]))', 'absorbed'],
        ['sum(rate(pascaline_answered_packets_total{}[]))', 'answered'],
        ['sum(rate(pascaline_forwarded_packets_total{}[]))', 'forwarded'],
        ['sum(rate(pascaline_dropped_packets_total{}[]))', 'dropped'],
      ]
    ),
    p.lines(
      'Traffic',
      'Bytes with Ethernet headers, as the lcores see them.',
      'bps',
      8,
      [
        ['8 * sum(rate(pascaline_received_bytes_total{}[]))', 'in'],
        ['8 * sum(rate(pascaline_sent_bytes_total{}[]))', 'out'],
      ]
    ),
    p.lines(
      'Packet service time',
      "From a packet's reception to the end of the turn that dealt with it.",
      's',
      8,
      [
        ['histogram_quantile(0.5, sum by (le) (rate(pascaline_packet_service_seconds_bucket{}[])))', '50 %'],
        ['histogram_quantile(0.99, sum by (le) (rate(pascaline_packet_service_seconds_bucket{}[])))', '99 %'],
        ['histogram_quantile(0.999, sum by (le) (rate(pascaline_packet_service_seconds_bucket{}[])))', '99.9 %'],
        [
          'sum(rate(pascaline_packet_service_seconds_sum{}[])) / sum(rate(pascaline_packet_service_seconds_count{}[]))',
          'mean',
        ],
      ]
    ),
  ]),
  p.line(5, [
    p.table(
      'Versions',
      'Of appliances and parameter servers: program, DPDK, instruction set, protocol. The protocol must be the same everywhere.',
      'none',
      24,
      'pascaline_build_info{}'
    ),
  ]),
])
