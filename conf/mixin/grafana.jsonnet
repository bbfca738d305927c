// The dashboard that is installed: jsonnet -m conf/grafana/dashboards conf/mixin/grafana.jsonnet
(import 'mixin.libsonnet').grafanaDashboards
