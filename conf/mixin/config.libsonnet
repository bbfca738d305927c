// What a site may want to change. Override it in a file of your own:
//
//   (import 'mixin.libsonnet') + { _config+:: { runbookUrl: 'https://wiki.example.net/pascaline/%s' } }
{
  _config+:: {
    // The scrape job of the appliances in Prometheus' own configuration: `job_name`.
    selector: 'job="pascaline"',
    // Where the page of an alert is, whose name replaces %s. The package installs the pages on each appliance; to read them
    // in a browser, serve docs/runbooks and name the server here.
    runbookUrl: 'file:///usr/share/doc/pascaline/runbooks/%s.md',

    dashboard: {
      uid: 'pascaline',
      title: 'Pascaline',
      tags: ['pascaline'],
      refresh: '10s',
      from: 'now-30m',
    },

    // What the appliances promise. `served_in_time`: a packet has been dealt with `withinSeconds` after its reception, which
    // is a bound of the buckets of pascaline_packet_service_seconds. `not_lost`: no packet is lost between the device and the
    // sum, or the sum and the device.
    slo: {
      objective: 0.999,
      withinSeconds: 0.01,
      // Burn rates, in multiples of that which uses up a month's budget in a month: 14.4 uses 2 % in an hour, 6 uses 5 % in
      // six hours.
      fast: 14.4,
      slow: 6,
    },

    // Limits of the alerts: an alert fires beyond its limit.
    portLoss: 0.001,  // share of a port's packets lost to a full receive ring
    buffersInUse: 0.9,  // share of a pool's packet buffers
    transmitLoss: 0.001,  // share of the sent packets that find the transmit queue full
    poolFull: 0.9,  // share of the slots that hold partials
    conflicts: 0.05,  // share of the packets that find no slot
    displacedPerSecond: 1,  // partials
    restarts: 5,  // generations of a job in ten minutes
    aggregated: 0.5,  // share of a job's bytes that is to be aggregated here
    strangersPerSecond: 1,  // packets rejected for one reason
    malformedPerSecond: 0.1,  // packets of one kind of damage
    busy: 0.95,  // share of its time that an lcore spends on packets
    straggler: 0.9,  // share of the sums that wait for the same rank
    slowestPercentSeconds: 0.01,  // service time of the slowest 1 % of the packets
  },
}
