// The devices with what holds them: a model, by its replica, or a job.
import type { DeviceMeasures, Job, Node, Replica } from './api_types';
import { useMemo } from 'preact/hooks';
import { useAll } from './data';
import { may, scales } from './me';

export interface Holding {
  id: string; // of the replica or the job
  holder: string; // the model's or the job's name
  kind: 'model' | 'job';
  replica?: Replica;
  job?: Job;
}

export interface DevicePlace {
  node: Node;
  device: number;
  kind: string;
  state: 'held' | 'free' | 'cordoned' | 'faulty';
  reason: string | null;
  free: number;
  holdings: Holding[];
  measured?: DeviceMeasures;
}

const EVERY_MS = 3000;

// What holds devices, by the id of the replica or the job; the same object until something has changed.
export function useHoldings(): Map<string, Holding> {
  const replicas = useAll(scales() && may('see_replicas') ? '/admin/v1/replicas' : null, { everyMs: EVERY_MS }).value;
  const jobs = useAll(scales() && may('see_jobs') ? '/admin/v1/jobs' : null, { query: { state: 'open' }, everyMs: EVERY_MS }).value;
  return useMemo(() => {
    const found = new Map<string, Holding>();
    for (const replica of replicas?.data ?? []) found.set(replica.id, { id: replica.id, holder: replica.model, kind: 'model', replica });
    for (const job of jobs?.data ?? []) found.set(job.id, { id: job.id, holder: job.name, kind: 'job', job });
    return found;
  }, [replicas, jobs]);
}

export function holdingOf(id: string, holdings: Map<string, Holding>): Holding {
  // A replica that has just gone is known by its name alone.
  return holdings.get(id) ?? { id, holder: id.replace(/[-.][\d.]+$/, ''), kind: 'job' };
}

export function placesOf(nodes: Node[], holdings: Map<string, Holding>): DevicePlace[] {
  return nodes.flatMap((node) => node.each.map((device): DevicePlace => {
    const held = device.held_by.map((id) => holdingOf(id, holdings));
    const faulty = !device.healthy || ['down', 'failed', 'gone'].includes(node.health);
    const cordoned = device.cordoned || ['cordoned', 'suspect', 'draining', 'drained', 'quarantined'].includes(node.health);
    return {
      node,
      device: device.device,
      kind: node.kind ?? '',
      state: faulty ? 'faulty' : held.length > 0 ? 'held' : cordoned ? 'cordoned' : 'free',
      reason: device.reason ?? node.health_reason,
      free: device.free,
      holdings: held,
      measured: device.measured,
    };
  }));
}

export function useNodes() {
  return useAll(scales() && may('see_cluster') ? '/admin/v1/nodes' : null, { everyMs: EVERY_MS });
}
