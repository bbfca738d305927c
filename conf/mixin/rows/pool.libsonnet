local p = import '../panels.libsonnet';

p.row('Pool', [
  p.line(8, [
    p.lines(
      'Slots',
      'Open: sums in progress. Done: results kept for ranks that ask again; they make room when it is needed.',
      'none',
      8,
      [
        ['pascaline_pool_slots_used{}', '{{instance}} {{state}}'],
        ['pascaline_pool_slots{}', '{{instance}} all'],
      ]
    ),
    p.shares(
      'Open slots',
      'Share of the slots. Near 1, new PSNs find no place.',
      'percentunit',
      8,
      [
        [
          'sum by (instance) (pascaline_pool_slots_used{,state="open"}) / on (instance) pascaline_pool_slots{}',
          '{{instance}}',
        ],
      ]
    ),
    p.lines(
      'Slots opened, results made',
      'Per second; the difference is partials given up or in flight.',
      'ops',
      8,
      [
        ['sum by (instance) (rate(pascaline_slots_opened_total{}[]))', '{{instance}} opened'],
        ['sum by (instance) (rate(pascaline_results_total{}[]))', '{{instance}} completed'],
      ]
    ),
  ]),
  p.line(8, [
    p.lines(
      'Kept results',
      'Sent again, taken over from a rank, passed on without room to keep them, displaced by another PSN.',
      'ops',
      8,
      [
        ['sum by (instance) (rate(pascaline_results_replayed_total{}[]))', '{{instance}} sent again'],
        ['sum by (instance) (rate(pascaline_results_installed_total{}[]))', '{{instance}} taken over'],
        ['sum by (instance) (rate(pascaline_results_passed_on_total{}[]))', '{{instance}} passed on'],
        ['sum by (instance) (rate(pascaline_results_displaced_total{}[]))', '{{instance}} displaced'],
      ]
    ),
    p.lines(
      'Given up and overflowed',
      'Partials displaced for their age; results in which an integer saturated.',
      'ops',
      8,
      [
        ['sum by (instance) (rate(pascaline_partials_displaced_total{}[]))', '{{instance}} partials'],
        ['sum by (instance) (rate(pascaline_results_overflowed_total{}[]))', '{{instance}} overflows'],
        ['sum by (instance) (rate(pascaline_results_nonfinite_total{}[]))', '{{instance}} with an infinity or NaN'],
      ]
    ),
    p.shares(
      'Packet buffers in use',
      "Share of DPDK's packet memory, by pool.",
      'percentunit',
      8,
      [
        ['pascaline_packet_buffers_in_use{} / pascaline_packet_buffers{}', '{{instance}} {{pool}}'],
      ]
    ),
  ]),
  p.line(4, [
    p.stat(
      'Pool memory',
      'Of sets and slots, without packet buffers.',
      'bytes',
      6,
      'sum(pascaline_pool_bytes{})'
    ),
    p.stat(
      'Result packets per result',
      'One for each rank.',
      'none',
      6,
      'sum(rate(pascaline_results_sent_packets_total{}[])) / sum(rate(pascaline_results_total{}[]))'
    ),
    p.stat(
      'Copied payloads',
      'Share of results that had to be copied, because a port cannot send several segments.',
      'percentunit',
      6,
      'sum(rate(pascaline_payload_copies_total{}[])) / sum(rate(pascaline_results_sent_packets_total{}[]))'
    ),
    p.stat(
      'Handed over',
      'Share of packets that lcores handed to each other, because another one owns their set.',
      'percentunit',
      6,
      'sum(rate(pascaline_handed_off_packets_total{}[])) / sum(rate(pascaline_received_packets_total{}[]))'
    ),
  ]),
  p.line(8, [
    p.lines(
      'Hits and conflicts',
      'Contributions that were added to a partial that was there, and those that found no slot.',
      'pps',
      8,
      [
        ['sum by (instance) (rate(pascaline_slot_hits_total{}[]))', '{{instance}} hits'],
        ['sum by (instance) (rate(pascaline_slot_conflicts_total{}[]))', '{{instance}} conflicts'],
      ]
    ),
    p.lines(
      'Oldest partial',
      'Age of the oldest partial that lcores found on their last round through the pool. Old ones belong to jobs that wait for a rank.',
      's',
      8,
      [
        ['pascaline_pool_oldest_partial_seconds{}', '{{instance}}'],
      ]
    ),
    p.lines(
      'Partials given up, by job',
      'Partials that lost their slot, were sent to the parameter server, or were given up.',
      'ops',
      8,
      [
        ['rate(pascaline_job_preemptions_total{}[])', 'job {{job_id}}: preempted'],
        ['rate(pascaline_job_contributions_evicted_total{}[])', 'job {{job_id}}: contributions to the server'],
        ['rate(pascaline_job_partials_given_up_total{}[])', 'job {{job_id}}: given up'],
      ]
    ),
  ]),
])
