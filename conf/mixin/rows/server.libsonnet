local p = import '../panels.libsonnet';

p.row('Parameter server', [
  p.line(7, [
    p.lines(
      'Given to the server',
      'Contributions that found no slot, partials that lost theirs, packets handed over.',
      'pps',
      8,
      [
        ['sum by (instance) (rate(pascaline_contributions_spilled_total{}[]))', '{{instance}} contributions spilled'],
        ['sum by (instance) (rate(pascaline_partials_evicted_total{}[]))', '{{instance}} partials evicted'],
        ['sum by (instance) (rate(pascaline_server_sent_packets_total{}[]))', '{{instance}} packets sent'],
      ]
    ),
    p.lines(
      'Results',
      'Made by the server; sent out incomplete because their time was up or a rank asked.',
      'ops',
      8,
      [
        ['sum by (instance) (rate(pascaline_server_results_total{}[]))', '{{instance}} made by the server'],
        ['sum by (instance) (rate(pascaline_results_released_total{}[]))', '{{instance}} sent out incomplete'],
      ]
    ),
    p.lines(
      'Preemptions',
      'Partials that lost their slot to another PSN before their time.',
      'ops',
      8,
      [
        ['sum by (instance) (rate(pascaline_preemptions_total{}[]))', '{{instance}}'],
      ]
    ),
  ]),
])
