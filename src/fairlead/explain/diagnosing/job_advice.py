"""Advice on findings about jobs, with what the lake's earlier runs promise of a change: the owner's own where there are
enough. Depends on runs that were over when the job's I/O began, so that it is the same whenever it is asked.

Not here: which advice (`analysis.advice`), what a gain is (`analysis.gains`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.finding import Advice
from fairlead.core.model.tables import PHASE, build_table_batch
from fairlead.explain.analysis.advice import FACTS, AdviceSet, Gain, build_advice, select_advice
from fairlead.explain.analysis.gains import estimate_gains, estimate_usual_gain
from fairlead.explain.diagnosing.serving_components import Tables
from fairlead.explain.questions.past_phases import History

_CULPRIT = """
SELECT "user", program, nodes_count FROM jobs WHERE job_id = $job AND start_ns <= $at
ORDER BY start_ns DESC LIMIT 1
"""


class Advising:
    """What `analysis.job_findings` asks for advice. `phases`: those of the jobs that are looked at, which the lake need
    not hold yet; `history`: what they are compared with. A call raises LakeError when the lake cannot be read."""

    def __init__(self, lake: Tables, phases: pa.Table, history: History, advice: AdviceSet) -> None:
        self._lake = lake
        self._phases = phases
        self._history = history
        self._advice = advice

    def __call__(self, rule: str, verdict: str, facts: Mapping[str, object], layer: str | None) -> list[Advice]:
        """What to do about a finding of `rule` and `verdict`."""
        wanted = {one.gain for one in select_advice(self._advice, rule, verdict, layer) if one.gain}
        known = {name: value for name, value in facts.items() if name in FACTS}
        gains = self._gains(rule, verdict, facts, wanted) if wanted else []
        return build_advice(self._advice, rule, verdict, known, layer=layer, gains=gains)

    def _gains(self, rule: str, verdict: str, facts: Mapping[str, object], wanted: set[str]) -> list[Gain]:
        mine = self._phases.filter(pc.equal(self._phases["job_id"], str(facts.get("job"))))
        if not mine.num_rows:
            return []
        worst = max(mine.to_pylist(), key=lambda row: (row["lost_s"] or 0.0, row["active_ns"], row["start_ns"]))
        at_ns = int(worst["start_ns"])
        found: list[Gain] = []
        if "quiet" in wanted:
            own = estimate_usual_gain(self._before(self._history, mine, at_ns), worst)
            found += [own] if own is not None else []
        if rule == "job.interference":
            found += self._culprits(verdict, facts, worst, at_ns, wanted)
        elif wanted - {"quiet"}:
            found += estimate_gains(self._before(self._history, mine, at_ns), worst, wanted)
        return found

    def _culprits(
        self, verdict: str, facts: Mapping[str, object], victim: Mapping[str, Any], at_ns: int, wanted: set[str]
    ) -> list[Gain]:
        """What the culprit's owner would gain: of its job only what was known when the victim's phase began."""
        name = facts.get("culprit")
        if not name or not wanted & {"mode", "request_size"}:
            return []
        rows = self._lake.query(_CULPRIT, {"job": str(name), "at": int(victim["end_ns"])}).to_pylist()
        if not rows or not rows[0]["program"]:
            return []
        job = rows[0]
        row: dict[str, Any] = {
            "cluster": victim["cluster"],
            "kind": "write",
            "user": job["user"],
            "program": job["program"],
            "nodes_count": job["nodes_count"],
            "mode": "N-1" if verdict == "n_to_1" else None,
            "request_bytes": facts.get("request_bytes"),
        }
        asked = build_table_batch(
            PHASE,
            {
                "job_id": [str(name)],
                "number": [0],
                "kind": ["write"],
                "start_ns": [at_ns],
                "end_ns": [at_ns],
                "active_ns": [0],
                "user": [job["user"]],
                "program": [job["program"]],
                "made_ns": [0],
                "analysis_version": [0],
                "cluster": [victim["cluster"]],
            },
        )
        like = pa.Table.from_batches([asked])
        beside = pc.fill_null(
            pc.or_kleene(
                pc.equal(self._phases["program"], job["program"]), pc.equal(self._phases["user"], job["user"] or "")
            ),
            False,
        )
        others = pc.and_(beside, pc.not_equal(self._phases["job_id"], str(name)))
        both = pa.concat_tables([like, self._phases.filter(others)]).unify_dictionaries()
        return estimate_gains(self._before(History(self._lake, both), like, at_ns), row, wanted)

    def _before(self, history: History, like: pa.Table, at_ns: int) -> pa.Table:
        """Phases of the users and programs of `like` that were over at `at_ns`, none of a job of `like`."""
        found = history.select_before(like)
        own = pc.is_in(found["job_id"], value_set=pc.unique(like["job_id"]))
        return found.filter(pc.and_(pc.less_equal(found["end_ns"], at_ns), pc.invert(own)))
