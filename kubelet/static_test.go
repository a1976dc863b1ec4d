package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/localcache"
)

// Create stores a mirror pod, as an API server does.
func (p podAPI) Create(_ context.Context, in *corev1.Pod) (*corev1.Pod, error) {
	if err := p.lock(); err != nil {
		return nil, err
	}
	defer p.mu.Unlock()
	if _, ok := p.pods.Get(localcache.KeyOf(in)); ok {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "pods"}, in.Name)
	}
	pod := in.DeepCopy()
	pod.ResourceVersion = p.touch()
	pod.UID = types.UID("mirror-" + pod.ResourceVersion)
	pod.Generation = 1
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	p.pods.Put(pod)
	return pod, nil
}

// staticPod returns a pod as a source of static pods makes it.
func staticPod(name, hash string) *corev1.Pod {
	pod := webPod(name)
	pod.Namespace, pod.UID = "default", types.UID(hash)
	pod.Annotations = map[string]string{"kubernetes.io/config.hash": hash, "kubernetes.io/config.source": "file"}
	pod.Spec.NodeName, pod.Spec.RestartPolicy = "node-1", corev1.RestartPolicyAlways
	pod.Status.Phase = corev1.PodPending
	return pod
}

// newStaticRig is a node with static pods.
func newStaticRig(t *testing.T, c memruntime.Config) (*rig, *localcache.Map[*corev1.Pod]) {
	r := newRig(t, c)
	static := localcache.NewMap[*corev1.Pod]()
	r.config.StaticPods, r.config.CreatePod = static, podAPI{r.api}.Create
	return r, static
}

// awaitSandboxes waits until the runtime has the sandboxes of these pods, by UID.
func (r *rig) awaitSandboxes(uids ...string) {
	r.t.Helper()
	want := map[string]bool{}
	for _, uid := range uids {
		want[uid] = true
	}
	eventually(r.t, fmt.Sprintf("the runtime has the sandboxes of %v", uids), func() bool {
		got := map[string]bool{}
		for _, s := range r.sandboxes() {
			got[s.Labels["io.kubernetes.pod.uid"]] = true
		}
		return maps.Equal(got, want)
	})
}

// TestStaticPods follows a static pod and its mirror pod: what happens to the mirror pod does not
// touch the pod, and a restart of the kubelet neither.
func TestStaticPods(t *testing.T) {
	r, static := newStaticRig(t, memruntime.Config{})
	r.start()
	static.Put(staticPod("web", "h1"))
	mirror := r.api.await(t, "web", "running", running)
	owner := mirror.OwnerReferences[0]
	if mirror.Annotations[corev1.MirrorPodAnnotationKey] != "h1" || owner.Kind != "Node" || owner.Name != "node-1" || !*owner.Controller {
		t.Errorf("the mirror pod has annotations %v and owner %v, want %s: h1 and the controlling Node node-1",
			mirror.Annotations, &owner, corev1.MirrorPodAnnotationKey)
	}
	if mirror.Status.PodIP != "10.9.0.2" || mirror.Status.StartTime == nil || condition(mirror, corev1.PodScheduled) != corev1.ConditionTrue {
		t.Errorf("the mirror pod has status %+v, want IP 10.9.0.2, a start time and PodScheduled True", mirror.Status)
	}
	r.awaitSandboxes("h1")
	container := r.containers()[0].Id

	uid := mirror.UID
	another := func(pod *corev1.Pod) bool { return running(pod) && pod.UID != uid && pod.DeletionTimestamp == nil }
	r.api.lose("web")
	uid = r.api.await(t, "web", "created again", another).UID
	r.api.delete("web", 30)
	uid = r.api.await(t, "web", "replaced", another).UID
	started := r.api.await(t, "web", "running", running).Status.StartTime
	if !started.Equal(mirror.Status.StartTime) {
		t.Errorf("started at %v, then at %v", mirror.Status.StartTime, started)
	}

	pod, ok := r.kubelet.Pods().Get("default/web")
	if !ok || pod.UID != "h1" || !running(pod) {
		t.Errorf("the server sees %+v", pod)
	}
	if of, ok := r.kubelet.MirrorUID(pod); !ok || of != uid {
		t.Errorf("the mirror pod has the UID %s, not %s", of, uid)
	}

	r.stop()
	r.start()
	if same := r.api.await(t, "web", "running", running); same.UID != uid {
		t.Errorf("the mirror pod %s was replaced by %s", uid, same.UID)
	}
	if c := r.containers(); len(c) != 1 || c[0].Id != container {
		t.Errorf("containers %v, want %s", c, container)
	}

	static.Delete("default/web")
	r.api.await(t, "web", "gone", gone)
	r.awaitSandboxes()
}

