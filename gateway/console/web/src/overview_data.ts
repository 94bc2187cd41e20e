// The state of the whole in one object, and its last hour.
import { signal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { useAll, useGet } from './data';
import { type DevicePlace, placesOf, useHoldings, useNodes } from './cluster_data';
import { may } from './me';

export interface ModelNow {
  model: string;
  wanted: number;
  ready: number;
  starting: number;
  draining: number;
  demand: number;
  capacity: number; // replicas that take requests
  waiting: number;
  running: number;
  requests_per_second: number;
  tokens_per_second: number;
  ttft_p50_ms: number | null;
  ttft_p90_ms: number | null;
  slo_ttft_ms: number | null;
  slo_attainment: number | null;
  scaled: boolean;
  min: number;
  max: number;
  reason: string;
  trouble: string | null;
}

export interface Held { holder: string; kind: 'model' | 'job'; devices: number }

export interface OverviewNow {
  at: number;
  models: ModelNow[];
  places: DevicePlace[];
  devices: { total: number; free: number; faulty: number; cordoned: number; by_holder: Held[] };
  jobs: { running: number; waiting: number };
  conditions: { part: string; detail: string; fatal: boolean }[];
}

const EVERY_MS = 2000;

// The limit of the first token of each model, as its policy has it; pages that read a history leave it here.
export const slos = signal<ReadonlyMap<string, number>>(new Map());

const UNITS: { [unit: string]: number } = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

export function sloOf(policy: { [member: string]: unknown }): number | undefined {
  const text = (policy['slo'] as { ttft?: string } | undefined)?.ttft;
  const parts = /^([\d.]+)(ms|s|m|h)$/.exec(text ?? '');
  return parts ? Number(parts[1]) * UNITS[parts[2]!]! : undefined;
}

export function useOverview(): { value?: OverviewNow; error?: Error; at: number } {
  const scaling = useAll('/admin/v1/scaling', { everyMs: EVERY_MS });
  const traffic = useAll('/admin/v1/traffic', { everyMs: EVERY_MS });
  const jobs = useAll(may('see_jobs') ? '/admin/v1/jobs' : null, { query: { state: 'open' }, everyMs: EVERY_MS });
  const readiness = useGet('/readyz', { everyMs: 5000 });
  const nodes = useNodes();
  const holdings = useHoldings();
  const at = Math.max(scaling.at, traffic.at, nodes.at, jobs.at);
  const value = useMemo(() => {
    if (!traffic.value) return undefined;
    const models = traffic.value.data.map((now): ModelNow => {
      const of = scaling.value?.data.find((each) => each.model === now.model);
      const ttft = now.first_token_ms;
      const inTime = of?.classes.reduce((sum, each) => sum + each.first_tokens_in_time, 0) ?? 0;
      const late = of?.classes.reduce((sum, each) => sum + each.first_tokens_late + each.first_tokens_hopeless, 0) ?? 0;
      return {
        model: now.model,
        wanted: of?.wanted ?? 0,
        ready: of?.ready ?? 0,
        starting: (of?.launching ?? 0) + (of?.warming ?? 0),
        draining: (of?.draining ?? 0) + (of?.stopping ?? 0),
        demand: of?.demand ?? 0,
        capacity: of?.ready ?? 0,
        waiting: now.waiting,
        running: now.outstanding_requests,
        requests_per_second: now.requests_per_second,
        tokens_per_second: now.output_tokens_per_second,
        ttft_p50_ms: ttft?.p50 ?? null,
        ttft_p90_ms: ttft?.p90 ?? null,
        slo_ttft_ms: slos.value.get(now.model) ?? null,
        slo_attainment: inTime + late > 0 ? inTime / (inTime + late) : null,
        scaled: of !== undefined,
        min: of?.min ?? 0,
        max: of?.max ?? 0,
        reason: of?.reason ?? '',
        trouble: of?.trouble ?? null,
      };
    });
    const places = placesOf(nodes.value?.data ?? [], holdings);
    const held = new Map<string, Held>();
    for (const place of places) {
      for (const each of place.holdings) {
        const known = held.get(each.holder) ?? { holder: each.holder, kind: each.kind, devices: 0 };
        known.devices += 1 / place.holdings.length;
        held.set(each.holder, known);
      }
    }
    return {
      at,
      models,
      places,
      devices: {
        total: places.length,
        free: places.filter((place) => place.state === 'free').length,
        faulty: places.filter((place) => place.state === 'faulty').length,
        cordoned: places.filter((place) => place.state === 'cordoned').length,
        by_holder: [...held.values()],
      },
      jobs: {
        running: jobs.value?.data.filter((job) => ['running', 'starting', 'saving', 'stopping'].includes(job.state)).length ?? 0,
        waiting: jobs.value?.data.filter((job) => job.state === 'pending').length ?? 0,
      },
      conditions: [...(readiness.value?.degraded ?? []), ...(readiness.value?.warnings ?? [])],
    };
  }, [at, readiness.at, holdings, slos.value]);
  const error = traffic.error ?? scaling.error;
  return { at, ...(value ? { value } : {}), ...(error ? { error } : {}) };
}
