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
  'created': 'was made', 'rotated': 'was rotated', 'revoked': 'was revoked',
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
  'tenant.create': 'was made', 'tenant.change': 'was changed', 'tenant.remove': 'was removed', 'tenant.disable': 'was disabled', 'tenant.enable': 'was enabled',
  'command_line.confirm': 'signed a command line in', 'command_line.refuse': 'refused a command line',
};

// Of grants and requests, which people know by their tenant and not by an id.
const OF_TENANT: { [action: string]: string } = {
  'grant.give': 'is granted more', 'grant.change': 'has another grant now', 'grant.renew': 'keeps its grant for longer', 'grant.end': 'has a grant no more',
  'request.make': 'asks for more', 'request.comment': 'has a comment on its request', 'request.approve': 'gets what it asked for', 'request.decline': 'does not get what it asked for',
  'request.withdraw': 'asks no more', 'request.expire': 'asked, and nobody decided in time',
};

// Of what, as people know it, and what became of it.
export function deedOf(record: LedgerRecord): { of: string; words: string } {
  const action = record.action ?? '';
  const detail = detailOf(record);
  const subject = record.subject ?? '';
  if (OF_TENANT[action]) return { of: record.tenant ?? subject, words: OF_TENANT[action]! };
  if (action === 'member.set') return { of: String(detail['who']), words: `is ${detail['role']} of ${subject} now` };
  if (action === 'member.remove') return { of: String(detail['who']), words: `is ${detail['role']} of ${subject} no more` };
  const { name } = (detail['key'] ?? {}) as { name?: string };
  if (record.kind === 'key' && name) return { of: `${name} (${subject})`, words: actionWords(action) };
  if (action === 'audit.read') return { of: '', words: `the ledger was read${detail['kind'] ? `: ${String(detail['kind']).replaceAll(',', ', ')}` : ''}` };
  if (subject || record['model']) return { of: subject || String(record['model']), words: actionWords(action || (record.kind === 'close' ? String(record['reason']) : '')) };
  return { of: '', words: action ? actionWords(action) : record.kind };
}

// "job.submit" as words.
function actionWords(action: string): string {
  return WORDS[action] ?? action.replace(/[._]/g, ' ');
}
