// The types of the admin API. Made by generate_types.mjs from its OpenAPI document.

export type Alive = {
  status: string;
};

export type ApiError = {
  error: ErrorObject;
};

export type ErrorObject = {
  message: string;
  type: string;
  param: string | null;
  code: string;
  request_id?: string;
  details?: ErrorDetail[];
};

export type ErrorDetail = {
  param: string;
  message: string;
};

export type Readiness = {
  ready: boolean;
  status: string;
  degraded: Condition[];
  warnings: Condition[];
  scaling: boolean;
  config_sha256: string;
  version: string;
};

export type Condition = {
  part: string;
  detail: string;
  fatal: boolean;
};

export type ApiDocument = { [member: string]: unknown };

export type Overview = {
  at: string;
  models: ModelNow[];
  devices: DevicesNow;
  jobs: JobsNow;
  conditions: Condition[];
};

export type ModelNow = {
  model: string;
  scaled: boolean;
  min: number;
  max: number;
  wanted: number;
  ready: number;
  starting: number;
  draining: number;
  sleeping: number;
  asleep: boolean;
  capacity: number;
  demand: number;
  waiting: number;
  running: number;
  requests_per_second: number;
  tokens_per_second: number;
  ttft_p50_ms: number | null;
  ttft_p90_ms: number | null;
  slo_ttft_ms: number | null;
  slo_attainment: number | null;
  reason: string;
  trouble: string | null;
  paused: ModelOrder | null;
  held: ModelOrder | null;
};

export type ModelOrder = {
  by: string;
  reason: string;
  since: string;
  until: string | null;
  replicas: number | null;
};

export type DevicesNow = {
  total: number;
  free: number;
  faulty: number;
  cordoned: number;
  allocation_rate: number | null;
  occupation_rate: number | null;
  node_fragmentation_rate: number | null;
  fragmented_share: number | null;
  waiting: number;
  by_holder: HeldDevices[];
};

export type HeldDevices = {
  holder: string | null;
  kind: string;
  devices: number;
};

export type JobsNow = {
  running: number;
  waiting: number;
};

export type Me = {
  actor: string;
  name: string;
  kind: string;
  roles: RoleOf[];
  permissions: string[];
  tenants: string[];
  models: string[];
  base_url: string;
  scaling: boolean;
  csrf: string | null;
  session_ends: string | null;
  last_event: string | null;
};

export type RoleOf = {
  role: string;
  tenant: string | null;
};

export type SignInWays = {
  providers: SignInProvider[];
};

export type SignInProvider = {
  name: string;
  label: string;
  url: string;
};

export type SignInLink = {
  url: string;
  ends: string;
};

export type TerminalSession = {
  state: string;
  token: string | null;
  actor: string | null;
  name: string | null;
  ends: string | null;
};

export type NewTerminalSignIn = {
  code: string;
  secret: string;
  url: string;
  ends: string;
  interval_ms: number;
};

export type TerminalSignIn = {
  code: string;
  address: string;
  client: string;
  ends: string;
};

export type SessionList = {
  object: string;
  data: Session[];
  has_more: boolean;
  next?: string;
};

export type Session = {
  id: string;
  actor: string;
  name: string;
  email: string;
  provider: string;
  roles: RoleOf[];
  created: string;
  seen: string;
  ends: string;
  address: string;
  client: string;
  command_line: boolean;
  current: boolean;
};

export type EndedSession = {
  id: string;
  url: string | null;
};

export type TenantList = {
  object: string;
  data: Tenant[];
  has_more: boolean;
  next?: string;
};

export type Tenant = {
  path: string;
  name: string;
  parent: string | null;
  models: string[];
  endpoints: string[];
  priority: string;
  weight: number;
  store_content: string;
  at_run_time: boolean;
  state: string;
  self_service: boolean;
  may_change: boolean;
  may_add: boolean;
  limits?: { [member: string]: unknown };
  made_by: string | null;
  made: string | null;
};

export type RemovedTenant = {
  path: string;
  revoked_keys: number;
};

export type TenantMemberList = {
  object: string;
  data: TenantMember[];
  has_more: boolean;
  next?: string;
};

export type TenantMember = {
  id: string;
  tenant: string;
  who: string;
  role: string;
  added_by: string;
  added: string;
};

