// Made by tools/page_types.py from the structs of fairlead.explain.questions: change it there.

export interface AccountTold {
  schema: string;
  name: string;
  role: "admin" | "support" | "user";
  way: "header" | "ldap" | "local" | "oidc";
  projects: string[];
  disabled: boolean;
  has_password: boolean;
  made_ns: number;
  signed_in_ns: number | null;
}

export interface Accounts {
  schema: string;
  accounts: AccountTold[];
}

export interface Acknowledgement {
  id: string;
  who: string | null;
  text: string | null;
  at_ns: number;
  site: boolean;
}

export interface Acknowledgements {
  schema: string;
  from_ns: number;
  to_ns: number;
  acknowledgements: Acknowledgement[];
}

export interface Advice {
  text: string;
  audience: string;
  code: string | null;
  language: string | null;
}

export interface AlikeRun {
  job_id: string | null;
  user: string | null;
  program: string | null;
  start_ns: number;
  seconds: number | null;
  distance: number;
  how: string;
}

export interface Amplification {
  upper: string;
  lower: string;
  read: number | null;
  write: number | null;
}

export interface AnalysisProgress {
  last_ns: number | null;
  ended: number;
  waiting: number;
  oldest_ns: number | null;
}

export interface AuditPage {
  schema: string;
  entries: Entry[];
  next: number | null;
}

export interface BasisLine {
  basis: string;
  jobs: number;
  job_share: number;
  volume_share: number;
}

export interface Behaviour {
  schema: string;
  from_ns: number;
  to_ns: number;
  user: string | null;
  program: string | null;
  project: string | null;
  jobs: number;
  known: number;
  nontrivial: number;
  nontrivial_share: number | null;
  read_bytes: number | null;
  write_bytes: number | null;
  modes: ModeLine[];
  core_hours: ClassLine[];
  requests: RequestLine[];
  n_to_one: SharedLine[];
  users: RankLine[];
  programs: RankLine[];
  points: RatePoint[];
  points_of: number;
  causes: CauseLine[];
  runs: RunLine[];
  layers: LayerDay[];
  targets: Cdf | null;
  forwarders: HeatMap | null;
  metadata_above_75_percent: number | null;
  missing: string[];
  hidden: boolean;
}

export interface BehaviourAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  user?: string;
  program?: string;
  project?: string;
  limit?: number;
}

export interface Bound {
  low: Sums;
  high: Sums;
  shared: boolean;
  share: number | null;
}

export interface CauseLine {
  cause: string;
  jobs: number;
  share: number | null;
  of_abnormal: number | null;
  lost_s: number | null;
}

export interface Cdf {
  schema: string;
  from_ns: number;
  to_ns: number;
  kind: string;
  peak_bytes_per_s: number | null;
  peak_basis: string;
  components: number;
  minutes: number;
  minutes_unknown: number;
  utilisation: number[];
  share: number[];
  below_1_percent: number | null;
  below_5_percent: number | null;
}

export interface ChangedCost {
  name: string;
  user: string | null;
  jobs: number;
  before_core_hours: number;
  after_core_hours: number;
  saved_core_hours: number;
  before_s: number;
  after_s: number;
}

export interface Check {
  name: string;
  jobs: number;
  compared: number;
  measured_core_hours: number;
  replayed_core_hours: number;
  total_error: number | null;
  bias: number | null;
  error_p50: number | null;
  error_p90: number | null;
  run_time_error_p50: number | null;
  run_time_error_p90: number | null;
}

export interface ClassLine {
  core_hours: string | null;
  jobs: number;
  mean_read_bytes: number | null;
  mean_write_bytes: number | null;
  max_read_bytes: number | null;
  max_write_bytes: number | null;
}

export interface ClockShift {
  source: string;
  offset_ns: number;
}

export interface Collecting {
  node: string;
  ts_ns: number;
  state: string;
  silent: boolean;
  memory_bytes: number | null;
  text: string | null;
}

export interface ComponentAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  points?: number;
  limit?: number;
  id?: string;
}

export interface ComponentHealth {
  schema: string;
  from_ns: number;
  to_ns: number;
  layers: LayerHealth[];
  components: ComponentState[];
  open: Incident[];
  past: Incident[];
  durations: Durations[];
  courses: Course[];
  findings: StoredFinding[];
  missing: string[];
}

