// Every page, and the views that are worth a look.
export const PAGES = ['/', '/cluster', '/gateways', '/models', '/queues', '/what-if', '/playground', '/keys', '/usage', '/evaluations', '/limits', '/requests', '/tenants', '/audit', '/start', '/sessions'];

export const VIEWS = [
  ['overview', '/'],
  ['cluster', '/cluster'],
  ['device', (of) => `/cluster?open=node:${of.node}/0`],
  ['gateways', '/gateways'],
  ['models', '/models'],
  ['model', '/models?open=model:chat-small'],
  ['rollout', '/models?open=model:chat-tuned'],
  ['queues', '/queues'],
  ['job', (of) => `/queues?open=job:${of.job}`],
  ['submit', '/queues?new=job'],
  ['what_if', '/what-if'],
  ['playground', '/playground?model=chat-small'],
  ['keys', '/keys'],
  ['new_key', '/keys?new=key'],
  ['usage', '/usage?range=1h'],
  ['evaluations', (of) => `/evaluations?evaluation=${of.evaluation}`],
  ['limits', '/limits'],
  ['requests', '/requests'],
  ['new_request', '/requests?new=request'],
  ['tenants', '/tenants'],
  ['audit', '/audit'],
  ['record', '/audit?open=record:5'],
  ['start', '/start'],
  ['sessions', '/sessions'],
];
