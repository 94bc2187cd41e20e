// What each role is offered in the console, and what it is not.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertClean, barriers } from './support/browser.mjs';
import { asAnother, gateway, openConsole } from './support/opened.mjs';
import { PAGES } from './support/pages.mjs';

openConsole({ tuned: true }, async () => {
  await gateway.use();
  await gateway.tryBothVersions();
  const { state } = await gateway.call('/admin/v1/models/chat-tuned/adapters', { name: 'sql', source: `${gateway.adapters}/sql` });
  assert.equal(state, 'loaded');
});

const RAILS = {
  'viewer': ['Overview', 'Cluster', 'Gateways', 'Models', 'Queues and jobs', 'Keys', 'Usage and cost', 'Budgets and limits', 'Requests', 'Get started'],
  'lead of demo/research': ['Overview', 'Cluster', 'Models', 'Queues and jobs', 'What-if', 'Playground', 'Keys', 'Usage and cost', 'Budgets and limits', 'Requests', 'Tenants', 'Get started'],
  'member of demo/research': ['Models', 'Queues and jobs', 'Playground', 'Keys', 'Usage and cost', 'Budgets and limits', 'Requests', 'Get started'],
};

// Of a model with a rollout that runs and an adapter that is loaded.
const ORDERS = ['Pause', 'Hold the replicas', 'Promote', 'Abort', 'Load an adapter', 'Unload'];

const HIDDEN_FROM = { viewer: ['/audit', '/playground', '/what-if'], lead: ['/audit', '/gateways'], member: ['/audit', '/gateways', '/what-if'] };

for (const [who, rail] of Object.entries(RAILS)) {
  test(`what a ${who} may not do is not offered`, async () => {
    const [role, tenant] = who.split(' of ');
    await asAnother(['--role', role, ...(tenant ? ['--tenant', tenant] : [])], async (view) => {
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
      await view.show('/models?open=model:chat-tuned');
      const drawer = view.locator('.drawer');
      await drawer.getByRole('heading', { name: 'Offer' }).waitFor();
      if (role === 'viewer') {
        await drawer.getByRole('heading', { name: 'Rollout of version v2' }).waitFor();
        await drawer.getByText(`${gateway.adapters}/sql`).waitFor();
      } else {
        assert.equal(await view.getByText(/rollout/i).count(), 0, 'rollouts are told to those who see replicas');
        assert.equal(await drawer.getByRole('heading', { name: 'Adapters' }).count(), 0);
      }
      for (const name of ORDERS) assert.equal(await drawer.getByRole('button', { name, exact: true }).count(), 0, name);
      assertClean(view, who);
    });
  });
}

test('an operator is offered the orders of rollouts and adapters', async () => {
  await asAnother(['--role', 'operator'], async (view) => {
    await view.show('/models?open=model:chat-tuned');
    for (const name of ORDERS) await view.locator('.drawer').getByRole('button', { name, exact: true }).waitFor();
    assertClean(view, 'an operator');
  });
});

test('a lead of one tenant who is a member of another is offered no change of its jobs', async () => {
  await asAnother(['--role', 'member', '--tenant', 'demo/research'], async (view) => {
    const own = (await gateway.call('/admin/v1/sessions')).data[0].actor;
    const { id } = (await gateway.call('/admin/v1/jobs?state=open')).data[0];
    await gateway.call('/admin/v1/members', { tenant: 'demo/search', who: own, role: 'lead' });
    await view.show(`/queues?open=job:${id}`);
    const drawer = view.locator('.drawer');
    await drawer.getByRole('heading', { name: 'About' }).waitFor();
    for (const name of ['Cancel the job', 'Suspend', 'Show the output']) assert.equal(await drawer.getByRole('button', { name }).count(), 0, name);
    await gateway.call('/admin/v1/members', { tenant: 'demo/research', who: own, role: 'lead' });
    await view.show(`/queues?open=job:${id}`);
    for (const name of ['Cancel the job', 'Suspend', 'Show the output']) await drawer.getByRole('button', { name }).waitFor();
    // Usage is told of one tenant at a time.
    await view.show('/usage');
    assert.equal(await view.getByLabel('Tenant').inputValue(), 'demo/research');
    await view.locator('.totals').waitFor();
    await view.getByLabel('Tenant').selectOption('demo/search');
    await view.getByText('Nothing was used in this time').waitFor();
    assertClean(view, 'a lead of one tenant');
  });
});