export interface ComponentLook {
  schema: string;
  layer: string;
  id: string;
  from_ns: number;
  to_ns: number;
  step_ns: number;
  points: number;
  finest_ns: number;
  row: ComponentRow;
  lanes: Lane[];
  queue_max: (number | null)[];
  wait_mean_ns: (number | null)[];
  hours_from_ns: number;
  hours: (number | null)[];
  peak: number | null;
  peak_unit: string;
  who: Share[];
  hidden: boolean;
  gaps: Gap[];
}

export interface ComponentNow {
  id: string;
  state: string;
  load: number | null;
  bytes_per_s: number | null;
  ops_per_s: number | null;
  incident: string | null;
  why: string;
}

export interface ComponentPage {
  schema: string;
  kind: string;
  id: string;
  from_ns: number;
  to_ns: number;
  row: ComponentRow;
  timeline: Timeline;
  who: Share[];
  hidden: boolean;
  gaps: Gap[];
  latencies: LatencyLine[];
}

export interface ComponentRow {
  id: string;
  sums: Sums;
  peak_bytes_per_s: number | null;
  busy_share: number | null;
  used_bytes: number | null;
  capacity_bytes: number | null;
  fullness: number | null;
  grown_bytes: number | null;
}

export interface ComponentState {
  layer: string;
  component: string;
  state: string;
  share_of_peak: number | null;
  peak: number | null;
  measured: number | null;
  since_ns: number | null;
  incident: string | null;
  why: string;
}

export interface ComponentsAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  component?: string;
  all?: boolean;
}

export interface Course {
  title: string;
  unit: string;
  from_ns: number;
  step_ns: number;
  lines: CourseLine[];
  marked: [number, number][];
}

export interface CourseLine {
  name: string;
  role: string;
  values: (number | null)[];
}

export interface DayVolume {
  day: string;
  layer: string;
  sums: Sums;
}

export interface DeviceHour {
  id: string;
  hour: number;
  read_bytes_per_s: number | null;
  write_bytes_per_s: number | null;
  busy_share: number | null;
  hours: number;
}

export interface Devices {
  schema: string;
  from_ns: number;
  to_ns: number;
  node: string | null;
  total: number;
  devices: DeviceHour[];
}

export interface DevicesAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  node?: string;
  limit?: number;
}

export interface DroppedLine {
  why: string;
  count: number;
  of: string;
}

export interface Durations {
  layer: string;
  classes: string[];
  counts: number[];
}

export interface Entry {
  number: number;
  at_ns: number;
  who: string;
  how: string;
  address: string;
  act: string;
  what: string;
  done: boolean;
}

export interface Event {
  ts_ns: number;
  end_ns: number | null;
  component: string;
  kind: string;
  text: string | null;
}

export interface Evidence {
  text: string;
  metric: string | null;
  value: number | string | boolean | null;
  unit: string | null;
  files: string[];
  ranks: number[];
}

export interface Explanation {
  schema: string;
  told: StoredFinding;
  withdrawn: boolean;
  made_ns: number;
  analysis_version: number;
  courses: Course[];
  usual: Usual[];
  incidents: Incident[];
  related: StoredFinding[];
  missing: string[];
}

export interface FileRow {
  file_id: string;
  path: string | null;
  fs: string | null;
  read_bytes: number | null;
  write_bytes: number | null;
  read_ops: number | null;
  write_ops: number | null;
  metadata_ops: number | null;
  processes: number | null;
  busy_s: number | null;
  request_bytes: number | null;
  first_ns: number | null;
  last_ns: number | null;
}

export interface FilesAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  cluster?: string;
  like?: string;
  sort?: "bytes" | "metadata" | "path" | "read" | "time" | "write";
  limit?: number;
  offset?: number;
}

export interface Finding {
  id: string;
  rule: string;
  title: string;
  subject: Subject;
  from_ns: number | null;
  to_ns: number | null;
  severity: "critical" | "high" | "info" | "ok" | "warning";
  confidence: number;
  category: string;
  culprits: Subject[];
  evidence: Evidence[];
  missing: string[];
  advice: Advice[];
  covers: string[];
  cost_s: number | null;
  cost_basis: string | null;
  analysis_version: string;
}

export interface FindingAsked {

}

export interface Findings {
  schema: string;
  from_ns: number;
  to_ns: number;
  total: number;
  findings: StoredFinding[];
  older: number;
  by_severity: Record<string, number>;
  by_rule: Record<string, number>;
  analysis_version: number | null;
  missing: string[];
}

export interface FindingsAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  job?: string;
  component?: string;
  user?: string;
  severity?: "" | "critical" | "high" | "info" | "ok" | "warning";
  rule?: string;
  text?: string;
  acknowledged?: "" | "no" | "yes";
  limit?: number;
  offset?: number;
}