// exclusive is a runtime that refuses two sandboxes with the same name.
type exclusive struct {
	kubelet.Runtime
	twice atomic.Int32
}

func (e *exclusive) RunPodSandbox(ctx context.Context, in *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	list, err := e.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, err
	}
	for _, s := range list.Items {
		if s.GetMetadata().GetName() == in.Config.GetMetadata().GetName() {
			e.twice.Add(1)
			return nil, errors.New("the earlier pod is still there")
		}
	}
	return e.Runtime.RunPodSandbox(ctx, in)
}

// TestStaticPodReplaced: a changed manifest is another pod, which starts when the earlier one has
// ended. It also takes the name of a pod in the API.
func TestStaticPodReplaced(t *testing.T) {
	r, static := newStaticRig(t, memruntime.Config{})
	runtime := &exclusive{Runtime: r.client}
	r.config.Runtime = runtime
	r.start()
	r.api.create(webPod("web"))
	old := r.api.await(t, "web", "running", running)
	static.Put(staticPod("web", "h0"))
	r.awaitSandboxes("h0")
	// The pod in the API stays until a client deletes it.
	if pod := r.api.await(t, "web", "there", func(p *corev1.Pod) bool { return p != nil }); pod.UID != old.UID {
		t.Errorf("the pod web has UID %s, want %s", pod.UID, old.UID)
	}
	r.api.delete("web", 30)
	r.api.await(t, "web", "shown", func(p *corev1.Pod) bool { return running(p) && p.UID != old.UID })
	for i := range 5 {
		hash := fmt.Sprint("h", i+1)
		static.Put(staticPod("web", hash))
		r.api.await(t, "web", "shown", func(p *corev1.Pod) bool {
			return running(p) && p.Annotations[corev1.MirrorPodAnnotationKey] == hash
		})
		r.awaitSandboxes(hash)
	}
	if n := runtime.twice.Load(); n > 0 {
		t.Errorf("%d times there were two pods with one name", n)
	}
}

// absent is an API server that does not answer until there is one.
type absent struct {
	nodeAPI
	there atomic.Bool
}

func (a *absent) Get(ctx context.Context, namespace, name string) (*corev1.Node, error) {
	if !a.there.Load() {
		return nil, apierrors.NewServiceUnavailable("there is no API server")
	}
	return a.nodeAPI.Get(ctx, namespace, name)
}

// TestStaticPodsWithoutAPI: static pods start, change and end while the API server is away. Then it
// shows them.
func TestStaticPodsWithoutAPI(t *testing.T) {
	r, static := newStaticRig(t, memruntime.Config{})
	nodes := &absent{nodeAPI: nodeAPI{r.api}}
	unsynced := localcache.NewUnsynced(localcache.KeyOf[*corev1.Pod])
	r.config.Nodes, r.config.Pods = nodes, unsynced
	onHost := func(name, hash string) *corev1.Pod {
		pod := staticPod(name, hash)
		pod.Spec.HostNetwork = true
		return pod
	}
	static.Put(onHost("web", "h1"))
	static.Put(onHost("db", "h2"))
	k, err := kubelet.New(r.config)
	if err != nil {
		t.Fatal(err)
	}
	inBackground(t, k.Run)
	r.awaitSandboxes("h1", "h2")
	static.Put(onHost("web", "h3"))
	static.Delete("default/db")
	r.awaitSandboxes("h3")
	select {
	case <-k.Ready():
		t.Error("the node is ready without an API server")
	default:
	}
	defer r.api.pods.Subscribe(func(old, pod *corev1.Pod) {
		if pod != nil {
			unsynced.Put(pod)
		} else {
			unsynced.Delete(localcache.KeyOf(old))
		}
	}).Stop()
	unsynced.Sync()
	nodes.there.Store(true)
	r.api.await(t, "web", "running", running)
}

