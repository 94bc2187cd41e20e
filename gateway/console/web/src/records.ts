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

const WORDS: Record<string, string> = {
  'replica.start': 'started', 'replica.stop': 'stopped', 'replica.drain': 'drains', 'job.submit': 'submitted', 'job.start': 'started', 'job.stop': 'stopped',
};

// "job.submit" as words.
export function actionWords(action: string): string {
  return WORDS[action] ?? action.replace(/[._]/g, ' ');
}
