// The alerts. Each has a page of its name in docs/runbooks, and a case in conf/prometheus/rules_test.yml.
//
// Every expression ends with a comparison to a number: tests/ports/test_observe.py asks Prometheus for what is compared.
{
  local limits = $._config,
  local alert(name, severity, delay, expr, summary, description) = {
    alert: name,
    expr: expr % limits,
    [if delay != null then 'for']: delay,
    labels: { severity: severity },
    annotations: {
      summary: '{{ $labels.instance }}' + summary,
      description: description,
      runbook_url: limits.runbookUrl % name,
    },
  },
  local job = ': job {{ $labels.job_id }} ({{ $labels.name }}) ',

  local hosts = [
    alert(
      'PascalineDown',
      'critical',
      '30s',
      'up{%(selector)s} == 0',
      ' does not answer',
      'Its workers get no results. Look at `systemctl status pascaline` and `journalctl -u pascaline`.'
    ),
    alert(
      'PascalinePortDown',
      'critical',
      '30s',
      'pascaline_port_up == 0',
      ': port {{ $labels.port }} carries nothing',
      'No link (a cable, a switch port), or its interface is down, missing, or made anew and not usable. '
      + '/readyz and the log say which, and what to do.'
    ),
    alert(
      // Busy lcores always have some packets in flight between them: more with more load, and no more after an hour of it.
      // Two hours in which even the least is more than the most of the hour before are a loss. With little to do none is in
      // flight for long, and a difference that stays is a loss.
      'PascalinePacketsUnaccounted',
      'warning',
      '5m',
      |||
        (
            min_over_time(instance:pascaline_unaccounted_packets:sum[10m])
          > max_over_time(instance:pascaline_unaccounted_packets:sum[10m] offset 1h)
          and
            min_over_time(instance:pascaline_unaccounted_packets:sum[10m] offset 1h)
          > max_over_time(instance:pascaline_unaccounted_packets:sum[10m] offset 2h)
          or
            min_over_time(instance:pascaline_unaccounted_packets:sum[10m])
          * on (instance)
            (sum by (instance) (rate(pascaline_received_packets_total[10m])) < bool 100)
        ) > 0
      |||,
      ': {{ $value }} received packets are unaccounted for',
      'It should forward, absorb, answer or drop every packet, and count it. This is a defect of Pascaline.'
    ),
    alert(
      'PascalinePortLosesPackets',
      'warning',
      '5m',
      |||
        sum by (instance, port) (rate(pascaline_port_missed_packets_total[5m]))
          / sum by (instance, port) (rate(pascaline_port_received_packets_total[5m]))
          > %(portLoss)g
      |||,
      ': port {{ $labels.port }} loses {{ $value | humanizePercentage }} of its packets',
      'The receive ring was full. More rx_descriptors, fewer packets in flight per worker, more lcores.'
    ),
    alert(
      'PascalineBuffersShort',
      'warning',
      '5m',
      'pascaline_packet_buffers_in_use / pascaline_packet_buffers > %(buffersInUse)g',
      ': {{ $value | humanizePercentage }} of the packet buffers ({{ $labels.pool }}) are in use',
      'Without buffers packets are lost. More memory_mb, or fewer slots, descriptors or ports.'
    ),
    alert(
      'PascalineNoBuffer',
      'warning',
      '1m',
      'sum by (instance) (rate(pascaline_no_buffer_total[5m])) > 0',
      ' sends less than it should: no packet buffer is free',
      'It leaves out results and replies, and workers ask for them again. More memory_mb.'
    ),
    alert(
      'PascalineTransmitQueueFull',
      'warning',
      '5m',
      |||
        sum by (instance) (rate(pascaline_tx_dropped_packets_total[5m]))
          / sum by (instance) (rate(pascaline_sent_packets_total[5m]))
          > %(transmitLoss)g
      |||,
      ': {{ $value | humanizePercentage }} of its packets find the transmit queue full',
      'The port is slower than the sums. More tx_descriptors, a faster port, fewer packets in flight.'
    ),
    alert(
      'PascalineLcoreStalled',
      'critical',
      null,
      'pascaline_lcores_stalled > 0',
      ': {{ $value }} lcores do not turn',
      'The packets that they are to handle wait. Look at what else runs on their cores; the log and /readyz say which.'
    ),
    alert(
      'PascalineLcoreSaturated',
      'warning',
      '10m',
      'rate(pascaline_lcore_busy_seconds_total[5m]) > %(busy)g',
      ': lcore {{ $labels.lcore }} spends {{ $value | humanizePercentage }} of its time on packets',
      "It has no time left. More lcores in `cores`, on the card's NUMA node."
    ),
    alert(
      'PascalineSlowService',
      'warning',
      '10m',
      |||
        histogram_quantile(0.99, sum by (instance, le) (rate(pascaline_packet_service_seconds_bucket[5m])))
          > %(slowestPercentSeconds)g
      |||,
      ': 1 % of the packets take longer than {{ $value | humanizeDuration }}',
      'lcores share their cores with others, or sleep: `pascaline doctor`, idle = "spin".'
    ),
  ],

  local pool = [
    alert(
      'PascalinePoolFull',
      'warning',
      '5m',
      |||
        sum by (instance) (pascaline_pool_slots_used{state="open"}) / on (instance) pascaline_pool_slots > %(poolFull)g
      |||,
      ': {{ $value | humanizePercentage }} of the slots hold partials',
      'New PSNs find no slot. More slots in [pool], smaller windows, or a job whose ranks do not keep up.'
    ),
    alert(
      'PascalineConflicts',
      'warning',
      '5m',
      |||
        sum by (instance) (rate(pascaline_dropped_packets_total{reason="conflict"}[5m]))
          / instance:pascaline_received_packets:rate5m
          > %(conflicts)g
      |||,
      ': {{ $value | humanizePercentage }} of the packets find no slot',
      'Workers send them again and again. More slots or ways in [pool], or a smaller window.'
    ),
    alert(
      'PascalineEvictsPartials',
      'warning',
      '5m',
      'sum by (instance) (rate(pascaline_partials_displaced_total[5m])) > %(displacedPerSecond)g',
      ' discards {{ $value | humanize }} partials per second',
      'Their ranks send again. Too old (a rank is far behind, or gone), preempted, of a former generation, or the '
      + 'parameter server has no room: `pascaline explain` tells of each job.'
    ),
  ],

  local jobs = [
    alert(
      // A job that continues without its lost ranks does not wait for them.
      'PascalineJobIncomplete',
      'warning',
      '2m',
      '((pascaline_job_members > 0) + pascaline_job_lost_ranks) / (pascaline_job_ranks > 0) < 1',
      job + 'waits for ranks',
      'Only {{ $value | humanizePercentage }} of its ranks have joined; nothing is summed before all have.'
    ),
    alert(
      'PascalineJobRestarts',
      'warning',
      null,
      'changes(pascaline_job_epoch[10m]) > %(restarts)g',
      ': job {{ $labels.job_id }} began {{ $value }} generations in ten minutes',
      'Workers end and start again, or two workers claim the same rank.'
    ),
    alert(
      'PascalineRanksLost',
      'warning',
      null,
      'pascaline_job_lost_ranks > 0',
      job + 'has lost {{ $value }} ranks',
      'They have fallen silent. `on_death` decides whether the job fails or continues without them.'
    ),
    alert(
      'PascalineServerLacking',
      'warning',
      '10s',
      'pascaline_job_server_lacking > 0',
      job + 'lacks its parameter server',
      '`pascaline ps` does not register: start it again with the same file. It is taken up at once.'
    ),
    alert(
      'PascalineNotAggregated',
      'info',
      '10m',
      'instance_job_id_name:pascaline_job_aggregated_per_contribution_bytes:ratio_rate5m < %(aggregated)g',
      ': only {{ $value | humanizePercentage }} of job {{ $labels.job_id }} ({{ $labels.name }}) is aggregated here',
      'The rest goes to the parameter server. `pascaline explain {{ $labels.job_id }}` tells why.'
    ),
    alert(
      // One rank alone is the last in all of its sums.
      'PascalineStraggler',
      'info',
      '10m',
      |||
        rate(pascaline_job_rank_last_total[5m])
          / on (instance, job_id, name) group_left ()
            (rate(pascaline_job_results_total[5m])
             and on (instance, job_id, name) (pascaline_job_ranks > 1))
          > %(straggler)g
      |||,
      ': job {{ $labels.job_id }} waits for rank {{ $labels.rank }} in {{ $value | humanizePercentage }} of its sums',
      "Its host or its link is slower than the others'."
    ),
    alert(
      'PascalineOverflows',
      'info',
      null,
      'sum by (instance) (increase(pascaline_results_overflowed_total[10m])) > 0',
      ': integers saturated in {{ $value | humanize }} results',
      'These sums are wrong. The workers scale their integers too high for this number of ranks.'
    ),
    alert(
      'PascalineNonFinite',
      'info',
      null,
      'sum by (instance) (increase(pascaline_results_nonfinite_total[10m])) > 0',
      ': {{ $value | humanize }} results have an infinity or NaN',
      "A worker sends such a value, or a sum exceeds its type. The appliance's page names the job."
    ),
  ],

  local packets = [
    alert(
      'PascalineStrangers',
      'warning',
      '5m',
      |||
        sum by (instance, reason) (rate(pascaline_dropped_packets_total{
          reason=~"rank_spoofed|unknown_job|not_member|wrong_epoch|rank_out_of_range|fan_in_mismatch"}[5m]))
          > %(strangersPerSecond)g
      |||,
      ' rejects {{ $value | humanize }} packets per second: {{ $labels.reason }}',
      'A worker with a wrong job, rank or address, a worker of an earlier generation, or a stranger.'
    ),
    alert(
      'PascalineMalformed',
      'warning',
      '5m',
      |||
        sum by (instance, reason) (rate(pascaline_dropped_packets_total{
          reason=~"%(malformed)s"}[5m]))
          > %%(malformedPerSecond)g
      ||| % {
        malformed: std.join('|', [
          'truncated',
          'vlan_depth',
          'ip_header',
          'ip_options',
          'ip_fragment',
          'checksum',
          'length',
          'version',
          'kind',
          'flags',
          'dtype',
          'payload_length',
          'trailer',
          'control',
        ]),
      },
      ' receives malformed packets: {{ $labels.reason }}',
      'A worker of another version, a damaged link, a wrong MTU, or an attacker.'
    ),
  ],

  // Two windows each: the long one says that it matters, the short one that it lasts.
  local burns(name, severity, delay, rate, long, short) = alert(
    name,
    severity,
    delay,
    |||
      min by (instance, slo) (
        label_replace(instance_slo:pascaline_slo_errors_per_packets:ratio_rate%s, "window", "long", "", "")
        or label_replace(instance_slo:pascaline_slo_errors_per_packets:ratio_rate%s, "window", "short", "", "")
      ) > %g
    ||| % [long, short, rate * (1 - limits.slo.objective)],
    ': {{ $value | humanizePercentage }} of the packets miss the objective {{ $labels.slo }}',
    'At this rate the error budget of a month lasts less than %d days.' % (30 / rate + 1)
  ),
  local budgets = [
    burns('PascalineBudgetBurnsFast', 'critical', '2m', limits.slo.fast, '1h', '5m'),
    burns('PascalineBudgetBurnsSlowly', 'warning', '15m', limits.slo.slow, '6h', '30m'),
  ],

  prometheusAlerts+:: {
    groups+: [
      { name: 'pascaline', rules: hosts + pool + jobs + packets },
      { name: 'pascaline.slo', rules: budgets },
    ],
  },
}
