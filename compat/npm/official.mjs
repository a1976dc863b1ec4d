// The official client for JavaScript, @kubernetes/client-node, as its users use it.
import assert from 'node:assert/strict';
import { PassThrough, Writable } from 'node:stream';
import net from 'node:net';
import * as k8s from '@kubernetes/client-node';

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const namespace = 'default';
const text = () => {
  let all = '';
  const stream = new Writable({ write(chunk, _, done) { all += chunk; done(); } });
  stream.text = () => all;
  return stream;
};
const until = async (what, check) => {
  for (let i = 0; i < 300; i++) {
    const got = await check();
    if (got) return got;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`${what} has not come true in 30 s`);
};

// Versions and discovery.
const version = await config.makeApiClient(k8s.VersionApi).getCode();
assert.match(version.gitVersion, /^v1\./);
const groups = await config.makeApiClient(k8s.ApisApi).getAPIVersions();
assert.ok(groups.groups.some((g) => g.name === 'apps'), 'GET /apis names apps');

// Create, read, list, replace, patch in each way, delete.
await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'one', labels: { app: 'npm' } }, data: { a: 'b' } } });
let one = await core.readNamespacedConfigMap({ namespace, name: 'one' });
assert.deepEqual(one.data, { a: 'b' });
assert.ok(one.metadata.creationTimestamp instanceof Date);
one.data.c = 'd';
one = await core.replaceNamespacedConfigMap({ namespace, name: 'one', body: one });
assert.equal(one.data.c, 'd');
one = await core.patchNamespacedConfigMap({ namespace, name: 'one', body: [{ op: 'replace', path: '/data/a', value: 'x' }] });
assert.equal(one.data.a, 'x');
for (const type of [k8s.PatchStrategy.MergePatch, k8s.PatchStrategy.StrategicMergePatch, k8s.PatchStrategy.ServerSideApply]) {
  const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'one' }, data: { by: type } };
  one = await core.patchNamespacedConfigMap({ namespace, name: 'one', body, fieldManager: 'npm', force: type === k8s.PatchStrategy.ServerSideApply ? true : undefined },
    k8s.setHeaderOptions('Content-Type', type));
  assert.equal(one.data.by, type);
}
const list = await core.listNamespacedConfigMap({ namespace, labelSelector: 'app=npm' });
assert.deepEqual(list.items.map((i) => i.metadata.name), ['one']);
const page = await core.listConfigMapForAllNamespaces({ limit: 1 });
assert.equal(page.items.length, 1);
assert.ok(page.metadata._continue, 'a page says how it goes on');
await assert.rejects(core.readNamespacedConfigMap({ namespace, name: 'none' }), (err) => err.code === 404 && JSON.parse(err.body).reason === 'NotFound');
await assert.rejects(core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'A b' } } }), (err) => err.code === 422);

// A watch and an informer.
const events = [];
const watch = await new k8s.Watch(config).watch(`/api/v1/namespaces/${namespace}/configmaps`, { labelSelector: 'app=npm', allowWatchBookmarks: true },
  (type, object) => events.push(`${type} ${object.metadata.name}`), () => {});
const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, () => core.listNamespacedConfigMap({ namespace, labelSelector: 'app=npm' }), 'app=npm');
const informed = [];
for (const type of ['add', 'update', 'delete']) informer.on(type, (object) => informed.push(`${type} ${object.metadata.name}`));
let stopped = false;
informer.on('error', (err) => { if (!stopped) throw err; }); // stop is such an error
await informer.start();
await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'two', labels: { app: 'npm' } } } });
await core.deleteNamespacedConfigMap({ namespace, name: 'two' });
await until('the watch', () => events.includes('DELETED two'));
await until('the informer', () => informed.includes('delete two'));
assert.ok(events.includes('ADDED one') && events.includes('ADDED two'), events);
assert.ok(informed.includes('add one') && informed.includes('add two'), informed);
watch.abort();
stopped = true;
await informer.stop();

