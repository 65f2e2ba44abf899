"""`fairlead site`: describe a site in one file. Not here: what is in it (`model.site`), finding out (`run`)."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead.cli.noun import Noun
from fairlead.cli.options import PATH, json_option
from fairlead.cli.printing import print_message
from fairlead.core.errors import ConfigError, InputError, UsageError


@click.group(cls=Noun)
def site() -> None:
    """Describe a site in one file: generate it, check it."""


@site.command("init")
@click.option(
    "--lake",
    "lake_dir",
    type=PATH,
    metavar="DIR",
    help="A lake, for the nodes, forwarders, targets and mappings seen there.",
)
@click.option("--output", "-o", type=PATH, metavar="FILE", help="Write to this file. Default: standard output.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option(
    "--root",
    type=PATH,
    default=Path("/"),
    metavar="DIR",
    help="Where to look for /proc and /etc: a copy of a node's files. Default: /.",
)
def init_site(lake_dir: Path | None, output: Path | None, force: bool, root: Path) -> None:
    """Write a site file from what can be detected here.

    Asks Slurm, Lustre, /proc/mounts and the hosts file of this node, and a lake. What could not be detected is listed
    in comments in the file.
    """
    from fairlead.run.site_discovery import discover_site
    from fairlead.run.site_text import format_site_text

    lake = None
    if lake_dir is not None:
        from fairlead.store.lake import Lake

        lake = Lake.open(lake_dir)
    found = discover_site(root, lake=lake)
    text = format_site_text(found.site, found.remarks)
    if output is None:
        click.echo(text, nl=False)
        return
    if output.exists() and not force:
        raise UsageError("the file already exists", where=str(output), remedy="give --force, or another name")
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as fault:
        what = f"cannot be written: {(fault.strerror or str(fault)).lower()}"
        raise InputError(what, where=str(output), remedy="check the folder") from fault
    print_message(
        f"wrote {output}: {sum(len(r) for r in found.remarks.values())} things could not be detected, see its comments"
    )


@site.command("check")
@click.argument("file", type=PATH)
@json_option
def check_site_file(file: Path, as_json: bool) -> None:
    """Check a site file: keys, host lists, and whether its parts fit together."""
    from fairlead.core.model.site_file import build_site_file_mapping, check_site_file, parse_site_file
    from fairlead.see.sources.slurm.hostlist import expand_hostlist

    try:
        content = file.read_bytes()
    except OSError as fault:
        what = f"cannot be read: {(fault.strerror or str(fault)).lower()}"
        raise InputError(what, where=str(file), remedy="check the path") from fault
    described = parse_site_file(content, str(file))
    faults = check_site_file(described, expand_hostlist)
    if as_json:
        import json

        layers, mappings = described.layers, build_site_file_mapping(described, expand_hostlist).num_rows
        click.echo(
            json.dumps(
                {
                    "schema": "fairlead.site.check/1",
                    "name": described.name,
                    "layers": layers,
                    "mappings": mappings,
                    "faults": faults,
                }
            )
        )
    if faults:
        raise ConfigError("; ".join(faults), where=str(file), remedy="see docs/howto/describe-a-site.md")
    if not as_json:
        click.echo(f"{described.name}: sound, {' → '.join(described.layers)}")
