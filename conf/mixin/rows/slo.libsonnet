local p = import '../panels.libsonnet';

function(config)
  local slo = config.slo { objectivePercent: 100 * config.slo.objective, budget: 1 - config.slo.objective };
  local errors = 'instance_slo:pascaline_slo_errors_per_packets:ratio_rate%s{}';
  p.row('Objectives', [
    p.line(7, [
      p.stat(
        'Error budget left',
        'Of the time shown, the lowest of all appliances and objectives: 1 with no packet that missed an objective of '
        + '%(objectivePercent)g %%, 0 with as many as it allows, below that with more.' % slo,
        'percentunit',
        6,
        'min(1 - avg_over_time(%s[$__range]) / %g)' % [errors % '5m', slo.budget],
        [['red', null], ['orange', 0], ['green', 0.25]]
      ),
      p.lines(
        'Burn rate',
        "How fast the budget is used: 1 uses up a month's in a month. Alerts: above %(fast)g in an hour, above %(slow)g "
        % slo + 'in six hours.',
        'none',
        9,
        [
          ['%s / %g' % [errors % '1h', slo.budget], '{{instance}} {{slo}}, 1 h'],
          ['%s / %g' % [errors % '6h', slo.budget], '{{instance}} {{slo}}, 6 h'],
        ]
      ),
      p.lines(
        'Packets that missed an objective',
        'served_in_time: dealt with later than %(withinSeconds)g s after reception. not_lost: lost at a port, or not sent '
        % slo + 'for lack of a buffer or of room.',
        'percentunit',
        9,
        [[errors % '5m', '{{instance}} {{slo}}']]
      ),
    ]),
  ])