export type GrantList = {
  object: string;
  data: Grant[];
  has_more: boolean;
  next?: string;
};

export type Grant = {
  id: string;
  tenant: string;
  state: string;
  models: string[];
  limits?: { [member: string]: unknown };
  weight: number | null;
  devices: GrantedDevices | null;
  job_queue: string | null;
  in_words: string;
  from: string;
  until: string;
  reason: string;
  asked_by: string;
  approved_by: string;
  request: string | null;
  ended: string | null;
  ended_by: string;
  may_end: boolean;
  may_renew: boolean;
};

export type GrantedDevices = {
  kind: string;
  count: number;
};

export type GrantRequestList = {
  object: string;
  data: GrantRequest[];
  has_more: boolean;
  next?: string;
};

export type GrantRequest = {
  id: string;
  tenant: string;
  state: string;
  models: string[];
  limits?: { [member: string]: unknown };
  weight: number | null;
  devices: GrantedDevices | null;
  in_words: string;
  from: string | null;
  until: string;
  reason: string;
  asked_by: string;
  asked: string;
  expires: string;
  decided_by: string;
  decided: string | null;
  answer: string;
  grant: string | null;
  renews: string | null;
  comments: RequestComment[];
  may_decide: boolean;
  may_withdraw: boolean;
  may_comment: boolean;
};

export type RequestComment = {
  by: string;
  at: string;
  text: string;
};

export type ModelList = {
  object: string;
  data: Model[];
  has_more: boolean;
  next?: string;
};

export type Model = {
  name: string;
  aliases: string[];
  routing: string;
  price: Price;
  batch_price: Price | null;
  context: number | null;
  max_output_tokens: number | null;
  endpoints: string[];
  lora: Lora | null;
  fallbacks: string[];
  paused: ModelOrder | null;
  held: ModelOrder | null;
  loads_adapters: boolean;
};

export type Price = {
  input: string | null;
  cached_input: string | null;
  cache_write: string | null;
  output: string | null;
  image: string | null;
  audio_second: string | null;
  characters: string | null;
};

export type Lora = {
  base: string;
  adapter: string;
};

export type OrdersForModel = {
  model: string;
  paused: ModelOrder | null;
  held: ModelOrder | null;
};

export type RunTimeAdapterList = {
  object: string;
  data: RunTimeAdapter[];
  has_more: boolean;
  next?: string;
};

export type RunTimeAdapter = {
  name: string;
  model: string | null;
  base: string;
  source: string;
  by: string;
  since: string;
  state: string;
  replicas: AdapterPlace[];
};

export type AdapterPlace = {
  replica: string;
  state: string;
  why: string | null;
  used: string | null;
};

export type RolloutList = {
  object: string;
  data: Rollout[];
  has_more: boolean;
  next?: string;
};

export type Rollout = {
  model: string;
  version: string;
  from: string | null;
  state: string;
  step: number;
  steps: number[];
  percent: number;
  began: string;
  since: string;
  reason: string;
  by: string;
  waits_for: string | null;
  wanted_replicas: number;
  new: VersionFigures;
  old: VersionFigures;
};

export type VersionFigures = {
  ready: number;
  tries: number;
  failures: number;
  ttft_ms: number | null;
  tokens_per_second: number | null;
  rated: number | null;
  rated_true: number | null;
};

export type EndpointList = {
  object: string;
  data: Endpoint[];
  has_more: boolean;
  next?: string;
};

export type Endpoint = {
  id: string;
  model: string;
  name: string;
  url: string;
  source: string | null;
  engine: string;
  role: string;
  weight: number;
  endpoints: string[];
  health: string;
  breaker: string;
  resting: boolean;
  standing: string;
  unused_because: string | null;
  outstanding_requests: number;
  outstanding_tokens: number;
  adapters: Adapters | null;
  kv_events: string | null;
};

export type Adapters = {
  loaded: string[];
  loading: string[];
  lacking: string[];
  others: number;
  slots: number | null;
  load_ms: number | null;
};

export type QueueList = {
  object: string;
  data: Queue[];
  has_more: boolean;
  next?: string;
};

