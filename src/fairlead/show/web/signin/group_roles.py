"""What groups somebody is in make of him, as the settings say: a role, projects, and the name jobs are known by."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.show.web.identity import Role
from fairlead.show.web.people.accounts import ROLES
from fairlead.show.web.web_settings import Mapping

_LONGEST = 128


def map_group_role(mapping: Mapping, groups: Iterable[str]) -> Role | None:
    """The highest role of these groups; `user` when none has one; None where the settings leave roles to accounts."""
    if not mapping.roles:
        return None
    held = {mapping.roles[group] for group in groups if group in mapping.roles}
    return max(held, key=ROLES.index, default="user")


def map_group_projects(mapping: Mapping, groups: Iterable[str]) -> tuple[str, ...] | None:
    """Projects of these groups, by name; None where the settings leave them to accounts."""
    if not mapping.projects and not mapping.project_prefix:
        return None
    prefix = mapping.project_prefix
    found = set()
    for group in groups:
        if group in mapping.projects:
            found.add(mapping.projects[group])
        elif prefix and group.startswith(prefix):
            found.add(group.removeprefix(prefix))
    return tuple(sorted(name for name in found if name.strip() and name.isprintable() and len(name) <= _LONGEST))


def strip_group_domain(mapping: Mapping, name: str) -> str:
    """The name without the site's domain."""
    begin, at, domain = name.rpartition("@")
    return begin if at and begin and mapping.domain and domain.lower() == mapping.domain.lower() else name
