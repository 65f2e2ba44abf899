"""The page /site/waiting: who was served slowest, of the jobs this reader may see."""

from fairlead.plugins import Page, Table, Text


def draw(ask):
    answer = ask("jobs", last="1d", limit=20)
    yield Text(f"{len(answer.jobs)} jobs ran in the last day.")
    yield Table(
        head=("job", "user", "state"),
        rows=[(job.job_id, job.user, job.state) for job in answer.jobs],
    )


WAITING = Page("Jobs of the last day", draw)