export interface Gap {
  source: string;
  from_ns: number;
  to_ns: number | null;
  why: string;
}

export interface Health {
  schema: string;
  now_ns: number;
  nodes: number;
  states: Record<string, number>;
  probes: ProbeHealth[];
  gaps: Gap[];
}

export interface HealthAsked {
  all?: boolean;
}

export interface HeatMap {
  schema: string;
  from_ns: number;
  step_ns: number;
  columns: number;
  kind: string;
  peak_bytes_per_s: number | null;
  peak_basis: string;
  levels: Record<string, number>;
  rows: HeatRow[];
}

export interface HeatRow {
  id: string;
  peak_share: (number | null)[];
  level: (string | null)[];
}

export interface HeldOut {
  at_ns: number;
  nodes_changed: number;
  nodes: number;
  learnt: number;
  check: Check;
  as_before_core_hours: number;
}

export interface Holder {
  fs: string | null;
  owner_kind: string;
  owner: string;
  used_bytes: number | null;
  inodes: number | null;
  grown_bytes: number | null;
  grown_inodes: number | null;
  limit_bytes: number | null;
  inodes_limit: number | null;
  limit_share: number | null;
}

export interface Hurt {
  who: string | null;
  start_ns: number | null;
  seconds: number | null;
  confidence: number;
  finding: string | null;
}

export interface Incident {
  schema: string;
  id: string;
  layer: "client" | "device" | "forwarder" | "mds" | "port" | "target";
  component: string;
  from_ns: number;
  to_ns: number | null;
  kind: "dead" | "degraded" | "flapping";
  measured: number | null;
  peak: number | null;
  share_of_peak: number | null;
  persistence: "persistent" | "recurrent" | "transient";
  hint: string;
  confidence: number;
  jobs: string[];
  evidence: Evidence[];
  missing: string[];
}

export interface JobAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  cluster?: string;
  points?: number;
}

export interface JobEfficiency {
  schema: string;
  job: JobRow;
  summary: JobSummary | null;
  elapsed_s: number | null;
  io_share: number | null;
  final: boolean;
  other_runs: number;
  missing: string[];
}

export interface JobFiles {
  schema: string;
  job_id: string;
  total: number;
  sort: string;
  files: FileRow[];
  missing: string[];
}

export interface JobPage {
  schema: string;
  from_ns: number;
  to_ns: number;
  job: JobRow;
  nodes: string[];
  summary: JobSummary | null;
  timeline: Timeline;
  components: Share[];
  missing: string[];
  gaps: Gap[];
  other_runs: number;
  ports: PortVolume[];
  port_imbalance: PortImbalance | null;
  clocks: ClockShift[];
  latencies: LatencyLine[];
}

export interface JobRequests {
  schema: string;
  job_id: string;
  bins: RequestBin[];
  metadata: Record<string, number>;
  sequential_share: number | null;
  missing: string[];
}

export interface JobRow {
  job_id: string;
  cluster: string | null;
  name: string | null;
  user: string | null;
  project: string | null;
  program: string | null;
  partition: string | null;
  state: string | null;
  submit_ns: number | null;
  start_ns: number | null;
  end_ns: number | null;
  nodes_count: number | null;
  cores: number | null;
  processes: number | null;
  running: boolean;
  layer: string | null;
  sums: Sums;
  bound: Bound | null;
  accounted: boolean;
}

export interface JobSummary {
  io_processes: number | null;
  io_nodes: number | null;
  sums: Sums;
  read_time_ns: number | null;
  write_time_ns: number | null;
  metadata_time_ns: number | null;
  read_bandwidth_bytes_per_s: number | null;
  write_bandwidth_bytes_per_s: number | null;
  peak_read_bytes_per_s: number | null;
  peak_write_bytes_per_s: number | null;
  iops: number | null;
  mdops_in_phases: number | null;
  read_mode: string | null;
  write_mode: string | null;
  files: number | null;
  phases: number | null;
  basis: string | null;
  estimated: string[];
  bound: Bound | null;
  end_ns: number | null;
  made_ns: number | null;
  so_far: boolean;
}

export interface JobTimeline {
  schema: string;
  job_id: string;
  cluster: string | null;
  job_from_ns: number;
  job_to_ns: number;
  from_ns: number;
  step_ns: number;
  points: number;
  finest_ns: number;
  running: boolean;
  lanes: Lane[];
  phases: PhaseBand[];
  neighbours: Neighbour[];
  gaps: Gap[];
  missing: string[];
}

