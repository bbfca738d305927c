// The rules that are installed: jsonnet -S -m conf/prometheus conf/mixin/prometheus.jsonnet
local mixin = import 'mixin.libsonnet';

local made = '# Made from conf/mixin: change that. Check: promtool check rules rules.yml\n';
local rules = { groups: mixin.prometheusRules.groups + mixin.prometheusAlerts.groups };

{
  'rules.yml': made + std.manifestYamlDoc(rules, indent_array_in_object=true) + '\n',
}
