"""Results for people: the API and pages, alerts, single-file reports."""
