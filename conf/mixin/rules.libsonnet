// Recording rules, named level:metric:operation.
local slo(name, expr) = [
  {
    record: 'instance_slo:pascaline_slo_errors_per_packets:ratio_rate%s' % window,
    labels: { slo: name },
    expr: expr % { window: window },
  }
  for window in ['5m', '30m', '1h', '6h']
];

{
  prometheusRules+:: {
    groups+: [
      {
        name: 'pascaline.rules',
        rules: [
          {
            // Among them those in flight between lcores, and packets that one lcore counted after another had been read.
            record: 'instance:pascaline_unaccounted_packets:sum',
            expr: |||
              abs(
                  sum by (instance) (pascaline_received_packets_total)
                - sum by (instance) (pascaline_forwarded_packets_total)
                - sum by (instance) (pascaline_absorbed_packets_total)
                - sum by (instance) (pascaline_answered_packets_total)
                - sum by (instance) (pascaline_dropped_packets_total)
              )
            |||,
          },
          {
            record: 'instance:pascaline_received_packets:rate5m',
            expr: 'sum by (instance) (rate(pascaline_received_packets_total[5m]))',
          },
          {
            record: 'instance_job_id_name:pascaline_job_aggregated_per_contribution_bytes:ratio_rate5m',
            expr: |||
              sum by (instance, job_id, name) (rate(pascaline_job_aggregated_bytes_total[5m]))
                / (sum by (instance, job_id, name) (rate(pascaline_job_aggregated_bytes_total[5m]))
                  + sum by (instance, job_id, name) (rate(pascaline_job_spilled_bytes_total[5m]))
                  + sum by (instance, job_id, name) (rate(pascaline_job_evicted_bytes_total[5m]))
                  + sum by (instance, job_id, name) (rate(pascaline_job_bypassed_bytes_total[5m])))
            |||,
          },
        ],
      },
      {
        // Shares of the packets that missed the objective. No traffic gives no sample, so idle time uses up no budget.
        name: 'pascaline.slo.rules',
        rules:
          slo('served_in_time', |||
            1 - sum by (instance) (rate(pascaline_packet_service_seconds_bucket{le="%(within)s"}[%%(window)s]))
              / (sum by (instance) (rate(pascaline_packet_service_seconds_count[%%(window)s])) > 0)
          ||| % { within: $._config.slo.withinSeconds })
          + slo('not_lost', |||
            (
                sum by (instance) (rate(pascaline_port_missed_packets_total[%(window)s]))
              + sum by (instance) (rate(pascaline_port_no_buffer_total[%(window)s]))
              + sum by (instance) (rate(pascaline_no_buffer_total[%(window)s]))
              + sum by (instance) (rate(pascaline_tx_dropped_packets_total[%(window)s]))
            ) / (
                sum by (instance) (rate(pascaline_received_packets_total[%(window)s]))
              + sum by (instance) (rate(pascaline_sent_packets_total[%(window)s])) > 0
            )
          |||),
      },
    ],
  },
}