export type Queue = {
  model: string;
  enabled: boolean;
  waiting: number;
  bytes: number;
  max_requests: number;
  max_bytes: number;
  expected_wait_ms: number | null;
  drain_per_second: number;
  replicas: number;
  replicas_with_room: number;
  bands: Band[];
  requests: Waiting[];
};

export type Band = {
  name: string;
  reserved: number;
  waiting: number;
  bytes: number;
  oldest_ms: number;
};

export type Waiting = {
  request_id: string;
  tenant: string;
  band: string;
  ahead: number;
  waited_ms: number;
  expected_wait_ms: number | null;
  reason: string;
};

export type TrafficList = {
  object: string;
  data: Traffic[];
  has_more: boolean;
  next?: string;
};

export type Traffic = {
  model: string;
  window_s: number;
  requests_per_second: number;
  errors_per_second: number;
  output_tokens_per_second: number;
  outstanding_requests: number;
  waiting: number;
  first_token_ms: Quantiles | null;
  inter_token_ms: Quantiles | null;
  classes: TrafficOfClass[];
};

export type Quantiles = {
  p50: number;
  p90: number;
  p99: number;
};

export type TrafficOfClass = {
  class: string;
  requests_per_second: number;
  prompt_tokens_per_second: number;
  refusals_per_second: number;
  first_token_ms: Quantiles | null;
  inter_token_ms: Quantiles | null;
};

export type GatewayList = {
  object: string;
  data: Gateway[];
  has_more: boolean;
  next?: string;
};

export type Gateway = {
  name: string;
  role: string;
  self: boolean;
  version: string;
  address: string;
  epoch: number;
  since: string;
  seen_ms: number;
  lag: number;
};

export type ReplicaList = {
  object: string;
  data: Replica[];
  has_more: boolean;
  next?: string;
};

export type Replica = {
  id: string;
  model: string;
  version: string | null;
  state: string;
  node: string | null;
  device_kind: string | null;
  devices: string[];
  members: ReplicaMember[];
  address: string | null;
  age_ms: number;
  in_state_ms: number;
  adopted: boolean;
  outstanding_requests: number;
  reason: string;
  weights: ReplicaWeights | null;
  start: ReplicaStart | null;
  replaces: string | null;
  moved: string | null;
  gain: string | null;
};

export type ReplicaMember = {
  rank: number;
  run: string;
  node: string;
  device_kind: string | null;
  devices: string[];
  state: string;
  reason: string | null;
};

export type ReplicaWeights = {
  bytes: number;
  total_bytes: number | null;
};

export type ReplicaStart = {
  placed_ms: number;
  fetched_ms: number;
  process_ms: number;
  loaded_ms: number;
  compiled_ms: number;
  first_token_ms: number;
  weights_bytes: number;
  weights_bytes_of_neighbours: number;
};

export type ScalingList = {
  object: string;
  data: Scaling[];
  has_more: boolean;
  next?: string;
};

export type Scaling = {
  model: string;
  policy: string;
  law: string;
  min: number;
  max: number;
  demand: number;
  wanted: number;
  reason: string;
  headroom: number;
  capacity_by: string;
  lead_time_ms: number | null;
  outstanding_requests: number;
  held_requests: number;
  waiting: number;
  launching: number;
  warming: number;
  ready: number;
  draining: number;
  stopping: number;
  asleep: number;
  waking: number;
  failed_starts: number;
  next_start: string | null;
  trouble: string | null;
  cold_starts: ColdStart[];
  wakes: ColdStart[];
  start_phases: StartPhaseTimes[];
  prefetches: Prefetch[];
  classes: ScalingOfClass[];
};

export type ColdStart = {
  device_kind: string | null;
  starts: number;
  p50_ms: number;
  p90_ms: number;
};

export type StartPhaseTimes = {
  device_kind: string | null;
  phase: string;
  p50_ms: number;
  p90_ms: number;
};

export type Prefetch = {
  run: string;
  node: string;
  age_ms: number;
  reason: string | null;
};

export type ScalingOfClass = {
  class: string;
  requests: number;
  refused_requests: number;
  first_tokens_in_time: number;
  first_tokens_late: number;
  first_tokens_hopeless: number;
  outstanding_requests: number;
  held_requests: number;
  held_prompt_tokens: number;
  oldest_ms: number;
};

