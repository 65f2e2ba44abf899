"""A plan as text for a site's own tools: Lustre and Slurm commands, a map of forwarders, `fairlead remap`.

A function of the plan alone; nothing is applied. Names that cannot stand in a command safely are refused, the rest is
quoted. Not here: deciding or checking (`policies.paths`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from math import floor

from fairlead.core.errors import UnsoundPlanError, UsageError
from fairlead.core.model.node_names import fold_node_names
from fairlead.core.model.plan import Plan, Plans

FIRST_EXTENT = 256 << 20
"""The first bytes of files that are not shared lie on one target, however many stripes the rest has: small files of a
striped folder would otherwise open an object on every target."""
POOL = "fwd"
"""Name of the pool of forwarders in Slurm's burst_buffer.lua, and of the licences."""
_MIB, _KIB = 1 << 20, 1 << 10
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:+/,\[\]#-]{0,4095}")
_TARGET = re.compile(r"(.+)-OST([0-9a-fA-F]{4})")
_RULE = re.compile(r"[^A-Za-z0-9_]")


def render_plans(plans: Plans, how: str, *, folder: str = "") -> str:
    """The text of all plans. `folder`: where the job writes; a shell variable where it is not given. Raises UsageError
    for an unknown form or a plan it needs more of, UnsoundPlanError for a name that could not be written safely."""
    if how not in FORMS:
        raise UsageError(f"no form {how!r}", where="--render", remedy=f"one of {', '.join(FORMS)}")
    return "".join(line + "\n" for plan in plans.plans for line in FORMS[how](plan, folder))


