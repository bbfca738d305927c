// The dashboard: a row for each file of rows/.
local p = import 'panels.libsonnet';

{
  local config = $._config,
  local rows = [
    (import 'rows/overview.libsonnet')(config),
    (import 'rows/slo.libsonnet')(config),
    import 'rows/jobs.libsonnet',
    import 'rows/pool.libsonnet',
    import 'rows/server.libsonnet',
    import 'rows/olaf.libsonnet',
    import 'rows/drops.libsonnet',
    import 'rows/ports.libsonnet',
    import 'rows/lcores.libsonnet',
  ],

  grafanaDashboards+:: {
    'pascaline.json': {
      uid: config.dashboard.uid,
      title: config.dashboard.title,
      tags: config.dashboard.tags,
      timezone: 'browser',
      editable: true,
      graphTooltip: 1,
      schemaVersion: 38,
      version: 1,
      refresh: config.dashboard.refresh,
      time: { from: config.dashboard.from, to: 'now' },
      templating: {
        list: [
          { name: 'datasource', label: 'Prometheus', type: 'datasource', query: 'prometheus', refresh: 1 },
          {
            name: 'instance',
            label: 'Appliance',
            type: 'query',
            datasource: p.source,
            query: { query: 'label_values(pascaline_received_packets_total, instance)', refId: 'instance' },
            refresh: 2,
            includeAll: true,
            multi: true,
            allValue: '.+',
            current: { text: 'All', value: '$__all' },
          },
        ],
      },
      annotations: {
        list: [{
          name: 'Generations',
          datasource: p.source,
          enable: false,
          expr: 'changes(pascaline_job_epoch{instance=~"$instance"}[1m]) > 0',
          titleFormat: 'job {{job_id}}: next generation',
          iconColor: 'orange',
        }],
      },
      panels: p.place(rows),
    },
  },
}