export type ScalingHistory = {
  model: string;
  file: string;
  policy: { [member: string]: unknown };
  members: number;
  devices_per_replica: number;
  cold_start_p90_ms: number | null;
  steps: ScalingStep[];
};

export type ScalingStep = {
  at: string;
  seconds: number;
  work: number;
  arrivals_per_second: number;
  outstanding_requests: number;
  held_requests: number;
  occupied: number;
  ready: number;
  there: number;
  demand: number;
};

export type LimitList = {
  object: string;
  data: Limit[];
  has_more: boolean;
  next?: string;
};

export type Limit = {
  id: string;
  scope: string;
  limit: string;
  model: string | null;
  device: string | null;
  unit: string;
  capacity: number;
  share: number;
  used: number;
  reserved: number;
  remaining: number;
  refused_requests: number;
  overrun: number;
  period_start: string | null;
  period_end: string | null;
  per_hour: number | null;
  used_up: string | null;
  thresholds: number[];
};

export type KeyList = {
  object: string;
  data: Key[];
  has_more: boolean;
  next?: string;
};

export type Key = {
  id: string;
  tenant?: string;
  role?: string;
  rights?: string[];
  name?: string;
  models?: string[];
  endpoints?: string[];
  created: string;
  expires?: string;
  priority?: string;
  limits?: { [member: string]: unknown };
  created_by?: string;
  owner?: string;
  rotated_from?: string;
  revoked_at?: string;
  replaced_by?: string;
  overlap_until?: string;
  state: string;
};

export type NewKey = {
  id: string;
  tenant?: string;
  role?: string;
  rights?: string[];
  name?: string;
  models?: string[];
  endpoints?: string[];
  created: string;
  expires?: string;
  priority?: string;
  limits?: { [member: string]: unknown };
  created_by?: string;
  owner?: string;
  rotated_from?: string;
  revoked_at?: string;
  replaced_by?: string;
  overlap_until?: string;
  state: string;
  secret: string;
};

export type LoggedRoute = {
  request: string;
  time: string;
  line: { [member: string]: unknown };
};

export type UsageList = {
  object: string;
  since: string | null;
  until: string | null;
  as_of?: string;
  gateways?: UsageOfGateway[];
  data: UsageRow[];
  has_more: boolean;
  next?: string;
};

export type UsageOfGateway = {
  gateway: string;
  ledger: string;
  self: boolean;
  stopped: boolean;
  as_of: string;
};

export type UsageRow = {
  tenant?: string;
  key?: string;
  model?: string;
  replica?: string;
  api?: string;
  reason?: string;
  hour?: string;
  day?: string;
  job?: string;
  requests: number;
  errors: number;
  failed: number;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  cost_micro_usd: number;
  device_seconds: { [member: string]: number };
  energy_kwh?: number;
  energy_micro_usd?: number;
  co2_grams?: number;
};

export type FeedbackList = {
  object: string;
  since: string | null;
  until: string | null;
  as_of?: string;
  gateways?: UsageOfGateway[];
  data: FeedbackRow[];
  has_more: boolean;
  next?: string;
};

export type FeedbackRow = {
  tenant?: string;
  key?: string;
  model?: string;
  version?: string;
  replica?: string;
  hour?: string;
  day?: string;
  name: string;
  type: string;
  count: number;
  positive?: number;
  rate?: number;
  rate_low?: number;
  rate_high?: number;
  mean?: number;
  min?: number;
  max?: number;
  value?: string;
};

export type DatasetPage = {
  object: string;
  lines: string[];
  counts: DatasetCounts;
  rules: string[];
  redactions: { [member: string]: number };
  has_more: boolean;
  next_from_seq: number;
};

export type DatasetCounts = {
  requests: number;
  examples: number;
  corrected: number;
  not_kept: number;
  erased: number;
  cut: number;
  unreadable: number;
  other_api: number;
  not_redacted: number;
};

export type EvaluationList = {
  object: string;
  data: Evaluation[];
  has_more: boolean;
  next?: string;
};

export type Evaluation = {
  id: string;
  tenant: string;
  set: string;
  models: string[];
  state: string;
  created: string;
  ended?: string;
  lines: number;
  completed: number;
  failed: number;
};