def _render_lustre(plan: Plan, folder: str) -> list[str]:
    """`lctl` and `lfs` commands: a pool, the layout of new files, and a limit of metadata requests."""
    where = _folder(folder, "FOLDER")
    lines = [f"# job {_word(plan.job.job_id, 'job.job_id')}: {_what(plan)}"]
    system = _word(plan.file_system, "file_system") if plan.file_system else None
    if plan.pool is not None and not plan.pool_exists:
        if system is None:
            raise UsageError("the plan names no file system", where="file_system", remedy="plan with --file-system")
        pool = f"{system}.{_word(plan.pool, 'pool')}"
        lines += ["# on the management server (MGS):", f"lctl pool_new {shlex.quote(pool)}"]
        lines += [f"lctl pool_add {shlex.quote(pool)} {shlex.quote(part)}" for part in _targets(plan)]
    layout = _layout(plan)
    if layout:
        lines += ["# on a client, before the job writes:", f"lfs setstripe {layout} {where}"]
    if plan.metadata_ops_per_s is not None:
        lines += _limit(plan, plan.metadata_ops_per_s)
    elif plan.metadata_share is not None:
        lines.append(
            f"# P = {plan.metadata_share:g}: no rate can be given: the metadata rate of the forwarders is not known"
        )
    if plan.prefetch_bytes is not None:
        clients = f"# on the forwarders {', '.join(_words(plan.forwarders, 'forwarders'))}:" if plan.forwarders else "#"
        each = max(plan.prefetch_bytes // _MIB, 1)
        lines += [clients, f"lctl set_param llite.*.max_read_ahead_per_file_mb={each}"]
    return [*lines, *([] if len(lines) > 1 else ["# nothing to change"]), *_release(plan, system)]


def _render_slurm(plan: Plan, _: str) -> list[str]:
    """What a batch script, job_submit.lua and PrologSlurmctld would say (Slurm 22.05 and later)."""
    job = _word(plan.job.job_id, "job.job_id")
    forwarders, targets = _words(plan.forwarders, "forwarders"), _words(plan.targets, "targets")
    count = len(forwarders)
    lines = [f"# job {job}: {_what(plan)}"]
    if count:
        lines += ["# batch script (burst_buffer.lua):", f"#BB_LUA pool={POOL} capacity={count}"]
    told = ["fairlead=1", f"policy={_plain(plan.policy)}"]
    told += [f"forwarders={fold_node_names(forwarders)}"] if count else []
    told += ["isolated=1"] if plan.isolated else []
    told += [f"pool={_word(plan.pool, 'pool')}"] if plan.pool else []
    told += [f"stripes={plan.stripe_count}"] if plan.stripe_count is not None else []
    lines += ["-- job_submit.lua:", f'job_desc.admin_comment = "{";".join(told)}"']
    if plan.hints:
        hints = ";".join(f"{_word(key, 'hints')}={_word(value, 'hints')}" for key, value in sorted(plan.hints.items()))
        lines.append(f'job_desc.comment = "mpi-io hints: {hints}"')
    if count:
        lines.append(f'job_desc.licenses = "{POOL}:{count}"')
    lines.append("# environment (PrologSlurmctld, slurm_bb_paths):")
    pairs = {
        "FAIRLEAD_JOB": job,
        "FAIRLEAD_FORWARDERS": ",".join(forwarders),
        "FAIRLEAD_TARGETS": ",".join(targets),
        "FAIRLEAD_POOL": _word(plan.pool, "pool") if plan.pool else "",
        "FAIRLEAD_STRIPES": "" if plan.stripe_count is None else str(plan.stripe_count),
        "FAIRLEAD_MPIIO_HINTS": ";".join(f"{key} {value}" for key, value in sorted(plan.hints.items())),
    }
    lines += [f"{name}={shlex.quote(value)}" for name, value in pairs.items() if value]
    return lines


def _render_forwarding_map(plan: Plan, _: str) -> list[str]:
    """Lines `host forwarder`, as GekkoFWD reads them: nodes in equal blocks, in the order of both lists; of a job whose
    way is not changed none. Raises UsageError where the nodes are not known."""
    return [f"{node} {forwarder}" for node, forwarder in _ways(plan)]


def _render_remap(plan: Plan, folder: str) -> list[str]:
    """`fairlead remap` for the nodes of the job, a line for those with the same way: their own forwarder first, the
    others behind it should that be lost. `$PORT` is the forwarders'."""
    forwarders = _words(plan.forwarders, "forwarders")
    lines = [f"# job {_word(plan.job.job_id, 'job.job_id')}: {_what(plan)}"]
    ways = _ways(plan)
    for first in forwarders:
        nodes = [node for node, forwarder in ways if forwarder == first]
        order = [first, *(one for one in forwarders if one != first)]
        addresses = " ".join(f'{shlex.quote(f"tcp:{one}")}:"$PORT"' for one in order)
        if nodes:
            lines += [f"# on {fold_node_names(nodes)}:", f"fairlead remap {_folder(folder, 'MOUNT')} {addresses}"]
    return lines if len(lines) > 1 else [*lines, "# nothing to change"]


FORMS: dict[str, Callable[[Plan, str], list[str]]] = {
    "lustre": _render_lustre,
    "slurm": _render_slurm,
    "map": _render_forwarding_map,
    "remap": _render_remap,
}
"""What a plan can be written as."""


def _ways(plan: Plan) -> list[tuple[str, str]]:
    forwarders = _words(plan.forwarders, "forwarders")
    if not forwarders:
        return []
    nodes = _words(plan.job.nodes, "job.nodes")
    if not nodes:
        raise UsageError(
            f"the nodes of job {plan.job.job_id!r} are not known", where="job.nodes", remedy="plan with --node-list"
        )
    many = len(forwarders)
    return [(node, forwarders[at * many // len(nodes)]) for at, node in enumerate(nodes)]


def _layout(plan: Plan) -> str:
    """Options of `lfs setstripe`; empty where nothing is set."""
    parts = [] if plan.stripe_count is None else ["-c", str(plan.stripe_count)]
    parts += [] if plan.stripe_bytes is None else ["-S", _size(plan.stripe_bytes)]
    if plan.pool is not None:
        parts += ["-p", shlex.quote(_word(plan.pool, "pool"))]
    elif len(plan.targets) == 1 and (match := _TARGET.fullmatch(_word(plan.targets[0], "targets"))):
        parts += ["-i", str(int(match[2], 16))]
    shared = plan.expected.mode == "N-1"
    if plan.dom_bytes is not None:
        # Data on the metadata target is the first component of a composite layout, the rest lies as otherwise.
        return " ".join(["-E", _size(plan.dom_bytes), "-L", "mdt", "-E", "-1", *parts])
    if parts and not shared and (plan.stripe_count or 1) > 1:
        rest = [part for at, part in enumerate(parts) if part != "-c" and (at == 0 or parts[at - 1] != "-c")]
        head = ["-E", _size(FIRST_EXTENT), "-c", "1", *rest]
        return " ".join([*head, "-E", "-1", *parts])
    return " ".join(parts)


def _limit(plan: Plan, most: float) -> list[str]:
    """A token bucket for the job's metadata requests, RPC a second on each CPU partition of the metadata server."""
    job = _word(plan.job.job_id, "job.job_id")
    if not re.fullmatch(r"[A-Za-z0-9_.]+", job):
        raise UnsoundPlanError(
            f"job {job!r} cannot be used in a rule", where="job.job_id", remedy="letters, digits, _ ."
        )
    if plan.metadata_share is None or not 1 <= most < 1e15:
        raise UnsoundPlanError(
            f"{most} is not a valid rate for a metadata share",
            where="metadata_ops_per_s",
            remedy="fairlead plan check FILE",
        )
    rate = floor(most)
    rule = f"start f_{_RULE.sub('_', job)} jobid={{{job}}} rate={rate}"
    return [
        f"# on the metadata server: P = {plan.metadata_share:g}; divide the rate by its CPU partitions (CPT):",
        f"lctl set_param mds.MDS.mdt.nrs_policies={shlex.quote('tbf jobid')}",
        f"lctl set_param mds.MDS.mdt.nrs_tbf_rule={shlex.quote(rule)}",
    ]


def _release(plan: Plan, system: str | None) -> list[str]:
    """What takes it back when the job has ended."""
    lines = []
    if plan.metadata_ops_per_s is not None:
        rule = f"stop f_{_RULE.sub('_', plan.job.job_id)}"
        lines.append(f"lctl set_param mds.MDS.mdt.nrs_tbf_rule={shlex.quote(rule)}")
    if plan.pool is not None and not plan.pool_exists and system is not None:
        pool = shlex.quote(f"{system}.{plan.pool}")
        lines += [f"lctl pool_remove {pool} {shlex.quote(part)}" for part in _targets(plan)]
        lines.append(f"lctl pool_destroy {pool}")
    return ["# when the job has ended:", *(f"# {line}" for line in lines)] if lines else []


def _targets(plan: Plan) -> list[str]:
    """Targets as `lctl pool_add` takes them: runs of numbers in brackets, hexadecimal as they are named."""
    found = [(name, _TARGET.fullmatch(name)) for name in _words(plan.targets, "targets")]
    plain = [name for name, match in found if match is None]
    by_system: dict[str, list[int]] = {}
    for _, match in found:
        if match is not None:
            by_system.setdefault(match[1], []).append(int(match[2], 16))
    runs = []
    for system, numbers in sorted(by_system.items()):
        for low, high in _runs(sorted(set(numbers))):
            runs.append(f"{system}-OST{low:04x}" if low == high else f"{system}-OST[{low:04x}-{high:04x}]")
    return [*plain, *runs]


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for one in numbers:
        if found and found[-1][1] == one - 1:
            found[-1] = found[-1][0], one
        else:
            found.append((one, one))
    return found


def _what(plan: Plan) -> str:
    forwarders, targets = len(plan.forwarders), len(plan.targets)
    ways = f"{forwarders} forwarder{'' if forwarders == 1 else 's'}" + (" alone" if plan.isolated else "")
    return f"{ways if forwarders else 'default way'}, {targets or 'default'} target{'' if targets == 1 else 's'}"


def _size(value: int) -> str:
    """Bytes as `lfs` takes them, exactly."""
    for unit, one in (("G", 1 << 30), ("M", _MIB), ("K", _KIB)):
        if value % one == 0:
            return f"{value // one}{unit}"
    return str(value)


def _folder(folder: str, variable: str) -> str:
    if not folder:
        return f'"${variable}"'
    if not folder.isprintable() or not folder.startswith("/"):
        raise UsageError("not an absolute path on one line", where="--folder", remedy="write /scratch/project")
    return shlex.quote(folder)


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.+-]", "_", text)


def _word(text: str, field: str) -> str:
    """A name as it is. Raises UnsoundPlanError for one that could break a line, look like an option or hold a quote."""
    if not _SAFE.fullmatch(text):
        raise UnsoundPlanError(
            f"{text[:60]!r} cannot be used in a command",
            where=field,
            remedy="letters, digits and _ . @ : + / , [ ] # - , no dash first, no spaces",
        )
    return text


def _words(names: Iterable[str], field: str) -> list[str]:
    return [_word(name, field) for name in names]