// TestMirrorPodsDoNotRun: mirror pods without a static pod are deleted, also by a kubelet without
// static pods, and a pod that claims to be static is not.
func TestMirrorPodsDoNotRun(t *testing.T) {
	r := newRig(t, memruntime.Config{})
	orphan := webPod("orphan")
	orphan.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "h", "kubernetes.io/config.hash": "h", "kubernetes.io/config.source": "file"}
	r.api.create(orphan)
	r.start()
	r.api.await(t, "orphan", "gone", gone)
	r.api.mu.Lock()
	for _, e := range r.api.events {
		if e.InvolvedObject.Name == "orphan" {
			t.Errorf("event %s: %s", e.Reason, e.Message)
		}
	}
	r.api.mu.Unlock()
	claims := webPod("claims")
	claims.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	created := r.api.create(claims)
	pod := r.api.await(t, "claims", "running", running)
	if pod.UID != created.UID {
		t.Errorf("the pod claims has UID %s, want %s as created", pod.UID, created.UID)
	}
	r.awaitSandboxes(string(created.UID))
	r.api.delete("claims", 1)
	r.api.await(t, "claims", "gone", gone)
}

// TestStandalone: a kubelet without an API server runs static pods, and becomes ready.
func TestStandalone(t *testing.T) {
	r, static := newStaticRig(t, memruntime.Config{})
	r.config.Pods, r.config.PodStatus, r.config.Nodes, r.config.Leases, r.config.Events, r.config.CreatePod = nil, nil, nil, nil, nil, nil
	r.start()
	once := staticPod("once", "h2")
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	static.Put(staticPod("web", "h1"))
	static.Put(once)
	r.awaitSandboxes("h1", "h2")
	pods := r.kubelet.Pods()
	eventually(t, "the pod has an address", func() bool {
		web, _ := pods.Get("default/web")
		return running(web) && strings.HasPrefix(web.Status.PodIP, "10.9.0.")
	})
	n := 0
	for range pods.All() {
		n++
	}
	if _, ok := r.kubelet.MirrorUID(once); n != 2 || ok {
		t.Errorf("%d pods, mirror pod %v", n, ok)
	}
	static.Delete("default/web")
	r.awaitSandboxes("h2")
}

// TestStaticPodKeepsItsStatus: the status of a static pod lives in the kubelet, so that a container
// that has ended is not started again and the start time stays, also when the manifest's object
// changes but not its UID.
func TestStaticPodKeepsItsStatus(t *testing.T) {
	r, static := newStaticRig(t, memruntime.Config{Behave: func(*runtimeapi.ContainerConfig) memruntime.Behavior {
		return memruntime.Behavior{Exits: true}
	}})
	r.start()
	pod := staticPod("once", "h1")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	static.Put(pod)
	mirror := r.api.await(t, "once", "finished", func(p *corev1.Pod) bool { return p != nil && p.Status.Phase == corev1.PodSucceeded })
	// The runtime loses what it has, so that only the status says that the pod has ended.
	for _, s := range r.sandboxes() {
		if _, err := r.client.RemovePodSandbox(t.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: s.Id}); err != nil {
			t.Fatal(err)
		}
	}
	changed := pod.DeepCopy()
	changed.Labels = map[string]string{"a": "b"}
	static.Put(changed)
	uid := mirror.UID
	r.api.lose("once")
	again := r.api.await(t, "once", "finished", func(p *corev1.Pod) bool { return p != nil && p.UID != uid && p.Status.Phase == corev1.PodSucceeded })
	if !again.Status.StartTime.Equal(mirror.Status.StartTime) || again.Status.ContainerStatuses[0].ContainerID != mirror.Status.ContainerStatuses[0].ContainerID || again.Labels["a"] != "b" {
		t.Errorf("%+v\nwas %+v", again, mirror)
	}
	r.awaitSandboxes()
}

func TestStandaloneConfig(t *testing.T) {
	r, _ := newStaticRig(t, memruntime.Config{})
	r.config.Pods = nil
	if _, err := kubelet.New(r.config); err == nil || !strings.Contains(err.Error(), "Pods is missing") {
		t.Error(err)
	}
	r.config.PodStatus, r.config.Nodes, r.config.Leases, r.config.StaticPods = nil, nil, nil, nil
	if _, err := kubelet.New(r.config); err == nil || !strings.Contains(err.Error(), "Leases is missing") {
		t.Error(err)
	}
}