// Any object, by its kind alone.
const objects = k8s.KubernetesObjectApi.makeApiClient(config);
await objects.create({ apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', metadata: { name: 'lamps.example.com' }, spec: {
  group: 'example.com', scope: 'Namespaced', names: { plural: 'lamps', kind: 'Lamp' },
  versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object', properties: { spec: { type: 'object', properties: { color: { type: 'string' } } } } } } }] } });
const custom = config.makeApiClient(k8s.CustomObjectsApi);
const lamps = { group: 'example.com', version: 'v1', namespace, plural: 'lamps' };
await until('the new kind', () => custom.listNamespacedCustomObject(lamps).then(() => true, () => false));
await custom.createNamespacedCustomObject({ ...lamps, body: { apiVersion: 'example.com/v1', kind: 'Lamp', metadata: { name: 'desk' }, spec: { color: 'red' } } });
const lamp = await custom.patchNamespacedCustomObject({ ...lamps, name: 'desk', body: [{ op: 'replace', path: '/spec/color', value: 'blue' }] });
assert.equal(lamp.spec.color, 'blue');
assert.equal((await objects.read({ apiVersion: 'example.com/v1', kind: 'Lamp', metadata: { name: 'desk', namespace } })).spec.color, 'blue');
assert.equal((await objects.list('example.com/v1', 'Lamp', namespace)).items.length, 1);
await objects.patch({ apiVersion: 'example.com/v1', kind: 'Lamp', metadata: { name: 'desk', namespace }, spec: { color: 'green' } },
  undefined, undefined, undefined, undefined, k8s.PatchStrategy.MergePatch);
await objects.delete({ apiVersion: 'example.com/v1', kind: 'Lamp', metadata: { name: 'desk', namespace } });

// A Deployment, its scale and its status; then logs, exec, attach and port-forward of a pod.
await apps.createNamespacedDeployment({ namespace, body: { metadata: { name: 'web' }, spec: { replicas: 1, selector: { matchLabels: { app: 'web' } },
  template: { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'web', image: 'nginx', stdin: true }] } } } } });
await apps.patchNamespacedDeploymentScale({ namespace, name: 'web', body: [{ op: 'replace', path: '/spec/replicas', value: 2 }] });
await until('the Deployment', async () => (await apps.readNamespacedDeploymentStatus({ namespace, name: 'web' })).status.readyReplicas === 2);
const pods = (await core.listNamespacedPod({ namespace, labelSelector: 'app=web' })).items;
const pod = pods[0].metadata.name;
assert.match(await core.readNamespacedPodLog({ namespace, name: pod, tailLines: 1 }), /simulated/);
const logs = text();
await new k8s.Log(config).log(namespace, pod, 'web', logs, { tailLines: 1 });
await until('the log', () => /simulated/.test(logs.text()));
const out = text();
const status = await new Promise((done, failed) => {
  new k8s.Exec(config).exec(namespace, pod, 'web', ['echo', 'hello'], out, text(), null, false, done).catch(failed);
});
assert.equal(status.status, 'Success');
assert.equal(out.text(), 'hello\n');
const input = new PassThrough();
const said = text();
const ended = new Promise((done, failed) => {
  new k8s.Exec(config).exec(namespace, pod, 'web', ['cat'], said, text(), input, false, done).catch(failed);
});
input.end('through\n');
assert.equal((await ended).status, 'Success');
assert.equal(said.text(), 'through\n');
const failed = await new Promise((done, wrong) => {
  new k8s.Exec(config).exec(namespace, pod, 'web', ['no-such-command'], text(), text(), null, false, done).catch(wrong);
});
assert.equal(failed.status, 'Failure');
const forward = new k8s.PortForward(config);
const server = net.createServer((socket) => forward.portForward(namespace, pod, [80], socket, null, socket));
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const page80 = await fetch(`http://127.0.0.1:${server.address().port}/`).then((a) => a.status, (err) => String(err.cause ?? err));
assert.equal(page80, 200);
server.close();

// Evictions, access reviews, tokens.
await core.createNamespacedPodEviction({ namespace, name: pod, body: { metadata: { name: pod } } });
const access = await config.makeApiClient(k8s.AuthorizationV1Api).createSelfSubjectAccessReview({ body: { spec: { resourceAttributes: { verb: 'get', resource: 'pods', namespace } } } });
assert.equal(access.status.allowed, true);
const token = await core.createNamespacedServiceAccountToken({ namespace, name: 'default', body: { spec: { audiences: [] } } });
assert.match(token.status.token, /^ey/);
await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector: 'app=npm' });
await apps.deleteNamespacedDeployment({ namespace, name: 'web', propagationPolicy: 'Foreground' });
await until('the Deployment', () => apps.readNamespacedDeployment({ namespace, name: 'web' }).then(() => false, (err) => err.code === 404));
console.log('official: done');
process.exit(0);
