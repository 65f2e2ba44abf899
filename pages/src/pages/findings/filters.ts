// The names by which findings are narrowed, as they stand in the address and in the question.
export const FIELDS = ["severity", "rule", "acknowledged", "job", "component", "user", "text"] as const;
export const SEVERITIES = ["critical", "high", "warning", "info", "ok"] as const;
