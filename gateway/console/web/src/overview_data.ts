// The state of the whole in one object: told by the feed of events, or read by the clock where there is none.
import { useMemo } from 'preact/hooks';
import { ApiError } from './api';
import type { ModelNow, Overview } from './api_types';
import { type DevicePlace, placesOf, useHoldings, useNodes } from './cluster_data';
import { type Fetched, live, useGet } from './data';
import { latest } from './feed';

export type { ModelNow };
export interface Held { holder: string; kind: string; devices: number }

export interface OverviewNow extends Omit<Overview, 'at' | 'devices'> {
  at: number;
  places: DevicePlace[];
  devices: Omit<Overview['devices'], 'by_holder'> & { by_holder: Held[] };
}

const EVERY_MS = 2000;

export function useOverview(): { value?: OverviewNow; error?: Error; at: number } {
  const told = live.value ? latest.value : undefined;
  const read = useGet(told ? null : '/admin/v1/overview', { everyMs: EVERY_MS });
  // While the gateway does not answer, what it told last stands.
  const from: Fetched<Overview> = told ?? (read.value || read.error instanceof ApiError ? read : latest.value ?? read);
  const nodes = useNodes();
  const holdings = useHoldings();
  const value = useMemo((): OverviewNow | undefined => {
    const of = from.value;
    if (!of) return undefined;
    return {
      ...of,
      at: Date.parse(of.at),
      places: placesOf(nodes.value?.data ?? [], holdings),
      devices: { ...of.devices, by_holder: of.devices.by_holder.map((each) => ({ ...each, holder: each.holder ?? 'others' })) },
    };
  }, [from.value, nodes.value, holdings]);
  return { at: from.at, ...(value ? { value } : {}), ...(from.error ? { error: from.error } : {}) };
}