export interface Jobs {
  schema: string;
  from_ns: number;
  to_ns: number;
  total: number;
  sort: string;
  jobs: JobRow[];
}

export interface JobsAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  user?: string;
  project?: string;
  program?: string;
  state?: string;
  partition?: string;
  cluster?: string;
  node?: string;
  running?: boolean;
  sort?: "bytes" | "end" | "job" | "metadata" | "nodes" | "read" | "start" | "user" | "write";
  limit?: number;
  offset?: number;
}

export interface JudgedAgain {
  at_ns: number;
  incident: string;
}

export interface KindUsually {
  kind: string;
  phases: number;
  runs: number;
  amount_p50: number | null;
  rate_p50: number | null;
  request_p50_bytes: number | null;
  period_p50_s: number | null;
  mode: string | null;
}

export interface LakeHeld {
  root: string;
  bytes: number;
  log_bytes: number;
  free_bytes: number | null;
  rows: number;
  shards: number;
  bytes_per_day: number | null;
  tables: TableHeld[];
}

export interface Lane {
  layer: string;
  read_bytes_per_s: Line;
  write_bytes_per_s: Line;
  metadata_ops_per_s: Line;
  estimated: boolean;
  known_share: number | null;
}

export interface LatencyLine {
  layer: string;
  kind: string;
  requests: number;
  mean_ns: number;
  p50_ns: number | null;
  p95_ns: number | null;
  p99_ns: number | null;
  quantiles_from_ns: number | null;
}

export interface Layer {
  schema: string;
  layer: string;
  from_ns: number;
  to_ns: number;
  total: number;
  components: LayerComponent[];
  sums: Sums;
  imbalance: number | null;
  idle: number;
  peak: number | null;
  peak_basis: string;
  peak_unit: string;
  missing: string[];
}

export interface LayerAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  peak?: number | null;
  sort?: "fullness" | "id" | "load" | "metadata" | "read" | "write";
  limit?: number;
  offset?: number;
}

export interface LayerComponent {
  row: ComponentRow;
  state: string;
  load: number | null;
  jobs: number | null;
  incident: string | null;
}

export interface LayerDay {
  day: string;
  layer: string;
  sums: Sums;
}

export interface LayerHealth {
  layer: string;
  components: number;
  states: Record<string, number>;
}

export interface LayerLine {
  kind: string;
  count: number;
  peak: number | null;
  basis: string;
  unit: string;
}

export interface LayerNow {
  layer: string;
  kind: string;
  components: ComponentNow[];
  total: number;
  states: Record<string, number>;
  bytes_per_s: number | null;
  ops_per_s: number | null;
  load: number | null;
  recent: (number | null)[];
}

export interface Line {
  mean: (number | null)[];
  low: (number | null)[];
  high: (number | null)[];
}

export interface Link {
  id: string;
  owner: string;
  cluster: string | null;
  job: string;
  start_ns: number | null;
  made_ns: number;
  expires_ns: number;
  seen_ns: number | null;
}

export interface LinkMade {
  schema: string;
  id: string;
  token: string;
  url: string;
  job: string;
  cluster: string | null;
  start_ns: number | null;
  expires_ns: number;
}

export interface Links {
  schema: string;
  links: Link[];
}

export interface LoadAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  peak?: number | null;
}

export interface LostTime {
  who: string;
  what: string;
  seconds: number | null;
  confidence: number;
  finding: string;
}

export interface Mds {
  schema: string;
  from_ns: number;
  to_ns: number;
  server: string | null;
  total: number | null;
  per_s: number | null;
  servers: OpCount[];
  ops: OpCount[];
  classes: OpCount[];
  clients: OpCount[];
  jobs: OpCount[];
  hidden: boolean;
  timeline: Timeline;
  gaps: Gap[];
  latencies: LatencyLine[];
}

export interface MdsAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  server?: string;
  points?: number;
  limit?: number;
}

export interface MineAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  user?: string;
  limit?: number;
  offset?: number;
}

export interface ModeLine {
  mode: string | null;
  jobs: number;
  share: number | null;
  mean_read_bytes: number | null;
  mean_write_bytes: number | null;
}

export interface MyJob {
  job: JobRow;
  spark: (number | null)[];
  grade: string | null;
  lost_s: number | null;
  findings: number;
  worst: string | null;
  severity: string | null;
}

export interface MyJobs {
  schema: string;
  from_ns: number;
  to_ns: number;
  total: number;
  jobs: MyJob[];
  missing: string[];
}

