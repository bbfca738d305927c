local p = import '../panels.libsonnet';

p.row('Asynchronous updates (Olaf)', [
  p.line(8, [
    p.lines(
      'Updates',
      'Updates that reached the queue of a port, their fate there, and those that left for the server. Nothing without a job of mode "olaf".',
      'ops',
      6,
      [
        ['sum by (port) (rate(pascaline_olaf_received_total{}[]))', 'received {{port}}'],
        ['sum by (port) (rate(pascaline_olaf_aggregated_total{}[]))', 'combined {{port}}'],
        ['sum by (port) (rate(pascaline_olaf_replaced_total{}[]))', 'replaced {{port}}'],
        ['sum by (port) (rate(pascaline_olaf_departed_total{}[]))', 'left {{port}}'],
      ]
    ),
    p.lines(
      'Updates given up',
      'Updates that neither left nor became part of one that did, by cause.',
      'ops',
      6,
      [
        ['topk(8, sum by (cause) (rate(pascaline_olaf_dropped_total{}[])))', '{{cause}}'],
      ]
    ),
    p.lines(
      'Waiting updates, active clusters',
      'With more active clusters than places, a queue overflows even if it combines what it can.',
      'short',
      6,
      [
        ['pascaline_olaf_queue_depth{}', 'waiting {{port}}'],
        ['pascaline_olaf_queue_capacity{}', 'places {{port}}'],
        ['pascaline_olaf_active_clusters{}', 'clusters {{port}}'],
      ]
    ),
    p.lines(
      'Combined into those that left',
      'Updates that left, by how many others had been combined with each (Olaf, Figure 6): where the curves are far apart, many are combined.',
      'ops',
      6,
      [
        ['sum by (le) (rate(pascaline_olaf_aggregations_per_update_bucket{}[]))', '≤ {{le}}'],
      ]
    ),
  ]),
  p.line(8, [
    p.lines(
      'Age-of-Model',
      "Time since the newest update was generated that a job's server has answered.",
      's',
      8,
      [
        ['pascaline_job_model_age_seconds{}', 'job {{job_id}}'],
      ]
    ),
    p.lines(
      'Answers',
      'Answers of servers to updates, and what went out to workers.',
      'ops',
      8,
      [
        ['rate(pascaline_job_answers_total{}[])', 'job {{job_id}}'],
        ['sum by (instance) (rate(pascaline_acks_sent_packets_total{}[]))', '{{instance}}: to workers'],
      ]
    ),
    p.lines(
      'What updates stood for',
      'Contributions in the updates that a queue accepted, by their fate.',
      'ops',
      8,
      [
        ['sum by (fate) (rate(pascaline_olaf_contributions_total{}[]))', '{{fate}}'],
      ]
    ),
  ]),
])
