local p = import '../panels.libsonnet';

p.row('lcores', [
  p.line(8, [
    p.shares(
      'Turns that found packets',
      "Share of the loop's turns: the load of an lcore.",
      'percentunit',
      6,
      [
        [
          'sum by (instance, lcore) (rate(pascaline_busy_turns_total{}[])) / (sum by (instance, lcore) (rate(pascaline_busy_turns_total{}[])) + sum by (instance, lcore) (rate(pascaline_idle_turns_total{}[])))',
          '{{instance}} lcore {{lcore}}',
        ],
      ]
    ),
    p.lines(
      'Packets per busy turn',
      '32 from each port is the most: near it, the lcore is behind. Near 0 it works mostly on what other lcores received.',
      'none',
      6,
      [
        [
          'sum by (instance, lcore) (rate(pascaline_received_packets_total{}[])) / sum by (instance, lcore) (rate(pascaline_busy_turns_total{}[]))',
          '{{instance}} lcore {{lcore}}',
        ],
      ]
    ),
    p.lines(
      'Received by lcore',
      'Very uneven: RSS puts many workers on one queue.',
      'pps',
      6,
      [
        ['sum by (instance, lcore) (rate(pascaline_received_packets_total{}[]))', '{{instance}} lcore {{lcore}}'],
      ]
    ),
    p.lines(
      'Sent and handed over by lcore',
      'Packets that each lcore sends; packets that it handed to the lcore that owns their set.',
      'pps',
      6,
      [
        ['sum by (instance, lcore) (rate(pascaline_sent_packets_total{}[]))', '{{instance}} lcore {{lcore}} sent'],
        [
          'sum by (instance, lcore) (rate(pascaline_handed_off_packets_total{}[]))',
          '{{instance}} lcore {{lcore}} handed over',
        ],
        [
          'sum by (instance, lcore) (rate(pascaline_contributions_combined_total{}[]))',
          '{{instance}} lcore {{lcore}} combined before',
        ],
        [
          'sum by (instance, lcore) (rate(pascaline_combined_refused_total{}[]))',
          '{{instance}} lcore {{lcore}} combined and refused',
        ],
      ]
    ),
  ]),
  p.line(8, [
    p.lines(
      'Busy',
      'Share of its time that an lcore spent on packets.',
      'percentunit',
      8,
      [
        ['rate(pascaline_lcore_busy_seconds_total{}[])', '{{instance}} lcore {{lcore}}'],
      ]
    ),
    p.lines(
      'Burst size',
      'Packets that a poll found, of the polls that found any.',
      'none',
      8,
      [
        ['histogram_quantile(0.5, sum by (le) (rate(pascaline_burst_packets_bucket{}[])))', 'median'],
        ['histogram_quantile(0.9, sum by (le) (rate(pascaline_burst_packets_bucket{}[])))', '90 %'],
      ]
    ),
    p.lines(
      'Empty polls',
      'Polls of a port that found nothing.',
      'ops',
      8,
      [
        ['sum by (instance, lcore) (rate(pascaline_empty_polls_total{}[]))', '{{instance}} lcore {{lcore}}'],
      ]
    ),
  ]),
])