export interface Neighbour {
  job_id: string | null;
  user: string | null;
  program: string | null;
  kind: string;
  component: string;
  bytes_per_s: (number | null)[];
  bytes: number;
  blamed: boolean;
  ops_per_s: (number | null)[];
  metadata_ops: number | null;
}

export interface NodePage {
  schema: string;
  from_ns: number;
  to_ns: number;
  node: string;
  jobs: JobRow[];
  sums: Record<string, Sums>;
  timeline: Timeline;
  probes: ProbeHealth[];
  gaps: Gap[];
  events: Event[];
  clock: ClockShift | null;
  devices: ComponentRow[];
  latencies: LatencyLine[];
}

export interface Now {
  schema: string;
  now_ns: number;
  from_ns: number;
  to_ns: number;
  layers: LayerNow[];
  top: TopRow[];
  open: Incident[];
  jobs_running: number | null;
  sources: number;
  silent: Gap[];
  missing: string[];
}

export interface NowAsked {
  at?: string;
}

export interface OpCount {
  name: string;
  count: number;
  per_s: number;
  share: number;
  user: string | null;
  program: string | null;
  mean_ns: number | null;
}

export interface OwnHealth {
  schema: string;
  now_ns: number;
  state: string;
  problems: string[];
  states: Record<string, number>;
  sources: SourceSeen[];
  collectors: Collecting[];
  taken: SentRows;
  silences: SilentHours;
  lake: LakeHeld | null;
  analysis: AnalysisProgress;
  missing: string[];
}

export interface OwnHealthAsked {

}

export interface PageAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  points?: number;
  limit?: number;
}

export interface PhaseBand {
  kind: string;
  number: number;
  start_ns: number;
  end_ns: number;
  bytes: number | null;
  mode: string | null;
  lost_s: number | null;
  abnormal: number | null;
}

export interface PhaseLine {
  kind: string;
  number: number;
  start_ns: number;
  end_ns: number;
  seconds: number;
  amount: number | null;
  rate_per_s: number | null;
  mode: string | null;
  expected_s: number | null;
  lost_s: number | null;
  abnormal: number | null;
  missing: string[];
}

export interface PolicyLine {
  name: string;
  title: string;
  about: string;
}

export interface PortImbalance {
  job_id: string;
  ports: number;
  received_bytes: number;
  sent_bytes: number;
  highest_over_mean: number;
  deviation: number;
  user: string | null;
  program: string | null;
}

export interface PortVolume {
  port: string;
  node: string | null;
  received_bytes: number;
  sent_bytes: number;
  shared_bytes: number;
  peak_share: number | null;
}

export interface Ports {
  schema: string;
  from_ns: number;
  to_ns: number;
  job_id: string | null;
  ports: PortVolume[];
  total: number;
  jobs: PortImbalance[];
  missing: string[];
  hidden: boolean;
}

export interface PortsAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  limit?: number;
}

export interface ProbeHealth {
  node: string;
  probe: string;
  state: string;
  ts_ns: number;
  silent: boolean;
  rows: number | null;
  failures: number | null;
  unknown_lines: number | null;
  lost_batches: number | null;
  memory_bytes: number | null;
  clock_offset_ns: number | null;
  text: string | null;
}

export interface RankLine {
  name: string | null;
  jobs: number;
  bytes: number | null;
  share: number | null;
  metadata_ops: number | null;
  core_hours: number | null;
  earlier_bytes: number | null;
  trend: number | null;
}

export interface RankRow {
  name: string;
  members: number;
  bytes_per_s: (number | null)[];
  highest_bytes_per_s: (number | null)[];
  read_bytes: number | null;
  write_bytes: number | null;
}

export interface Ranks {
  schema: string;
  job_id: string;
  by: string;
  from_ns: number;
  step_ns: number;
  columns: number;
  total: number;
  rows: RankRow[];
  busiest: RankRow[];
  imbalance: number | null;
  missing: string[];
}

export interface RanksAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  cluster?: string;
  by?: "" | "node" | "rank";
  rows?: number;
  columns?: number;
}

export interface RatePoint {
  job_id: string;
  user: string | null;
  program: string | null;
  mode: string | null;
  iops: number;
  bandwidth_bytes_per_s: number;
  request_bytes: number | null;
}

export interface RequestBin {
  from_bytes: number;
  to_bytes: number | null;
  reads: number;
  writes: number;
  read_bytes: number | null;
  write_bytes: number | null;
}

