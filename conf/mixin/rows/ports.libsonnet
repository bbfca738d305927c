local p = import '../panels.libsonnet';

p.row('Ports', [
  p.line(7, [
    p.lines(
      'Received',
      'As the device counts.',
      'pps',
      8,
      [
        ['sum by (instance, port) (rate(pascaline_port_received_packets_total{}[]))', '{{instance}} {{port}}'],
      ]
    ),
    p.lines(
      'Sent',
      'As the device counts.',
      'pps',
      8,
      [
        ['sum by (instance, port) (rate(pascaline_port_sent_packets_total{}[]))', '{{instance}} {{port}}'],
      ]
    ),
    p.shares(
      'Link',
      '1: up.',
      'none',
      8,
      [
        ['pascaline_port_up{}', '{{instance}} {{port}}'],
      ]
    ),
  ]),
])
