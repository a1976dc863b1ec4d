// GoDaddy's kubernetes-client, which makes its methods of the server's OpenAPI v2.
const assert = require('node:assert/strict');
const { Client, KubeConfig } = require('kubernetes-client');
const Request = require('kubernetes-client/backends/request');

(async () => {
  const kubeconfig = new KubeConfig();
  kubeconfig.loadFromFile(process.env.KUBECONFIG);
  const client = new Client({ backend: new Request({ kubeconfig }) });
  await client.loadSpec();
  const maps = client.api.v1.namespaces('default').configmaps;
  const made = await maps.post({ body: { metadata: { name: 'npm', labels: { app: 'godaddy' } }, data: { a: 'b' } } });
  assert.equal(made.statusCode, 201);
  assert.equal((await maps('npm').get()).body.data.a, 'b');
  assert.equal((await maps('npm').patch({ body: { data: { a: 'c' } } })).body.data.a, 'c');
  assert.equal((await maps('npm').put({ body: { metadata: { name: 'npm', labels: { app: 'godaddy' } }, data: { a: 'd' } } })).body.data.a, 'd');
  assert.deepEqual((await maps.get({ qs: { labelSelector: 'app=godaddy' } })).body.items.map((i) => i.metadata.name), ['npm']);
  await assert.rejects(maps('none').get(), (err) => err.statusCode === 404 && /not found/.test(err.message));

  const stream = await client.api.v1.watch.namespaces('default').configmaps.getObjectStream();
  const seen = new Promise((done, failed) => {
    stream.on('data', (event) => { if (event.type === 'DELETED' && event.object.metadata.name === 'npm') done(); });
    stream.on('error', failed);
  });
  await maps('npm').delete();
  await seen;
  stream.destroy();

  const lamps = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', metadata: { name: 'chairs.example.com' }, spec: {
    group: 'example.com', scope: 'Namespaced', names: { plural: 'chairs', kind: 'Chair' },
    versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } } }] } };
  await client.apis['apiextensions.k8s.io'].v1.customresourcedefinitions.post({ body: lamps });
  client.addCustomResourceDefinition(lamps);
  const chairs = client.apis['example.com'].v1.namespaces('default').chairs;
  for (let i = 0; i < 100; i++) {
    const known = await chairs.get().then(() => true, () => new Promise((done) => setTimeout(done, 100)));
    if (known) break;
  }
  await chairs.post({ body: { apiVersion: 'example.com/v1', kind: 'Chair', metadata: { name: 'one' }, spec: { legs: 3 } } });
  assert.equal((await chairs('one').get()).body.spec.legs, 3);

  await client.apis.apps.v1.namespaces('default').deployments.post({ body: { metadata: { name: 'chairs' }, spec: { selector: { matchLabels: { app: 'chairs' } },
    template: { metadata: { labels: { app: 'chairs' } }, spec: { containers: [{ name: 'web', image: 'nginx' }] } } } } });
  let pods = [];
  for (let i = 0; i < 300 && pods.length === 0; i++) {
    pods = (await client.api.v1.namespaces('default').pods.get({ qs: { labelSelector: 'app=chairs', fieldSelector: 'status.phase=Running' } })).body.items;
    await new Promise((done) => setTimeout(done, 100));
  }
  assert.equal(pods.length, 1);
  const log = await client.api.v1.namespaces('default').pods(pods[0].metadata.name).log.get({ qs: { tailLines: 1 } });
  assert.match(String(log.body), /simulated/);
  const status = await client.apis.apps.v1.namespaces('default').deployments('chairs').status.get();
  assert.equal(status.body.status.replicas, 1);
  await client.apis.apps.v1.namespaces('default').deployments('chairs').delete({ qs: { propagationPolicy: 'Background' } });
  console.log('godaddy: done');
  process.exit(0);
})().catch((err) => { console.error(err); process.exit(1); });
