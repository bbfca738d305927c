local p = import '../panels.libsonnet';

p.row('Drops', [
  p.line(9, [
    p.areas(
      'Drops by reason',
      'The ten most frequent. Duplicates are retransmissions that were not needed.',
      'pps',
      16,
      [
        ['topk(10, sum by (reason) (rate(pascaline_dropped_packets_total{}[])))', '{{reason}}'],
      ]
    ),
    p.table(
      'Drops in the time shown',
      'By reason, the twenty most frequent.',
      'short',
      8,
      'topk(20, sum by (reason) (increase(pascaline_dropped_packets_total{}[$__range])))'
    ),
  ]),
  p.line(7, [
    p.lines(
      'Lost before the lcores',
      "The device's receive ring was full, or no buffer was free. Not part of the account of received packets.",
      'pps',
      12,
      [
        ['sum by (instance, port) (rate(pascaline_port_missed_packets_total{}[]))', '{{instance}} {{port}} missed'],
        ['sum by (instance, port) (rate(pascaline_port_no_buffer_total{}[]))', '{{instance}} {{port}} no buffer'],
        ['sum by (instance, port) (rate(pascaline_port_receive_errors_total{}[]))', '{{instance}} {{port}} errors'],
      ]
    ),
    p.lines(
      'Not sent',
      'Own packets: the transmit queue was full, no buffer was free, the device failed.',
      'pps',
      12,
      [
        ['sum by (instance) (rate(pascaline_tx_dropped_packets_total{}[]))', '{{instance}} queue full'],
        ['sum by (instance) (rate(pascaline_no_buffer_total{}[]))', '{{instance}} no buffer'],
        ['sum by (instance, port) (rate(pascaline_port_send_errors_total{}[]))', '{{instance}} {{port}} errors'],
      ]
    ),
  ]),
])