export interface RequestLine {
  below_bytes: number;
  jobs: number;
  job_share: number | null;
  ops: number;
  ops_share: number | null;
  known: number;
}

export interface RequestsAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  cluster?: string;
}

export interface RunAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  cluster?: string;
  points?: number;
  neighbours?: number;
}

export interface RunLike {
  job_id: string | null;
  start_ns: number;
  kind: string;
  seconds: number | null;
  amount: number | null;
  rate_per_s: number | null;
  nodes_count: number | null;
  this: boolean;
}

export interface RunLine {
  cluster: string | null;
  job_id: string;
  start_ns: number | null;
  seconds: number | null;
  processes: number | null;
  read_bytes: number | null;
  write_bytes: number | null;
  metadata_ops: number | null;
  read_bandwidth_bytes_per_s: number | null;
  write_bandwidth_bytes_per_s: number | null;
  mode: string | null;
}

export interface RunsOfProgram {
  runs: number;
  scale: number | null;
  first_ns: number;
  last_ns: number;
  seconds_p50: number | null;
  kinds: KindUsually[];
}

export interface Scenario {
  name: string;
  policy: string;
  forwarders: number;
  targets: number;
  io_core_hours: number;
  avoidable_core_hours: number;
  mean_slowdown: number | null;
  p90_slowdown: number | null;
  saved_core_hours: number | null;
  saved_share: number | null;
  saved_money: number | null;
  busy_forwarders: number | null;
  busiest_forwarder: number | null;
  busy_targets: number | null;
  busiest_target: number | null;
  sides: Sides[];
}

export interface SentRows {
  from_ns: number;
  step_ns: number;
  rows_per_s: (number | null)[];
  sources: (number | null)[];
}

export interface Series {
  layer: string;
  read_bytes_per_s: (number | null)[];
  write_bytes_per_s: (number | null)[];
  metadata_ops_per_s: (number | null)[];
  estimated: boolean;
  known_share: number | null;
}

export interface Setup {
  schema: string;
  now_ns: number;
  version: string;
  simulated: boolean;
  first_run: boolean;
  connected: number;
  quiet: number;
  missing: number;
  parts: SetupPart[];
}

export interface SetupPart {
  key: string;
  group: string;
  title: string;
  state: "connected" | "not" | "quiet";
  what: string;
  last_ns: number | null;
  count: number | null;
  command: string;
  docs: string;
}

export interface Share {
  kind: string;
  id: string;
  layer: string;
  sums: Sums;
  share: number | null;
  user: string | null;
  program: string | null;
  mapped: boolean;
}

export interface SharedLine {
  processes: number;
  way: string;
  jobs: number;
  median_bytes_per_s: number;
  highest_bytes_per_s: number;
}

export interface ShownPrecision {
  view: string;
  right: number;
  count: number;
}

export interface Sides {
  kind: string;
  winners: ChangedCost[];
  losers: ChangedCost[];
  won: number | null;
  lost: number | null;
  same: number | null;
}

export interface Silence {
  id: string;
  match: Record<string, string>;
  until_ns: number;
  who: string;
  why: string;
  made_ns: number;
}

export interface Silences {
  schema: string;
  now_ns: number;
  silences: Silence[];
}

export interface SilentHours {
  from_ns: number;
  step_ns: number;
  silent: number[];
  gaps: Gap[];
}

export interface SourceSeen {
  node: string;
  state: string;
  last_ns: number;
  every_ns: number;
  probes: number;
  troubled: string[];
  lost_batches: number | null;
  clock_offset_ns: number | null;
  why: string;
}

export interface StoredFinding {
  schema: string;
  finding: Finding;
  cluster: string | null;
  job_id: string | null;
  user: string | null;
  components: Subject[];
  active: Subject[];
  precision: ShownPrecision | null;
  judged_again: JudgedAgain | null;
}

export interface Subject {
  kind: string;
  id: string;
}

export interface Sums {
  read_bytes: number | null;
  write_bytes: number | null;
  read_ops: number | null;
  write_ops: number | null;
  metadata_ops: number | null;
}

export interface System {
  schema: string;
  from_ns: number;
  to_ns: number;
  jobs_running: number | null;
  jobs_ended: number | null;
  layers: LayerDay[];
  totals: Record<string, Sums>;
  amplification: Amplification[];
  timeline: Timeline;
  sources: number;
  silent: Gap[];
  events: Event[];
}

export interface TableHeld {
  table: string;
  rows: number;
  bytes: number;
  files: number;
  days: number;
  first_day: string | null;
  last_day: string | null;
  known: boolean;
  keeps: Tier[];
}

