// The pages, in the order of the rail: who sees each, and the key that goes to it after `g`.
import type { FunctionComponent } from 'preact';
import { mayAny, me, scales } from './me';
import { Audit } from './pages/audit';
import { Cluster } from './pages/cluster';
import { Evaluations } from './pages/evaluations';
import { Gateways } from './pages/gateways';
import { Keys } from './pages/keys';
import { Limits } from './pages/limits';
import { Models } from './pages/models';
import { Overview } from './pages/overview';
import { Playground } from './pages/playground';
import { Queues } from './pages/queues';
import { Requests } from './pages/requests';
import { Sessions } from './pages/sessions';
import { Start } from './pages/start';
import { Tenants } from './pages/tenants';
import { Terminal } from './pages/terminal';
import { Usage } from './pages/usage';
import { WhatIf } from './pages/what_if';

export interface PageOf {
  path: string; // the first segment
  name: string;
  icon: string;
  key: string;
  needs: string[]; // one of these permissions
  show: FunctionComponent;
  ranged?: boolean; // the time range in the header is for it
  scoped?: boolean; // likewise the tenant
  one?: boolean; // of several tenants of one's own, it shows one
  aside?: boolean; // not in the rail, but in the menu of the person
  scales?: boolean; // only where the configuration has the section scaling
}

const ALL: PageOf[] = [
  { path: '', name: 'Overview', icon: 'overview', key: 'o', needs: ['see_cluster'], show: Overview },
  { path: 'cluster', name: 'Cluster', icon: 'cluster', key: 'c', needs: ['see_cluster'], show: Cluster, scales: true },
  { path: 'gateways', name: 'Gateways', icon: 'gateways', key: 'e', needs: ['see_replicas'], show: Gateways },
  { path: 'models', name: 'Models', icon: 'models', key: 'm', needs: ['see_models'], show: Models },
  { path: 'queues', name: 'Queues and jobs', icon: 'queues', key: 'q', needs: ['see_jobs'], show: Queues, scoped: true, scales: true },
  { path: 'what-if', name: 'What-if', icon: 'what_if', key: 'i', needs: ['simulate'], show: WhatIf, scales: true },
  { path: 'playground', name: 'Playground', icon: 'playground', key: 'p', needs: ['use_playground'], show: Playground, scoped: true },
  { path: 'keys', name: 'Keys', icon: 'keys', key: 'k', needs: ['see_keys', 'see_own_keys'], show: Keys, scoped: true },
  { path: 'usage', name: 'Usage and cost', icon: 'usage', key: 'u', needs: ['see_usage'], show: Usage, ranged: true, scoped: true, one: true },
  { path: 'evaluations', name: 'Evaluations', icon: 'evaluations', key: 'v', needs: ['read_content'], show: Evaluations, scoped: true },
  { path: 'limits', name: 'Budgets and limits', icon: 'limits', key: 'l', needs: ['see_limits'], show: Limits, scoped: true },
  { path: 'requests', name: 'Requests', icon: 'requests', key: 'r', needs: ['ask'], show: Requests, scoped: true },
  { path: 'tenants', name: 'Tenants', icon: 'tenants', key: 't', needs: ['change_tenants'], show: Tenants, scoped: true },
  { path: 'audit', name: 'Audit', icon: 'audit', key: 'a', needs: ['read_audit'], show: Audit, ranged: true, scoped: true },
  { path: 'start', name: 'Get started', icon: 'start', key: 's', needs: [], show: Start },
  { path: 'terminal', name: 'Command line', icon: 'keys', key: 'x', needs: ['see_self'], show: Terminal, aside: true },
  { path: 'sessions', name: 'Sessions', icon: 'keys', key: 'w', needs: ['see_self'], show: Sessions, aside: true },
];

const allowed = () => ALL.filter((each) => mayAny(...each.needs));
export const pages = () => allowed().filter((each) => !each.scales || scales());

// A page that this person would see if the gateway scaled.
export const unscaled = (path: string) => (me.value && !scales() ? allowed().find((each) => each.scales && each.path === path) : undefined);

