// Records of the ledger, as pages show them.

export interface LedgerRecord {
  seq: number;
  time_us: number;
  kind: string;
  action?: string;
  actor?: string;
  subject?: string;
  tenant?: string;
  detail?: Record<string, unknown> | string;
  [member: string]: unknown;
}

export function detailOf(record: LedgerRecord): Record<string, unknown> {
  if (typeof record.detail === 'string') {
    try { return JSON.parse(record.detail); } catch { return {}; }
  }
  return record.detail ?? {};
}

export function reasonOf(record: LedgerRecord): string {
  const detail = detailOf(record);
  const reason = detail['reason'] ?? detail['why'] ?? record['reason'];
  return typeof reason === 'string' ? reason : '';
}

const WORDS: { [action: string]: string } = {
  'replica.launch': 'started', 'replica.ready': 'is ready', 'replica.drain': 'drains', 'replica.stop': 'stopped', 'replica.adopt': 'was found running', 'replica.sleep': 'falls asleep', 'replica.wake': 'wakes',
  'job.submit': 'was submitted', 'job.start': 'started', 'job.stop': 'stopped', 'job.ended': 'ended', 'job.suspend': 'is suspended', 'job.resume': 'is resumed',
  'job.cancel': 'was cancelled', 'job.preempt': 'makes room', 'job.resize': 'changes its size', 'job.move': 'moves', 'job.retry': 'starts again', 'job.read_log': ': its output was read',
  'model.pause': 'is paused', 'model.resume': 'takes requests again', 'model.hold': 'is held', 'model.release': 'is released',
  'rollout.begin': 'begins to roll out a version', 'rollout.open': 'gives the new version its share', 'rollout.next': 'goes to the next step of its rollout',
  'rollout.promote': 'promotes its new version', 'rollout.roll_back': 'rolls its new version back', 'rollout.abort': 'ends the rollout of its new version',
  'adapter.load': 'is loaded', 'adapter.unload': 'is unloaded', 'adapter.refused': 'is refused by the engines', 'adapter.displace': 'makes room for another adapter', 'adapter.gone': 'has left the engines',
  'scale.set': 'is scaled', 'scale.changed_elsewhere': 'was scaled by somebody else',
  'node.drain': 'is drained', 'node.undrain': 'takes new work again',
  'node.cordon': 'was cordoned', 'node.uncordon': 'was uncordoned', 'node.suspect': 'is suspected', 'node.trust': 'is trusted again',
  'weights.prefetch': 'fetches weights beforehand',
  'node.join': 'has joined the cluster', 'node.leave': 'has left the cluster', 'node.change': 'has changed', 'nodes.found': ': its nodes were read',
  'device.quarantine': 'is set aside', 'device.trust': 'is trusted again', 'device.cap': 'gets a lower power limit', 'device.uncap': 'has its usual power limit', 'session.begin': 'signed in', 'session.end': 'signed out',
  'command_line.confirm': 'signed a command line in', 'command_line.refuse': 'refused a command line',
};

// "job.submit" as words.
export function actionWords(action: string): string {
  return WORDS[action] ?? action.replace(/[._]/g, ' ');
}
