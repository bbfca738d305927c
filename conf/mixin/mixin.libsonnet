// The mixin: prometheusAlerts, prometheusRules and grafanaDashboards, made from _config.
(import 'config.libsonnet')
+ (import 'rules.libsonnet')
+ (import 'alerts.libsonnet')
+ (import 'dashboard.libsonnet')
