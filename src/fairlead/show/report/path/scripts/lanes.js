// A job's lanes: what the application asked for, how it waited and was served at the forwarder, what the targets did.

function lane(name, about, caption, drawing) {
  return h("div", { class: "lane" }, h("div", null, h("b", null, name), h("small", null, about)),
    h("figure", null, h("figcaption", null, caption), drawing));
}

function perSecond(values, time) {
  return values ? values.map((value) => value / time.window_s) : null;
}

function bandwidthLane(name, about, caption, kind, values, top, shared) {
  const rate = perSecond(values, shared.time);
  return lane(name, about, caption, chart({
    label: `${name}: ${caption}`, height: 74, top, tick: formatBandwidth, time: shared.time, spans: shared.spans,
    paint: (area) => stacked(area, [[kind, rate, null]]),
    describe: (index) => [moment(shared.time, index), [kind, name, formatBandwidth(rate[index])]],
  }));
}

function jobLanes(job, charts, path, spans) {
  const time = { window_s: charts.window_s, count: charts.count };
  const shared = { time, spans };
  const bandwidths = [job.client_bytes, job.forwarder_bytes, job.target_bytes].map((values) => perSecond(values, time));
  const top = largest(...bandwidths);
  const client = path.client;
  const out = [];
  if (job.client_bytes) out.push(bandwidthLane("Client", client ? `${plural(client.nodes.length || 1, "node")}${client.processes ? `, ${plural(client.processes, "process", "processes")}` : ""}` : "", "bytes the application read and wrote", "client", job.client_bytes, top, shared));
  const names = path.forwarders.map((one) => one.name).join(", ");
  if (job.forwarder_bytes && largest(job.forwarder_bytes) > 0) out.push(bandwidthLane("Forwarder", names, "bytes passed on", "forwarder", job.forwarder_bytes, top, shared));
  if (job.wait_s || job.service_s) out.push(waitLane(names, job, shared));
  if (job.target_bytes) out.push(bandwidthLane("Targets", path.targets.map((one) => one.name).join(", "), "bytes the targets took and gave", "target", job.target_bytes, top, shared));
  return out;
}

function waitLane(names, job, shared) {
  const { time, spans } = shared;
  const sums = (job.service_s || []).map((value, index) => (value || 0) + ((job.wait_s || [])[index] || 0));
  return lane("Forwarder", names, "a request, on average: wait in the queue and service after it", chart({
    label: "Mean wait and service of a request", height: 92, top: largest([1e-3], sums), tick: formatDuration, time, spans,
    paint: (area) => stacked(area, [["service", job.service_s, null], ["wait", job.wait_s, null]]),
    describe: (index) => [moment(time, index), ["wait", "wait", formatDuration((job.wait_s || [])[index])],
      ["service", "service", formatDuration((job.service_s || [])[index])],
      [null, "metadata operations", formatCount((job.metadata || [])[index])]],
  }));
}