export interface TargetSpace {
  id: string;
  used_bytes: number | null;
  capacity_bytes: number | null;
  fullness: number | null;
  inodes_used: number | null;
  inodes: number | null;
  inodes_fullness: number | null;
  grown_bytes: number | null;
  grown_inodes: number | null;
}

export interface Targets {
  schema: string;
  from_ns: number;
  to_ns: number;
  targets: ComponentRow[];
  mean_bytes: number | null;
  imbalance: number | null;
  idle: number;
  fullness_spread: number | null;
}

export interface Tier {
  tier: string;
  days: number | null;
}

export interface TimeParameters {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
}

export interface Timeline {
  from_ns: number;
  step_ns: number;
  points: number;
  series: Series[];
}

export interface Token {
  id: string;
  owner: string;
  title: string;
  scopes: string[];
  made_ns: number;
  expires_ns: number;
  seen_ns: number | null;
}

export interface TokenMade {
  schema: string;
  id: string;
  token: string;
  title: string;
  scopes: string[];
  expires_ns: number;
}

export interface Tokens {
  schema: string;
  tokens: Token[];
}

export interface Top {
  schema: string;
  from_ns: number;
  to_ns: number;
  by: string;
  metric: string;
  total: Sums;
  count: number;
  rows: TopRow[];
}

export interface TopAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  metric?: "bytes" | "metadata" | "read" | "write";
  limit?: number;
}

export interface TopRow {
  name: string | null;
  sums: Sums;
  share: number | null;
  jobs: number;
  user: string | null;
  program: string | null;
  running: boolean | null;
  layer: string | null;
}

export interface Usage {
  schema: string;
  from_ns: number;
  to_ns: number;
  fs: string | null;
  target: string | null;
  told_ns: number | null;
  holders: number;
  most: Holder[];
  grown: Holder[];
  near: Holder[];
  targets: TargetSpace[];
  hidden: boolean;
}

export interface UsageAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  fs?: string;
  target?: string;
  kind?: "" | "group" | "project" | "user";
  limit?: number;
}

export interface Usual {
  kind: string;
  runs: RunLike[];
  rate_p25: number | null;
  rate_p50: number | null;
  rate_p75: number | null;
  like: string;
}

export interface Volumes {
  schema: string;
  from_ns: number;
  to_ns: number;
  days: DayVolume[];
  missing: string[];
}

export interface WaitClass {
  op_class: string;
  requests: number;
  wait: number[];
  service: number[];
  wait_p50_ns: number | null;
  wait_p95_ns: number | null;
  wait_p99_ns: number | null;
  service_p50_ns: number | null;
  service_p95_ns: number | null;
  service_p99_ns: number | null;
}

export interface Waits {
  schema: string;
  layer: string;
  from_ns: number;
  to_ns: number;
  component: string | null;
  bins_ns: number[];
  classes: WaitClass[];
  queue_bins: number[];
  queue: number[];
  queue_mean: number | null;
  missing: string[];
}

export interface WaitsAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  component?: string;
}

export interface Welcome {
  schema: string;
  name: string;
  url: string;
  expires_ns: number;
}

export interface WhatIf {
  schema: string;
  from_ns: number;
  to_ns: number;
  headline: string;
  simulated: boolean;
  jobs: number;
  quiet_jobs: number;
  running_jobs: number;
  core_hours: number;
  price_per_core_hour: number | null;
  best: number | null;
  scenarios: Scenario[];
  confidence: BasisLine[];
  checks: Check[];
  held_out: HeldOut | null;
  dropped: DroppedLine[];
  layers: LayerLine[];
  missing: string[];
  hidden: boolean;
}

export interface WhatIfAsked {
  since?: string;
  until?: string;
  last?: string;
  policies?: string[];
  layer?: "" | "both" | "forwarders" | "targets";
  forwarders?: number | null;
  targets?: number | null;
  price?: number | null;
  limit?: number;
  seed?: number;
}

export interface WhatIfPolicies {
  schema: string;
  policies: PolicyLine[];
  allocations: PolicyLine[];
  placements: PolicyLine[];
  usual: string[];
}

export interface WhatIfProgress {
  step: string;
  text: string;
  share: number;
  jobs: number | null;
  replay: number | null;
  replays: number | null;
}

