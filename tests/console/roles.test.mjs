// What each role is offered in the console, and what it is not.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Browser, assertClean, barriers } from './support/browser.mjs';
import { Gateway } from './support/gateway.mjs';
import { PAGES } from './support/pages.mjs';

let gateway;

before(async () => {
  gateway = await Gateway.start();
  await gateway.use();
});
after(async () => {
  await gateway?.stop();
});

const RAILS = {
  'viewer': ['Overview', 'Cluster', 'Gateways', 'Models', 'Queues and jobs', 'Keys', 'Usage and cost', 'Budgets and limits', 'Requests', 'Get started'],
  'lead of demo/research': ['Overview', 'Cluster', 'Models', 'Queues and jobs', 'What-if', 'Playground', 'Keys', 'Usage and cost', 'Budgets and limits', 'Requests', 'Tenants', 'Get started'],
  'member of demo/research': ['Models', 'Queues and jobs', 'Playground', 'Keys', 'Usage and cost', 'Budgets and limits', 'Requests', 'Get started'],
};

const HIDDEN_FROM = { viewer: ['/audit', '/playground', '/what-if'], lead: ['/audit', '/gateways'], member: ['/audit', '/gateways', '/what-if'] };

for (const [who, rail] of Object.entries(RAILS)) {
  test(`what a ${who} may not do is not offered`, async () => {
    const theirs = await Browser.start();
    try {
      const [role, tenant] = who.split(' of ');
      await theirs.signIn(gateway, '--role', role, ...(tenant ? ['--tenant', tenant] : []));
      const view = await theirs.open(gateway);
      await view.show('/models');
      assert.deepEqual(await view.locator('.rail-link:not(.rail-more)').allTextContents(), rail);
      for (const path of PAGES.filter((each) => !HIDDEN_FROM[role].includes(each))) {
        await view.show(path);
        assert.equal(await view.getByRole('button', { name: 'Cordon' }).count(), 0);
        assert.deepEqual(await barriers(view), [], path);
        assertClean(view, `${path} of a ${who}`);
      }
      await view.show('/audit');
      await view.getByText('This page does not exist, or it is not for you').waitFor();
      await view.show('/keys');
      assert.equal(await view.getByRole('button', { name: 'Make a key' }).count(), role === 'viewer' ? 0 : 1);
      await view.show('/queues');
      assert.equal(await view.getByRole('button', { name: 'Submit a job' }).count(), role === 'lead' ? 1 : 0);
      assertClean(view, who);
    } finally {
      await theirs.stop();
    }
  });
}