export type EvaluationPage = {
  object: string;
  evaluation: Evaluation;
  models: ModelSummary[];
  data: ComparedRow[];
  examples: number;
  has_more: boolean;
  next?: string;
};

export type ModelSummary = {
  model: string;
  answered: number;
  failed: number;
  as_reference: number;
  input_tokens: number;
  output_tokens: number;
  cost_usd: number;
  latency_mean_s?: number;
  latency_p50_s?: number;
  latency_p95_s?: number;
};

export type ComparedRow = {
  question: string;
  reference: string;
  answers: ComparedAnswer[];
};

export type ComparedAnswer = {
  text: string;
  error: string;
  input_tokens?: number;
  output_tokens?: number;
  cost_usd?: number;
  latency_s?: number;
};

export type Statement = {
  tenant: string;
  month: string;
  state: string;
  ledgers?: string[];
  behind?: string[];
  as_of?: string | null;
  lines: { [member: string]: unknown }[];
  total: { [member: string]: unknown };
  digest: string;
};

export type RecordList = {
  object: string;
  data: ApiRecord[];
  has_more: boolean;
  next_from_seq: number;
};

export type ApiRecord = {
  seq: number;
  time_us: number;
  kind: string;
};

export type Proof = {
  record: number;
  previous: string;
  lines: string[];
};

export type Verification = {
  state: string;
  by: string;
  began: string | null;
  ended: string | null;
  done_bytes: number;
  total_bytes: number;
  records: number;
  segments: number;
  first_seq: number;
  last_seq: number;
  last_chain: string;
  checkpoints: number;
  last_checkpoint_seq: number;
  unsigned_records: number;
  first_bad: BadRecord | null;
  why: string;
};

export type BadRecord = {
  segment: string;
  line: number;
  seq: number;
  why: string;
};

export type ErasedContent = {
  tenant: string;
  at: string;
  erased: ErasedKey[];
};

export type ErasedKey = {
  tenant: string;
  key: string;
};

export type JobSubmission = {
  object: string;
  jobs: string[];
  differences?: string[];
};

export type JobList = {
  object: string;
  data: Job[];
  has_more: boolean;
  next?: string;
};

export type Job = {
  id: string;
  name: string;
  work: string;
  state: string;
  since: string;
  reason: string;
  queue: string;
  tenant: string | null;
  user: string;
  priority: number;
  submitted: string;
  members: number;
  min_members: number;
  max_members: number;
  devices: number;
  attempt: number;
  restarts: number;
  moved: string | null;
  gain: string | null;
};

export type JobComparison = {
  metric: string | null;
  maximize: boolean;
  leads: string | null;
  device_hours: number;
  jobs: ComparedJob[];
};

export type ComparedJob = {
  id: string;
  state: string;
  parameters: NamedValue[] | null;
  seed: number;
  step: number | null;
  value: number | null;
  best: number | null;
  rungs: number;
  stopped: string | null;
  unread: string | null;
  device_hours: number;
  devices: string[];
  attempt: number;
};

export type NamedValue = {
  name: string;
  value: string;
};

export type JobDetail = {
  id: string;
  name: string;
  work: string;
  state: string;
  since: string;
  reason: string;
  queue: string;
  tenant: string | null;
  user: string;
  priority: number;
  submitted: string;
  members: number;
  min_members: number;
  max_members: number;
  devices: number;
  attempt: number;
  restarts: number;
  moved: string | null;
  gain: string | null;
  runs: JobMember[];
  file: string | null;
  parameters: NamedValue[] | null;
  provenance: JobProvenance;
};

export type JobMember = {
  rank: number;
  run: string;
  node: string;
  kind: string | null;
  devices: number[];
  state: string;
  exit_code: number | null;
  why: string | null;
};

export type JobProvenance = {
  version: string;
  configuration_sha256: string;
  file_sha256: string;
  command_sha256: string;
  image: string | null;
  seed: number;
  data: NamedValue[];
  rerun_of: string | null;
};

export type JobExplanation = {
  id: string;
  state: string;
  text: string[];
};

export type JobLog = {
  id: string;
  rank: number;
  attempt: number;
  over: boolean;
  cut: boolean;
  next: number;
  text: string;
};

export type NodeList = {
  object: string;
  data: Node[];
  has_more: boolean;
  next?: string;
};

