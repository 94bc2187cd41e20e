// The devices with what holds them: a model, by its replica, or a job.
import type { Gets, Job, Node, Replica } from './api_types';
import { useGet } from './data';
import { may } from './me';

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
}

const EVERY_MS = 3000;

export function useHoldings(): Map<string, Holding> {
  const replicas = useGet(may('see_replicas') ? '/admin/v1/replicas' : null, { query: { limit: 1000 }, everyMs: EVERY_MS }).value?.data ?? [];
  const jobs = useGet(may('see_jobs') ? '/admin/v1/jobs' : null, { query: { state: 'open', limit: 1000 }, everyMs: EVERY_MS }).value?.data ?? [];
  const found = new Map<string, Holding>();
  for (const replica of replicas) found.set(replica.id, { id: replica.id, holder: replica.model, kind: 'model', replica });
  for (const job of jobs) found.set(job.id, { id: job.id, holder: job.name, kind: 'job', job });
  return found;
}

export function holdingOf(id: string, holdings: Map<string, Holding>): Holding {
  // A replica that has just gone is known by its name alone.
  return holdings.get(id) ?? { id, holder: id.replace(/[-.][\d.]+$/, ''), kind: 'job' };
}

export function placesOf(nodes: Node[], holdings: Map<string, Holding>): DevicePlace[] {
  return nodes.flatMap((node) => node.each.map((device): DevicePlace => {
    const held = device.held_by.map((id) => holdingOf(id, holdings));
    const faulty = !device.healthy || ['down', 'failed', 'gone'].includes(node.health);
    const cordoned = device.cordoned || ['cordoned', 'suspect', 'draining'].includes(node.health);
    return {
      node,
      device: device.device,
      kind: node.kind ?? '',
      state: faulty ? 'faulty' : held.length > 0 ? 'held' : cordoned ? 'cordoned' : 'free',
      reason: device.reason ?? node.health_reason,
      free: device.free,
      holdings: held,
    };
  }));
}

export function useNodes() {
  return useGet(may('see_cluster') ? '/admin/v1/nodes' : null, { query: { limit: 1000 }, everyMs: EVERY_MS });
}

export type NodeList = Gets['/admin/v1/nodes'];
