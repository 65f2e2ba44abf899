// The page from top to bottom: verdicts, what was played, jobs, targets, forwarders, what is not known.

function top(data) {
  const about = data.about || {};
  const looked = (data.judgement || {}).looked_at || {};
  const seen = looked.seconds ? `Judged from ${plural(looked.requests || 0, "request")} of ${plural(looked.jobs || 0, "job")} at ${plural(looked.forwarders || 0, "forwarder")} and ${plural(looked.targets || 0, "target")} over ${formatDuration(looked.seconds)}.` : "";
  return h("header", { class: "top" }, h("div", null, h("h1", null, data.headline || "fairlead"), h("p", null, about.lead ? `${about.lead} ` : "", seen)));
}

function verdictSection(data, origin) {
  const judgement = data.judgement || {};
  const found = judgement.verdicts || [];
  return section("change", found.length ? "Who was to blame" : "Why nobody", found.length ? "Each from the records alone: what shows it, what it cost, what to do." : null,
    found.length ? h("ol", { class: "verdicts" }, found.map((one) => verdictItem(one, origin))) : h("p", { class: "innocent" }, judgement.nobody || ""),
    data.played ? h("div", { class: "played" }, h("b", null, "What had been injected"), h("span", null, data.played)) : null);
}

function verdictItem(one, origin) {
  const costs = Object.keys(one.lost_s || {}).filter((job) => job).map((job) => {
    const cost = (one.cost_s || {})[job];
    return h("li", null, `Job ${job}: its requests ${one.kind === "disturber" ? "waited" : "took"} ${formatDuration(one.lost_s[job])} longer altogether`, known(cost) ? `, about ${formatDuration(cost)} of its run.` : ".");
  });
  const when = known(origin) ? `${formatDuration((one.from_ns - origin) / 1e9)} – ${formatDuration((one.to_ns - origin) / 1e9)}` : "";
  return h("li", null,
    h("h3", null, one.title, h("small", { class: "faint" }, `${when}, confidence ${formatPercent(one.confidence)}`)),
    h("div", null, h("h4", null, "Evidence"), h("ul", null, one.evidence.map((text) => h("li", null, text)))),
    h("div", null, costs.length ? [h("h4", null, "What it cost"), h("ul", null, costs)] : null,
      h("h4", null, "What to do"), h("ul", null, one.advice.map((text) => h("li", null, text)))));
}

function jobSection(path, data, slow) {
  const charts = data.charts;
  const job = charts.jobs.find((one) => one.id === path.job_id) || {};
  const saw = (data.saw || {})[path.job_id];
  const spans = charts.spans.filter((one) => one.victims.includes(path.job_id));
  const missing = path.missing || [];
  return section(`job-${path.job_id}`, `Job ${path.job_id}${path.name ? `: ${path.name}` : ""}`, saw && saw.about ? saw.about : null,
    charts.count ? jobLanes(job, charts, path, spans) : null,
    h("h3", null, "The same job, layer by layer"), layerTable(path, saw, slow),
    saw && saw.differences ? saw.differences.map((text) => h("p", { class: "note" }, text)) : null,
    h("p", { class: "note" }, "Waits and busy times are sums over requests; those of several processes overlap. A request of the application can become several at the targets (stripes)."),
    missing.map((one) => h("p", { class: "unknown" }, h("b", null, one.what), ` is not known: ${one.why}.`, one.remedy ? h("span", { class: "remedy" }, one.remedy) : null)));
}

function methodPart(data) {
  const rows = [
    ["A slow target", "Its time per byte and per request, against the median of its peers for the same job in the same second, over several seconds and with enough requests. Where all are slow alike, none is accused."],
    ["A disturbing job", "The waits of another job at the forwarder they share, in seconds when its load was high against seconds when it was low; its own demand must have grown. Seconds with a slow target are compared among themselves."],
    ["Time lost", "Beyond what the peers took, or beyond the usual wait; divided by the job's processes where their number is known."],
    ["Times", "Quantiles and sums come from histograms, so they are as fine as the bins."],
    ["This page", "is complete: it fetches nothing and sends nothing."],
  ];
  return section("method", "How it was judged", null, h("dl", { class: "method" }, rows.map(([name, text]) => [h("dt", null, name), h("dd", null, text)])));
}

function build(data) {
  const charts = data.charts || { jobs: [], targets: [], forwarders: [], spans: [], count: 0 };
  data.charts = charts;
  const slow = new Set((charts.spans || []).filter((one) => one.kind === "slow_target").map((one) => one.culprit));
  const paths = data.paths || [];
  const order = paths.map((path) => path.job_id);
  const missing = data.missing || [];
  const parts = [
    verdictSection(data, charts.start_ns),
    charts.targets.length ? section("targets", "Targets side by side", "Shaded: seconds in which one was found slow.", targetChart(charts, slow)) : null,
    charts.forwarders.length ? section("forwarders", "Forwarders: who kept them busy, who waited", "Shaded: seconds in which a job made others wait.", charts.forwarders.map((one) => forwarderCharts(charts, one, order))) : null,
    ...paths.map((path) => jobSection(path, data, slow)),
    missing.length ? section("unknown", "What cannot be known", null, h("ul", { class: "missing" }, missing.map((one) => h("li", null, h("b", null, one.what), h("p", null, one.why), one.remedy ? h("p", { class: "remedy" }, one.remedy) : null)))) : null,
    methodPart(data),
  ].filter(Boolean);
  const names = [["change", "verdict"], ["targets", "targets"], ["forwarders", "forwarders"], ...order.map((job) => [`job-${job}`, `job ${job}`]), ["method", "how"]].filter(([id]) => parts.some((part) => part.id === id));
  replace(document.getElementById("report"), top(data), h("nav", { "aria-label": "Contents" }, names.map(([id, text]) => h("a", { href: `#${id}` }, text))), parts);
}

build(JSON.parse(document.getElementById("data").textContent));