export type Node = {
  name: string;
  health: string;
  health_reason: string | null;
  kind: string | null;
  devices: number;
  free: number;
  each: Device[];
  power_watts?: number;
  power_headroom_watts?: number;
};

export type Device = {
  device: number;
  healthy: boolean;
  cordoned: boolean;
  reason: string | null;
  free: number;
  held_by: string[];
  measured?: DeviceMeasures;
};

export type DeviceMeasures = {
  as_of: string;
  old: boolean;
  source: string;
  lost: boolean;
  utilization?: number;
  memory_used_mib?: number;
  memory_total_mib?: number;
  power_watts?: number;
  power_limit_watts?: number;
  temperature_celsius?: number;
  clock_mhz?: number;
  memory_clock_mhz?: number;
  slowed_by: string[];
  ecc_corrected?: number;
  ecc_uncorrected?: number;
  link_errors?: number;
  energy_kwh: number;
  energy_resets: number;
  energy_gap_seconds: number;
  processes: DeviceProcess[];
  errors: string[];
};

export type DeviceProcess = {
  pid: number;
  memory_mib?: number;
};

export type JobQueueList = {
  object: string;
  data: JobQueue[];
  has_more: boolean;
  next?: string;
};

export type JobQueue = {
  name: string;
  parent: string | null;
  deserved: number;
  share: number;
  used: number;
  asked: number;
  borrowed: number;
  lent: number;
  jobs_running: number;
  jobs_waiting: number;
  usage_device_hours: number;
  oldest_wait_ms: number | null;
  started: number;
  wait_p50_ms: number | null;
  wait_p90_ms: number | null;
};

export type ResourceList = {
  object: string;
  data: Resource[];
  has_more: boolean;
  next?: string;
};

export type Resource = {
  name: string;
  count: number;
  held: number;
  free: number;
  held_by: string[];
  waiting: number;
};

export type Simulation = {
  id: string;
  state: string;
  question: string;
  actor: string;
  created: string;
  progress: number;
  problem: string | null;
  sentences: string[];
  facts: SimulationFact[];
  jobs: SimulatedJob[];
  more_jobs: boolean;
};

export type SimulationFact = {
  name: string;
  today: string | null;
  what_if: string | null;
};

export type SimulatedJob = {
  id: string;
  queue: string;
  asked: boolean;
  today: string | null;
  what_if: string | null;
};

export type SimulationList = {
  object: string;
  data: Simulation[];
  has_more: boolean;
  next?: string;
};

export type Config = {
  sha256: string;
  loaded_at: string;
  reloads: Reloads;
  config: { [member: string]: unknown };
};

export type Reloads = {
  applied: number;
  refused: number;
  last_ok: boolean;
  last_at: string | null;
  why: string;
};

export type AppliedConfig = {
  sha256: string;
  loaded_at: string;
};

// The answers of GET, by path.
export type Gets = {
  "/livez": Alive;
  "/readyz": Readiness;
  "/admin/v1/openapi.json": ApiDocument;
  "/admin/v1/overview": Overview;
  "/admin/v1/me": Me;
  "/admin/v1/sign-in": SignInWays;
  "/admin/v1/terminal-sign-ins/{code}": TerminalSignIn;
  "/admin/v1/sessions": SessionList;
  "/admin/v1/tenants": TenantList;
  "/admin/v1/members": TenantMemberList;
  "/admin/v1/grants": GrantList;
  "/admin/v1/requests": GrantRequestList;
  "/admin/v1/models": ModelList;
  "/admin/v1/models/{base}/adapters": RunTimeAdapterList;
  "/admin/v1/rollouts": RolloutList;
  "/admin/v1/endpoints": EndpointList;
  "/admin/v1/queue": QueueList;
  "/admin/v1/traffic": TrafficList;
  "/admin/v1/gateways": GatewayList;
  "/admin/v1/replicas": ReplicaList;
  "/admin/v1/scaling": ScalingList;
  "/admin/v1/scaling/{model}/history": ScalingHistory;
  "/admin/v1/limits": LimitList;
  "/admin/v1/keys": KeyList;
  "/admin/v1/keys/{id}": Key;
  "/admin/v1/routes/{request}": LoggedRoute;
  "/admin/v1/usage": UsageList;
  "/admin/v1/feedback": FeedbackList;
  "/admin/v1/evaluations": EvaluationList;
  "/admin/v1/evaluations/{id}": EvaluationPage;
  "/admin/v1/statements/{month}": Statement;
  "/admin/v1/audit": RecordList;
  "/admin/v1/audit/records/{record}/proof": Proof;
  "/admin/v1/audit/verification": Verification;
  "/admin/v1/jobs": JobList;
  "/admin/v1/jobs:compare": JobComparison;
  "/admin/v1/jobs/{id}": JobDetail;
  "/admin/v1/jobs/{id}/explain": JobExplanation;
  "/admin/v1/jobs/{id}/logs": JobLog;
  "/admin/v1/nodes": NodeList;
  "/admin/v1/queues": JobQueueList;
  "/admin/v1/resources": ResourceList;
  "/admin/v1/simulations": SimulationList;
  "/admin/v1/simulations/{id}": Simulation;
  "/admin/v1/config": Config;
};

