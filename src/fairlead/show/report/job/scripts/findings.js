// What was found: the few things to change first, and every finding with its evidence and advice.

const SEVERITY_WORDS = { critical: "critical", high: "high", warning: "warning", info: "note", ok: "good" };
const URGENT = ["critical", "high", "warning"];
const AUDIENCES = { user: "for you", developer: "for the developer", site: "for the site" };
const LANGUAGES = { c: "C", cpp: "C++", fortran: "Fortran", python: "Python", sh: "shell", bash: "shell", shell: "shell" };
const COUNT_WORDS = ["Nothing", "The one thing", "The two things", "The three things"];

function toChange(verdict) {
  return (verdict.findings || []).filter((finding) => URGENT.includes(finding.severity) && (finding.advice || []).length);
}

function costText(finding, runTime) {
  if (!(finding.cost_s > 0)) return null;
  return `≈ ${formatDuration(finding.cost_s)}${known(runTime) && runTime > 0 ? ` of ${formatDuration(runTime)}` : ""}`;
}

function costMark(finding, runTime) {
  const text = costText(finding, runTime);
  if (!text) return h("p", { class: "cost unknown-cost" }, finding.cost_s === 0 ? "costs no measurable time" : "cost cannot be told from this trace");
  const share = known(runTime) && runTime > 0 ? Math.min(1, finding.cost_s / runTime) : null;
  return h("p", { class: "cost", title: finding.cost_basis }, "costs ", h("b", null, text),
    share === null ? null : h("span", { class: "track", "aria-hidden": "true" }, h("i", { css: { width: `${share * 100}%` } })));
}

function codeOf(advice) {
  return advice.code ? codeBlock(visible(advice.code), LANGUAGES[advice.language] || advice.language) : null;
}

function adviceBlock(advice) {
  return h("div", { class: "advice" }, h("p", null, advice.text, " ", AUDIENCES[advice.audience] ? h("span", { class: "tag" }, AUDIENCES[advice.audience]) : null),
    codeOf(advice));
}

function changeSection(verdict) {
  const urgent = toChange(verdict).slice(0, 3);
  const runTime = (verdict.job || {}).run_time_s;
  const section = h("section", { id: "change", "aria-labelledby": "change-title", class: "part" });
  if (!urgent.length) {
    const judged = Boolean(verdict.grade) || idle(verdict);
    return fill(section, null, [h("h2", { id: "change-title" }, judged ? "Nothing to change" : "No advice"),
      h("p", { class: judged ? "calm" : "unknown" }, idle(verdict) ? "There is no I/O here to improve." : judged ? "No finding of this job asks for a change." : (verdict.grade_reason || "The trace holds too little to judge the I/O of this job."))]);
  }
  const cards = urgent.map((finding) => {
    const [first, ...others] = [...finding.advice].sort((a, b) => Boolean(b.code) - Boolean(a.code));
    const more = others.length ? ` and ${others.length === 1 ? "another way" : `${others.length} other ways`}` : "";
    return h("li", { class: finding.severity }, h("div", { class: "what" }, h("h3", null, finding.title), costMark(finding, runTime), h("p", { class: "how" }, first.text),
      h("p", null, h("button", { type: "button", class: "link", onclick: () => jump(`finding-${finding.id}`) }, `The evidence${more}`))),
    codeOf(first));
  });
  return fill(section, null, [h("h2", { id: "change-title" }, `${COUNT_WORDS[urgent.length]} to change`), h("ol", { class: "changes" }, cards)]);
}

function evidenceLine(evidence) {
  const files = evidence.files || [];
  const ranks = evidence.ranks || [];
  const links = [
    files.length ? h("button", { type: "button", class: "link", onclick() {
      focus.set({ files: new Set(files) });
      jump("files");
    } }, `show ${plural(files.length, "file")}`) : null,
    ranks.length ? h("button", { type: "button", class: "link", onclick() {
      focus.set({ ranks: new Set(ranks) });
      jump(document.getElementById("timeline") ? "timeline" : "ranks");
    } }, `show ${ranks.length === 1 ? "rank" : "ranks"} ${formatRanks(ranks, 4)}`) : null,
  ];
  return h("li", null, evidence.text, links.map((link) => link && [" ", link]));
}

function findingDetails(finding, verdict, view, origin) {
  const runTime = (verdict.job || {}).run_time_s;
  const cost = costText(finding, runTime);
  const placed = view && known(finding.from_ns) && known(finding.to_ns) && finding.to_ns > finding.from_ns && known(origin);
  const show = () => {
    zoomTo(view, (finding.from_ns - origin) / 1e9, (finding.to_ns - origin) / 1e9);
    jump("time");
  };
  const subject = finding.subject && finding.subject.kind !== "job" ? `${finding.subject.kind} ${visibleLine(finding.subject.id)}` : null;
  return h("details", { id: `finding-${finding.id}`, class: `finding ${finding.severity}` },
    h("summary", null, h("span", { class: `severity ${finding.severity}` }, SEVERITY_WORDS[finding.severity] || finding.severity), h("span", { class: "title" }, finding.title), cost ? h("b", null, cost) : null),
    h("div", { class: "inside" },
      subject ? h("p", { class: "note" }, `About ${subject}.`) : null,
      (finding.evidence || []).length ? [h("h4", null, "Evidence"), h("ul", null, finding.evidence.map(evidenceLine))] : null,
      (finding.advice || []).length ? [h("h4", null, "What to do"), finding.advice.map(adviceBlock)] : null,
      (finding.culprits || []).length ? h("p", null, h("b", null, "Caused by: "), finding.culprits.map((one) => visibleLine(`${one.kind} ${one.id}`)).join(", ")) : null,
      h("p", { class: "note" }, [finding.cost_basis ? `Cost: ${finding.cost_basis}. ` : "", known(finding.confidence) ? `Confidence ${formatPercent(finding.confidence)}. ` : "",
        (finding.missing || []).length ? `Surer with: ${finding.missing.join("; ")}. ` : "", `Rule ${finding.rule}.`].join("")),
      placed ? h("p", null, h("button", { type: "button", class: "link", onclick: show }, "show when it happened")) : null));
}

function findingsSection(verdict, view, origin) {
  const findings = verdict.findings || [];
  const urgent = findings.filter((finding) => URGENT.includes(finding.severity));
  const costed = urgent.some((finding) => known(finding.cost_s));
  const lead = findings.length ? `${plural(urgent.length, "problem")} and ${plural(findings.length - urgent.length, "note")}${costed ? ", the costliest first" : ""}. Open one for its evidence and advice.` : null;
  return section("findings", "All findings", lead, findings.length
    ? h("div", { class: "findings" }, findings.map((finding) => findingDetails(finding, verdict, view, origin)))
    : h("p", { class: "calm" }, "No rule had anything to say about this job."));
}
