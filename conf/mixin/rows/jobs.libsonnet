local p = import '../panels.libsonnet';

p.row('Jobs', [
  p.line(8, [
    p.table(
      'Ranks that have joined',
      'Of the ranks of each job, how many are members now.',
      'percentunit',
      8,
      'pascaline_job_members{} / pascaline_job_ranks{}'
    ),
    p.lines(
      'First to last contribution',
      'How long a PSN waits for its slowest rank: stragglers show here first. Points, where Prometheus keeps exemplars, name job and rank.',
      's',
      8,
      [
        ['histogram_quantile(0.5, sum by (le) (rate(pascaline_contribution_spread_seconds_bucket{}[])))', '50 %'],
        ['histogram_quantile(0.99, sum by (le) (rate(pascaline_contribution_spread_seconds_bucket{}[])))', '99 %'],
        [
          'sum(rate(pascaline_contribution_spread_seconds_sum{}[])) / sum(rate(pascaline_contribution_spread_seconds_count{}[]))',
          'mean',
        ],
      ]
    ) + p.exemplars,
    p.lines(
      'Reminders and refusals',
      'Reminders ask what became of a PSN; refusals tell a worker why its packets are dropped.',
      'pps',
      8,
      [
        ['sum by (instance) (rate(pascaline_reminders_received_total{}[]))', '{{instance}} reminders received'],
        ['sum by (instance) (rate(pascaline_reminders_sent_packets_total{}[]))', '{{instance}} reminders sent'],
        ['sum by (instance) (rate(pascaline_refusals_sent_packets_total{}[]))', '{{instance}} refusals sent'],
      ]
    ),
  ]),
  p.line(7, [
    p.lines(
      'Generations',
      'A job enters its next generation when a worker starts anew. Many in a row: workers that keep restarting.',
      'none',
      12,
      [
        ['changes(pascaline_job_epoch{}[10m])', '{{instance}} job {{job_id}} {{name}}, in ten minutes'],
      ]
    ),
    p.lines(
      'Members',
      'Ranks that have joined, by job.',
      'none',
      12,
      [
        ['pascaline_job_members{}', '{{instance}} job {{job_id}} {{name}}'],
        ['pascaline_job_ranks{}', '{{instance}} job {{job_id}} {{name}}: ranks'],
      ]
    ),
  ]),
  p.line(8, [
    p.lines(
      'Goodput',
      'Bits of sums made per second, each counted once, however many ranks it went to. The 64 busiest jobs; the rest together is "other".',
      'bps',
      8,
      [
        ['8 * rate(pascaline_job_result_bytes_total{}[])', '{{instance}} job {{job_id}} {{name}}'],
      ]
    ),
    p.lines(
      'Waiting for the last rank',
      'Mean time from the first to the last contribution of a sum.',
      's',
      8,
      [
        [
          'rate(pascaline_job_waited_seconds_total{}[]) / rate(pascaline_job_results_total{}[])',
          '{{instance}} job {{job_id}} {{name}}',
        ],
      ]
    ),
    p.lines(
      'Behind',
      'How many packets the last rank of each job is behind the first. It grows while a rank is slow or silent.',
      'none',
      8,
      [
        ['pascaline_job_behind_packets{}', '{{instance}} job {{job_id}} {{name}}'],
      ]
    ),
  ]),
  p.line(8, [
    p.lines(
      'Stragglers',
      'Share of the sums whose last contribution came from this rank. Even shares mean that no single rank delays the others.',
      'percentunit',
      8,
      [
        [
          'topk(10, rate(pascaline_job_rank_last_total{}[]) / on (instance, job_id, name) group_left () rate(pascaline_job_results_total{}[]))',
          '{{instance}} job {{job_id}} rank {{rank}}',
        ],
      ]
    ),
    p.lines(
      'Sent again, by rank',
      'Contributions that a rank had sent before, as a share of all that it sends; the ten with the most.',
      'percentunit',
      8,
      [
        [
          'topk(10, rate(pascaline_job_rank_retransmissions_total{}[]) / rate(pascaline_job_rank_contributions_total{}[]))',
          '{{instance}} job {{job_id}} rank {{rank}}',
        ],
      ]
    ),
    p.lines(
      'Not aggregated here',
      'Dropped packets of each job, for reasons that concern the job, and contributions that went to the parameter server, each per received contribution. What is dropped before it counts as a contribution can make it more than 100 %.',
      'percentunit',
      8,
      [
        [
          'rate(pascaline_job_dropped_packets_total{}[]) / rate(pascaline_job_contributions_total{}[])',
          'job {{job_id}}: dropped',
        ],
        [
          'rate(pascaline_job_contributions_spilled_total{}[]) / rate(pascaline_job_contributions_total{}[])',
          'job {{job_id}}: contributions to the server',
        ],
      ]
    ),
  ]),
  p.line(8, [
    p.lines(
      'Aggregated here',
      "Share of the bytes of a job's contributions that went into results made here; the others went to the parameter server. `pascaline explain` says why.",
      'percentunit',
      8,
      [
        [
          'rate(pascaline_job_aggregated_bytes_total{}[]) / (rate(pascaline_job_aggregated_bytes_total{}[]) + rate(pascaline_job_spilled_bytes_total{}[]) + rate(pascaline_job_evicted_bytes_total{}[]) + rate(pascaline_job_bypassed_bytes_total{}[]))',
          'job {{job_id}}',
        ],
      ]
    ),
    p.lines(
      'Contributions that went elsewhere',
      'Contributions to the parameter server: without a slot, with a partial that lost its slot, and past the pool as their senders wanted.',
      'pps',
      8,
      [
        ['rate(pascaline_job_contributions_spilled_total{}[])', 'job {{job_id}}: no slot'],
        ['rate(pascaline_job_contributions_evicted_total{}[])', 'job {{job_id}}: lost its slot'],
        ['rate(pascaline_job_contributions_bypassed_total{}[])', 'job {{job_id}}: bypass'],
        ['rate(pascaline_job_server_full_total{}[])', 'job {{job_id}}: no room on the way to the server'],
      ]
    ),
    p.lines(
      'Why there was no slot',
      'Contributions that found all slots of their set taken, arrived while their job held its most slots, or met another lcore too often.',
      'pps',
      8,
      [
        ['rate(pascaline_job_collisions_total{}[])', 'job {{job_id}}: collision'],
        ['rate(pascaline_job_over_quota_total{}[])', 'job {{job_id}}: quota'],
        ['rate(pascaline_job_contended_total{}[])', 'job {{job_id}}: contention'],
        ['rate(pascaline_job_over_share_total{}[])', 'job {{job_id}}: share'],
        ['rate(pascaline_job_given_back_total{}[])', 'job {{job_id}}: given back'],
      ]
    ),
  ]),
  p.line(8, [
    p.lines(
      'Reduction by job',
      "Bytes of a job's contributions for each byte of its results, before fan-out: as many as it has ranks, if all is aggregated here.",
      'short',
      8,
      [
        ['rate(pascaline_job_contribution_bytes_total{}[]) / rate(pascaline_job_result_bytes_total{}[])', 'job {{job_id}}'],
      ]
    ),
    p.lines(
      'Results that were not simply made',
      'Sent again, from the server or a rank, sent out without all ranks, saturated, and with an infinity or NaN.',
      'ops',
      8,
      [
        ['rate(pascaline_job_results_replayed_total{}[])', 'job {{job_id}}: again'],
        ['rate(pascaline_job_results_installed_total{}[])', 'job {{job_id}}: from elsewhere'],
        ['rate(pascaline_job_results_released_total{}[])', 'job {{job_id}}: not of all'],
        ['rate(pascaline_job_results_overflowed_total{}[])', 'job {{job_id}}: saturated'],
        ['rate(pascaline_job_results_nonfinite_total{}[])', 'job {{job_id}}: not finite'],
      ]
    ),
    p.lines(
      'Ranks behind, ranks lost',
      'PSNs that ranks are behind the one that is ahead; ranks that jobs have lost.',
      'short',
      8,
      [
        ['topk(10, pascaline_job_rank_behind_packets{})', 'job {{job_id}} rank {{rank}}'],
        ['pascaline_job_lost_ranks{}', 'job {{job_id}}: lost'],
      ]
    ),
  ]),
])
