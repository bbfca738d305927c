// Panels and their places. In expressions {} stands for the appliances shown, and [] for the interval of a rate.
local source = { type: 'prometheus', uid: '${datasource}' };

local expand(expr) = std.foldl(
  function(text, pair) std.strReplace(text, pair[0], pair[1]),
  [
    ['{}', '{instance=~"$instance"}'],
    ['{,', '{instance=~"$instance",'],
    ['[]', '[$__rate_interval]'],
  ],
  expr
);

local target(place, expr, legend) = {
  refId: std.char(std.codepoint('A') + place),
  datasource: source,
  expr: expand(expr),
  legendFormat: legend,
  range: true,
};

local panel(type, title, description, unit, width, targets) = {
  type: type,
  title: title,
  description: description,
  datasource: source,
  targets: targets,
  fieldConfig: { defaults: { unit: unit }, overrides: [] },
  gridPos: { w: width },
};

local lines(title, description, unit, width, asked) =
  local targets = [target(at, asked[at][0], asked[at][1]) for at in std.range(0, std.length(asked) - 1)];
  panel('timeseries', title, description, unit, width, targets) {
    fieldConfig+: {
      defaults+: { min: 0, custom: { lineWidth: 1, fillOpacity: 8, showPoints: 'never' } },
    },
    options: {
      legend: { displayMode: 'list', placement: 'bottom' },
      tooltip: { mode: 'multi', sort: 'desc' },
    },
  };

{
  source: source,

  // A number. Steps: [colour, from], the first one from anywhere.
  stat(title, description, unit, width, expr, steps=[])::
    panel('stat', title, description, unit, width, [target(0, expr, '')]) {
      fieldConfig+: {
        defaults+: if steps == [] then {} else {
          thresholds: { mode: 'absolute', steps: [{ color: step[0], value: step[1] } for step in steps] },
        },
      },
      options: {
        reduceOptions: { calcs: ['lastNotNull'] },
        graphMode: 'area',
        colorMode: if steps == [] then 'none' else 'value',
      },
    },

  // Lines: [expression, legend] each.
  lines:: lines,

  // Areas, one on the other.
  areas(title, description, unit, width, asked)::
    lines(title, description, unit, width, asked) {
      fieldConfig+: { defaults+: { custom+: { fillOpacity: 20, stacking: { mode: 'normal' } } } },
    },

  // Lines between 0 and 1.
  shares(title, description, unit, width, asked)::
    lines(title, description, unit, width, asked) { fieldConfig+: { defaults+: { max: 1 } } },

  // Added to lines: Grafana shows the exemplars of their histogram.
  exemplars:: { targets: [one { exemplar: true } for one in super.targets] },

  // Values now, the highest first.
  table(title, description, unit, width, expr)::
    panel('table', title, description, unit, width, [
      target(0, expr, '') { format: 'table', instant: true, range: false },
    ]) {
      options: { sortBy: [{ displayName: 'Value', desc: true }] },
      transformations: [{ id: 'organize', options: { excludeByName: { Time: true } } }],
    },

  // Panels of one height side by side.
  line(height, panels):: {
    height: height,
    panels: [
      panels[at] {
        gridPos+: { h: height, x: std.foldl(function(x, one) x + one.gridPos.w, panels[:at], 0) },
      }
      for at in std.range(0, std.length(panels) - 1)
    ],
  },

  // A heading with lines of panels below it.
  row(title, lines):: { title: title, lines: lines },

  // All panels with numbers and places.
  place(rows)::
    local heading(title) = {
      height: 1,
      panels: [{ type: 'row', title: title, collapsed: false, panels: [], gridPos: { h: 1, w: 24, x: 0 } }],
    };
    local all = std.flattenArrays([[heading(row.title)] + row.lines for row in rows]);
    local y(at) = std.foldl(function(y, line) y + line.height, all[:at], 0);
    local placed = [
      panel { gridPos+: { y: y(at) } }
      for at in std.range(0, std.length(all) - 1)
      for panel in all[at].panels
    ];
    [placed[at] { id: at + 1 } for at in std.range(0, std.length(placed) - 1)],
}