// The bodies and answers of POST, by path.
export type Posts = {
  "/admin/v1/sign-in:link": {
    body: undefined;
    answer: SignInLink;
  };
  "/admin/v1/sign-in:redeem": {
    body: {
      code: string;
    };
    answer: TerminalSession;
  };
  "/admin/v1/terminal-sign-ins": {
    body: undefined;
    answer: NewTerminalSignIn;
  };
  "/admin/v1/terminal-sign-ins/{code}:confirm": {
    body: undefined;
    answer: TerminalSignIn;
  };
  "/admin/v1/terminal-sign-ins/{code}:refuse": {
    body: undefined;
    answer: TerminalSignIn;
  };
  "/admin/v1/terminal-sign-ins/{code}:redeem": {
    body: {
      secret: string;
    };
    answer: TerminalSession;
  };
  "/admin/v1/session:end": {
    body: undefined;
    answer: EndedSession;
  };
  "/admin/v1/sessions/{id}:end": {
    body: undefined;
    answer: EndedSession;
  };
  "/admin/v1/tenants": {
    body: {
      parent: string;
      name: string;
      models?: string[];
      limits?: { [member: string]: unknown };
      weight?: number;
    };
    answer: Tenant;
  };
  "/admin/v1/tenants/{path}:change": {
    body: {
      models?: string[];
      limits?: { [member: string]: unknown };
      weight?: number;
    };
    answer: Tenant;
  };
  "/admin/v1/tenants/{path}:disable": {
    body: undefined;
    answer: Tenant;
  };
  "/admin/v1/tenants/{path}:enable": {
    body: undefined;
    answer: Tenant;
  };
  "/admin/v1/tenants/{path}:remove": {
    body: {
      keys?: string;
    };
    answer: RemovedTenant;
  };
  "/admin/v1/members": {
    body: {
      tenant: string;
      who: string;
      role: string;
    };
    answer: TenantMember;
  };
  "/admin/v1/members:remove": {
    body: {
      tenant: string;
      who: string;
    };
    answer: TenantMember;
  };
  "/admin/v1/grants": {
    body: {
      tenant: string;
      models?: string[];
      limits?: { [member: string]: unknown };
      weight?: number;
      devices?: { [member: string]: unknown };
      from?: string;
      until: string;
      reason?: string;
    };
    answer: Grant;
  };
  "/admin/v1/grants/{id}:change": {
    body: {
      models?: string[];
      limits?: { [member: string]: unknown };
      weight?: number;
      devices?: { [member: string]: unknown };
      until?: string;
      reason?: string;
    };
    answer: Grant;
  };
  "/admin/v1/grants/{id}:end": {
    body: undefined;
    answer: Grant;
  };
  "/admin/v1/requests": {
    body: {
      tenant: string;
      models?: string[];
      limits?: { [member: string]: unknown };
      weight?: number;
      devices?: { [member: string]: unknown };
      from?: string;
      until: string;
      renews?: string;
      reason?: string;
    };
    answer: GrantRequest;
  };
  "/admin/v1/requests/{id}/comments": {
    body: {
      text: string;
    };
    answer: GrantRequest;
  };
  "/admin/v1/requests/{id}:approve": {
    body: {
      models?: string[];
      limits?: { [member: string]: unknown };
      weight?: number;
      devices?: { [member: string]: unknown };
      until?: string;
      answer?: string;
    };
    answer: GrantRequest;
  };
  "/admin/v1/requests/{id}:decline": {
    body: {
      answer: string;
    };
    answer: GrantRequest;
  };
  "/admin/v1/requests/{id}:withdraw": {
    body: undefined;
    answer: GrantRequest;
  };
  "/admin/v1/models/{name}:pause": {
    body: {
      reason?: string;
    };
    answer: OrdersForModel;
  };
  "/admin/v1/models/{name}:resume": {
    body: {
      reason?: string;
    };
    answer: OrdersForModel;
  };
  "/admin/v1/models/{name}:hold": {
    body: {
      reason?: string;
      for?: string;
    };
    answer: OrdersForModel;
  };
  "/admin/v1/models/{name}:release": {
    body: {
      reason?: string;
    };
    answer: OrdersForModel;
  };
  "/admin/v1/models/{base}/adapters": {
    body: {
      name: string;
      source: string;
    };
    answer: RunTimeAdapter;
  };
  "/admin/v1/rollouts/{model}:promote": {
    body: undefined;
    answer: Rollout;
  };
  "/admin/v1/rollouts/{model}:abort": {
    body: {
      reason?: string;
    };
    answer: Rollout;
  };
  "/admin/v1/rollouts/{model}:restart": {
    body: undefined;
    answer: Rollout;
  };
  "/admin/v1/keys": {
    body: {
      tenant?: string;
      role?: string;
      rights?: string[];
      name?: string;
      models?: string[];
      endpoints?: string[];
      expires?: string;
      priority?: string;
      limits?: { [member: string]: unknown };
      owner?: string;
    };
    answer: NewKey;
  };
  "/admin/v1/keys/{id}:rotate": {
    body: {
      overlap?: string;
      expires?: string;
    };
    answer: NewKey;
  };
  "/admin/v1/keys/{id}:revoke": {
    body: {
      reason?: string;
    };
    answer: Key;
  };
  "/admin/v1/datasets:export": {
    body: {
      where?: string;
      since?: string;
      until?: string;
      tenant?: string;
      answers?: string;
      from_seq?: number;
    };
    answer: DatasetPage;
  };
  "/admin/v1/audit:verify": {
    body: undefined;
    answer: Verification;
  };
  "/admin/v1/content:erase": {
    body: {
      tenant: string;
      reason?: string;
    };
    answer: ErasedContent;
  };
  "/admin/v1/jobs": {
    body: {
      job: string;
      file?: string;
      parameters?: string;
    };
    answer: JobSubmission;
  };
  "/admin/v1/jobs/{id}:cancel": {
    body: undefined;
    answer: JobDetail;
  };
  "/admin/v1/jobs/{id}:suspend": {
    body: undefined;
    answer: JobDetail;
  };
  "/admin/v1/jobs/{id}:rerun": {
    body: undefined;
    answer: JobSubmission;
  };
  "/admin/v1/jobs/{id}:resume": {
    body: undefined;
    answer: JobDetail;
  };
  "/admin/v1/nodes/{name}:cordon": {
    body: {
      device?: number;
      reason?: string;
    };
    answer: Node;
  };
  "/admin/v1/nodes/{name}:uncordon": {
    body: {
      device?: number;
    };
    answer: Node;
  };
  "/admin/v1/nodes/{name}:drain": {
    body: {
      reason?: string;
    };
    answer: Node;
  };
  "/admin/v1/nodes/{name}:undrain": {
    body: {
      reason?: string;
    };
    answer: Node;
  };
  "/admin/v1/simulations": {
    body: {
      job?: string;
      add_nodes?: number;
      like?: string;
      quotas?: string[];
      policy?: string;
      scaling?: string;
    };
    answer: Simulation;
  };
  "/admin/v1/simulations/{id}:cancel": {
    body: undefined;
    answer: Simulation;
  };
  "/admin/v1/config:reload": {
    body: undefined;
    answer: AppliedConfig;
  };
};

// The answers of DELETE, by path.
export type Deletes = {
  "/admin/v1/models/{base}/adapters/{name}": RunTimeAdapter;
};