function layerTable(path, saw, slow) {
  const rows = [];
  const add = (name, requests, bytes, wait, service, extra, worst) => rows.push(h("tr", null, h("th", { scope: "row" }, name), h("td", null, formatCount(requests)), h("td", null, formatBytes(bytes)), h("td", null, wait), h("td", null, service), h("td", { class: worst ? "worst" : null }, extra)));
  if (saw) add("application itself", saw.operations, (saw.bytes_read || 0) + (saw.bytes_written || 0), ABSENT, formatDuration(saw.io_s), known(saw.longest_s) ? `longest operation ${formatDuration(saw.longest_s)}` : "its own clock");
  const client = path.client;
  if (client) add(`client (${client.nodes.join(", ") || "?"})`, client.operations, client.bytes_read + client.bytes_written, ABSENT, formatDuration(client.busy_s), `${formatCount(client.metadata)} metadata`);
  for (const one of path.forwarders) {
    add(`forwarder ${one.name}`, one.requests, one.bytes, formatDuration(one.wait_s), formatDuration(one.service_s), known(one.worst_wait_p90_s) ? `worst second: 90 % waited under ${formatDuration(one.worst_wait_p90_s)}` : `${formatCount(one.metadata)} metadata`);
  }
  for (const one of path.targets) add(`target ${one.name}`, one.requests, one.bytes, ABSENT, formatDuration(one.service_s), known(one.per_mib_s) ? `${formatDuration(one.per_mib_s)} a MiB` : known(one.per_request_s) ? `${formatDuration(one.per_request_s)} a request` : "", slow.has(one.name));
  return h("div", { class: "scroll" }, h("table", { class: "layers" },
    h("thead", null, h("tr", null, ["layer", "requests", "bytes", "waited", "busy", ""].map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", null, rows)));
}

function targetChart(charts, slow) {
  const time = { window_s: charts.window_s, count: charts.count };
  const tints = charts.targets.map((one, index) => (slow.has(one.name) ? "var(--slow)" : `var(--job-${[0, 2, 3, 5][index % 4]})`));
  const kinds = charts.targets.map((one, index) => (slow.has(one.name) ? "slow" : `job-${[0, 2, 3, 5][index % 4]}`));
  return h("figure", null, h("figcaption", null, "device time of one MiB at each target, all jobs together"), chart({
    label: "Device time of one MiB by target", height: 190, top: largest(...charts.targets.map((one) => one.per_mib_s)), tick: formatDuration, time,
    spans: charts.spans.filter((one) => one.kind === "slow_target"),
    paint: (area) => charts.targets.map((one, index) => line(area, one.per_mib_s, tints[index], slow.has(one.name) ? 2.6 : null)),
    describe: (index) => [moment(time, index), ...charts.targets.map((one, at) => [kinds[at], one.name, `${formatDuration(one.per_mib_s[index])} a MiB, ${formatBandwidth(one.bytes[index] / time.window_s)}`])],
  }), legend(...charts.targets.map((one, index) => [kinds[index], `${one.name}${slow.has(one.name) ? " (slow)" : ""}`])));
}

function forwarderCharts(charts, forwarder, order) {
  const time = { window_s: charts.window_s, count: charts.count };
  const jobs = Object.keys(forwarder.workers).filter((job) => job).sort((a, b) => order.indexOf(a) - order.indexOf(b));
  const tint = (job) => `var(--job-${Math.max(0, order.indexOf(job)) % 6})`;
  const kind = (job) => `job-${Math.max(0, order.indexOf(job)) % 6}`;
  const sums = Array.from({ length: time.count }, (_, index) => jobs.reduce((sum, job) => sum + (forwarder.workers[job][index] || 0), 0));
  const spans = charts.spans.filter((one) => one.kind === "disturber" && one.where.includes(forwarder.name));
  return [h("h3", null, `Forwarder ${forwarder.name}`),
    h("figure", null, h("figcaption", null, "workers kept busy, by job"), chart({
      label: `Workers busy at ${forwarder.name}`, height: 110, top: largest(sums), tick: (value) => fixed(value, 1), time, spans,
      paint: (area) => stacked(area, jobs.map((job) => ["", forwarder.workers[job], tint(job)])),
      describe: (index) => [moment(time, index), ...jobs.map((job) => [kind(job), `job ${job}`, `${fixed(forwarder.workers[job][index] || 0, 1)} workers`])],
    })),
    h("figure", null, h("figcaption", null, "wait in the queue that nine of ten requests stayed under, by job"), chart({
      label: `Waits at ${forwarder.name}`, height: 130, top: largest([1e-3], ...jobs.map((job) => forwarder.wait_p90_s[job])), tick: formatDuration, time, spans,
      paint: (area) => jobs.map((job) => line(area, forwarder.wait_p90_s[job], tint(job))),
      describe: (index) => [moment(time, index), ...jobs.map((job) => [kind(job), `job ${job}`, formatDuration(forwarder.wait_p90_s[job][index])])],
    })), legend(...jobs.map((job) => [kind(job), `job ${job}`]))];
}