export interface WhatIfRun {
  id: string;
  owner: string;
  state: "cancelled" | "done" | "failed" | "queued" | "running";
  asked: WhatIfAsked;
  from_ns: number;
  to_ns: number;
  asked_ns: number;
  started_ns: number | null;
  ended_ns: number | null;
  command: string;
  before: number | null;
  progress: WhatIfProgress | null;
  headline: string | null;
  jobs: number | null;
  error: string | null;
  remedy: string | null;
}

export interface WhatIfRunPage {
  schema: string;
  run: WhatIfRun;
  answer: WhatIf | null;
}

export interface WhatIfRuns {
  schema: string;
  runs: WhatIfRun[];
  kept: number;
}

export interface Why {
  schema: string;
  job: JobRow;
  verdict: string;
  headline: string;
  summary: JobSummary | null;
  phases: PhaseLine[];
  expected_s: number | null;
  lost_s: number | null;
  usual: Usual[];
  taken: LostTime[];
  findings: StoredFinding[];
  advice: Advice[];
  hurt: Hurt[];
  runs: RunsOfProgram | null;
  alike: AlikeRun[];
  courses: Course[];
  missing: string[];
  other_runs: number;
  grade: string | null;
  same_number: JobRow[];
}

export interface WhyAsked {
  last?: string;
  from?: string;
  to?: string;
  at?: string;
  cluster?: string;
}

export interface Answers {
  job_timeline: JobTimeline;
  job_ranks: Ranks;
  job_files: JobFiles;
  job_requests: JobRequests;
  mine: MyJobs;
  now: Now;
  layer_hours: HeatMap;
  layer_cdf: Cdf;
  layer_waits: Waits;
  layer_component: ComponentLook;
  layer: Layer;
  own_health: OwnHealth;
  volumes: Volumes;
  jobs: Jobs;
  why: Why;
  job_efficiency: JobEfficiency;
  job: JobPage;
  findings: Findings;
  finding: Explanation;
  behaviour: Behaviour;
  system: System;
  node: NodePage;
  cdf: Cdf;
  targets: Targets;
  target: ComponentPage;
  mds: Mds;
  heatmap: HeatMap;
  forwarder: ComponentPage;
  top: Top;
  usage: Usage;
  ports: Ports;
  devices: Devices;
  component_health: ComponentHealth;
  health: Health;
}

export interface Parameters {
  job_timeline: RunAsked;
  job_ranks: RanksAsked;
  job_files: FilesAsked;
  job_requests: RequestsAsked;
  mine: MineAsked;
  now: NowAsked;
  layer_hours: LoadAsked;
  layer_cdf: LoadAsked;
  layer_waits: WaitsAsked;
  layer_component: ComponentAsked;
  layer: LayerAsked;
  own_health: OwnHealthAsked;
  volumes: TimeParameters;
  jobs: JobsAsked;
  why: WhyAsked;
  job_efficiency: WhyAsked;
  job: JobAsked;
  findings: FindingsAsked;
  finding: FindingAsked;
  behaviour: BehaviourAsked;
  system: PageAsked;
  node: PageAsked;
  cdf: LoadAsked;
  targets: TimeParameters;
  target: PageAsked;
  mds: MdsAsked;
  heatmap: LoadAsked;
  forwarder: PageAsked;
  top: TopAsked;
  usage: UsageAsked;
  ports: PortsAsked;
  devices: DevicesAsked;
  component_health: ComponentsAsked;
  health: HealthAsked;
}

export const PATHS: Record<keyof Answers, string> = {
  job_timeline: "jobs/{name}/timeline",
  job_ranks: "jobs/{name}/ranks",
  job_files: "jobs/{name}/files",
  job_requests: "jobs/{name}/requests",
  mine: "mine",
  now: "now",
  layer_hours: "layers/{name}/hours",
  layer_cdf: "layers/{name}/cdf",
  layer_waits: "layers/{name}/waits",
  layer_component: "layers/{name}/component",
  layer: "layers/{name}",
  own_health: "health/own",
  volumes: "volumes",
  jobs: "jobs",
  why: "jobs/{name}/why",
  job_efficiency: "jobs/{name}/seff",
  job: "jobs/{name}",
  findings: "findings",
  finding: "findings/{name}",
  behaviour: "behaviour",
  system: "system",
  node: "nodes/{name}",
  cdf: "targets/cdf",
  targets: "targets",
  target: "targets/{name}",
  mds: "mds",
  heatmap: "forwarders/heatmap",
  forwarder: "forwarders/{name}",
  top: "top/{name}",
  usage: "usage",
  ports: "ports",
  devices: "devices",
  component_health: "health/components",
  health: "health",
};
