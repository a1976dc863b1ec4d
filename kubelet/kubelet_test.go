package kubelet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/kubelet/eviction"
)

// patience is how long a test waits for what must come. No machine is so slow:
// what has not come by then never does.
const patience = 2 * time.Minute

// rig is one node: an API, a runtime in memory and a kubelet that can be
// restarted.
type rig struct {
	t       *testing.T
	api     *api
	client  *cri.Client
	config  kubelet.Config
	kubelet *kubelet.Kubelet
	stop    func()
}

func newRig(t *testing.T, c memruntime.Config) *rig {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			goleak.VerifyNone(t)
		}
	})
	short, err := os.MkdirTemp("", "kl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(short) })
	c.Socket = filepath.Join(short, "cri.sock")
	runtime, err := memruntime.New(c)
	if err != nil {
		t.Fatal(err)
	}
	inBackground(t, runtime.Run)
	<-runtime.Ready()
	client, err := cri.Dial(t.Context(), c.Socket, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	r := rigOn(t, client, client)
	r.client = client
	return r
}

// rigOn is a node on a runtime.
func rigOn(t *testing.T, runtime kubelet.Runtime, images kubelet.Images) *rig {
	t.Helper()
	dir := t.TempDir()
	a := newAPI()
	return &rig{t: t, api: a, config: kubelet.Config{
		NodeName: "node-1", Root: filepath.Join(dir, "kubelet"), LogRoot: filepath.Join(dir, "logs"),
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeHostName, Address: "node-1"}},
		Port:      10250,
		PodCIDR:   "10.9.0.0/24",
		Runtime:   runtime, Images: images,
		Pods: a.pods, PodStatus: podAPI{a}, Nodes: nodeAPI{a}, Leases: leaseAPI{a}, Events: eventAPI{a},
		// The tests' machine may be short of anything.
		Eviction: kubelet.Eviction{Thresholds: []eviction.Threshold{}},
		ImageGC:  kubelet.ImageGC{High: 100},
		Secrets: func(_ context.Context, _, name string) (*corev1.Secret, error) {
			return &corev1.Secret{Data: map[string][]byte{"password": []byte("open sesame")}}, nil
		},
		ConfigMaps: func(_ context.Context, _, name string) (*corev1.ConfigMap, error) {
			return &corev1.ConfigMap{Data: map[string]string{"a.conf": "alpha", "b.conf": "beta"}}, nil
		},
	}}
}

// inBackground runs something until the test ends, or the function returned is
// called.
func inBackground(t *testing.T, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func (r *rig) start() {
	r.t.Helper()
	k, err := kubelet.New(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	r.kubelet = k
	r.stop = inBackground(r.t, k.Run)
	select {
	case <-k.Ready():
	case <-time.After(patience):
		r.t.Fatal("the node does not get ready")
	}
}

func (r *rig) containers() []*runtimeapi.Container {
	r.t.Helper()
	list, err := r.client.ListContainers(r.t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil {
		r.t.Fatal(err)
	}
	return list.Containers
}

func (r *rig) sandboxes() []*runtimeapi.PodSandbox {
	r.t.Helper()
	list, err := r.client.ListPodSandbox(r.t.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		r.t.Fatal(err)
	}
	return list.Items
}

// awaitEmpty waits until nothing is left in the runtime.
func (r *rig) awaitEmpty() {
	r.t.Helper()
	eventually(r.t, "nothing is left in the runtime", func() bool { return len(r.sandboxes())+len(r.containers()) == 0 })
}

func webPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
	}
}

func running(pod *corev1.Pod) bool {
	return pod != nil && pod.Status.Phase == corev1.PodRunning && condition(pod, corev1.PodReady) == corev1.ConditionTrue
}

func gone(pod *corev1.Pod) bool { return pod == nil }

func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

func TestPodLife(t *testing.T) {
	r := newRig(t, memruntime.Config{})
	r.start()
	created := r.api.create(webPod("web"))
	pod := r.api.await(t, "web", "running", running)

	s := pod.Status
	if s.PodIP != "10.9.0.2" || len(s.PodIPs) != 1 || s.HostIP != "192.0.2.1" || len(s.HostIPs) != 1 {
		t.Errorf("addresses: %+v", s)
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady} {
		if condition(pod, kind) != corev1.ConditionTrue {
			t.Errorf("condition %s is %q", kind, condition(pod, kind))
		}
	}
	c := s.ContainerStatuses[0]
	if !strings.HasPrefix(c.ContainerID, "memruntime://") || c.State.Running == nil || !c.Ready || !*c.Started || c.RestartCount != 0 ||
		c.Image != "docker.io/library/nginx:latest" || !strings.HasPrefix(c.ImageID, "docker.io/library/nginx@sha256:") {
		t.Errorf("container status: %+v", c)
	}
	if s.QOSClass != corev1.PodQOSBestEffort || s.ObservedGeneration != 1 || s.StartTime == nil {
		t.Errorf("status: %+v", s)
	}
	sandbox := r.sandboxes()[0]
	if sandbox.Labels["io.kubernetes.pod.uid"] != string(created.UID) || sandbox.Metadata.Name != "web" {
		t.Errorf("sandbox: %+v", sandbox)
	}
	log := filepath.Join(r.config.LogRoot, "default_web_"+string(created.UID), "web", "0.log")
	if _, err := os.Stat(log); err != nil {
		t.Error(err)
	}
	for _, want := range [][2]string{
		{"Pulling", `Pulling image "nginx"`}, {"Created", "Container created"}, {"Started", "Container started"},
	} {
		r.api.awaitEvent(t, "web", want[0], want[1])
	}

	r.api.delete("web", 5)
	r.api.await(t, "web", "gone", gone)
	r.api.awaitEvent(t, "web", "Killing", "Stopping container web")
	r.awaitEmpty()
	for _, path := range []string{filepath.Join(r.config.Root, "pods", string(created.UID)), filepath.Dir(filepath.Dir(log))} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}

func TestNodeIsRegistered(t *testing.T) {
	r := newRig(t, memruntime.Config{})
	r.config.Labels = map[string]string{"zone": "a"}
	r.config.PodCIDR = ""
	var given string
	r.config.Network = func(_ context.Context, cidr string) error {
		given = cidr
		return nil
	}
	// Its range comes later, from another.
	inBackground(t, func(ctx context.Context) error {
		for {
			r.api.mu.Lock()
			node, changed := r.api.node, r.api.changed
			if node != nil && node.Spec.PodCIDR == "" {
				if c := nodeReady(node); c.Status != corev1.ConditionFalse || c.Reason != "KubeletNotReady" {
					t.Errorf("ready without a network: %+v", c)
				}
				node = node.DeepCopy()
				node.Spec.PodCIDR = "10.8.0.0/24"
				r.api.node = node
			}
			r.api.mu.Unlock()
			select {
			case <-changed:
			case <-ctx.Done():
				return nil
			}
		}
	})
	r.start()
	if given != "10.8.0.0/24" {
		t.Errorf("the network was given %q", given)
	}
	r.api.mu.Lock()
	defer r.api.mu.Unlock()
	node := r.api.node
	if c := nodeReady(node); c.Status != corev1.ConditionTrue || c.Reason != "KubeletReady" || c.Message != "kubelet is posting ready status" {
		t.Errorf("ready: %+v", c)
	}
	if len(node.Status.Conditions) != 4 || node.Labels["zone"] != "a" || node.Labels["kubernetes.io/hostname"] != "node-1" || node.Labels["kubernetes.io/os"] != "linux" {
		t.Errorf("node: %+v", node)
	}
	if port := node.Status.DaemonEndpoints.KubeletEndpoint.Port; port != 10250 {
		t.Errorf("port: %d", port)
	}
	if node.Status.NodeInfo.KubeletVersion != "v1.36.3+planekit" || node.Status.NodeInfo.ContainerRuntimeVersion != "memruntime://0.1.0" {
		t.Errorf("info: %+v", node.Status.NodeInfo)
	}
	//lint:ignore SA1019 Kubernetes no longer sets it either
	if v := node.Status.NodeInfo.KubeProxyVersion; v != "" {
		t.Errorf("kubeProxyVersion of the node = %q, want none", v)
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods} {
		if q := node.Status.Allocatable[name]; q.IsZero() {
			t.Errorf("no %s", name)
		}
	}
	if l := r.api.lease; l == nil || *l.Spec.HolderIdentity != "node-1" || *l.Spec.LeaseDurationSeconds != 40 || l.OwnerReferences[0].Kind != "Node" {
		t.Errorf("lease: %+v", l)
	}
}

// TestRebooted checks that a node says when its machine was started again.
func TestRebooted(t *testing.T) {
	r := newRig(t, memruntime.Config{})
	r.start()
	r.api.mu.Lock()
	node := r.api.node.DeepCopy()
	now := node.Status.NodeInfo.BootID
	node.Status.NodeInfo.BootID = "that of before"
	r.api.node = node
	for _, e := range r.api.events {
		if e.Reason == "Rebooted" {
			t.Errorf("a node that is new says: %s", e.Message)
		}
	}
	r.api.mu.Unlock()
	r.stop()
	r.start()
	r.api.awaitEvent(t, "node-1", "Rebooted", "Node node-1 has been rebooted, boot id: "+now)
}

func nodeReady(node *corev1.Node) corev1.NodeCondition {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c
		}
	}
	return corev1.NodeCondition{}
}

func TestCrashAndBackOff(t *testing.T) {
	r := newRig(t, memruntime.Config{Behave: func(*runtimeapi.ContainerConfig) memruntime.Behavior {
		return memruntime.Behavior{Exits: true, ExitCode: 3}
	}})
	r.start()
	r.api.create(webPod("web"))
	pod := r.api.await(t, "web", "backing off", func(pod *corev1.Pod) bool {
		if pod == nil || len(pod.Status.ContainerStatuses) == 0 {
			return false
		}
		w := firstStatus(pod).State.Waiting
		return w != nil && w.Reason == "CrashLoopBackOff"
	})
	c := firstStatus(pod)
	want := fmt.Sprintf("back-off 10s restarting failed container=web pod=web_default(%s)", pod.UID)
	if c.RestartCount != 1 || c.State.Waiting.Message != want || c.LastTerminationState.Terminated.ExitCode != 3 || c.LastTerminationState.Terminated.Reason != "Error" {
		t.Errorf("status: %+v", c)
	}
	r.api.awaitEvent(t, "web", "BackOff", fmt.Sprintf("Back-off restarting failed container web in pod web_default(%s)", pod.UID))
}

func TestInitContainersAndCompletion(t *testing.T) {
	var order []string
	var mu sync.Mutex
	r := newRig(t, memruntime.Config{Behave: func(c *runtimeapi.ContainerConfig) memruntime.Behavior {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, c.Metadata.Name)
		return memruntime.Behavior{Exits: c.Metadata.Name != "side"}
	}})
	r.config.Events = nil
	r.start()
	pod := webPod("job")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "one", Image: "i"}, {Name: "side", Image: "i", RestartPolicy: &always}, {Name: "two", Image: "i"},
	}
	// The sidecar runs until stopped.
	r.api.create(pod)
	done := r.api.await(t, "job", "succeeded", func(pod *corev1.Pod) bool {
		return pod != nil && pod.Status.Phase == corev1.PodSucceeded
	})
	mu.Lock()
	defer mu.Unlock()
	seen := slices.Compact(slices.Clone(order))
	seen = slices.DeleteFunc(seen, func(s string) bool { return s == "side" })
	if !slices.Equal(seen, []string{"one", "two", "web"}) {
		t.Errorf("order: %v", order)
	}
	for _, c := range done.Status.ContainerStatuses {
		if c.State.Terminated == nil || c.State.Terminated.Reason != "Completed" {
			t.Errorf("status: %+v", c)
		}
	}
}

func TestImageCannotBePulled(t *testing.T) {
	r := newRig(t, memruntime.Config{Pull: func(context.Context, string, *runtimeapi.AuthConfig) error { return memruntime.ErrMissing }})
	r.start()
	r.api.create(webPod("web"))
	waits := func(reason string) func(*corev1.Pod) bool {
		return func(pod *corev1.Pod) bool {
			if pod == nil || len(pod.Status.ContainerStatuses) == 0 {
				return false
			}
			w := firstStatus(pod).State.Waiting
			return w != nil && w.Reason == reason
		}
	}
	r.api.await(t, "web", "failing", waits("ErrImagePull"))
	pod := r.api.await(t, "web", "backing off", waits("ImagePullBackOff"))
	if pod.Status.Phase != corev1.PodPending {
		t.Errorf("phase %s", pod.Status.Phase)
	}
	r.api.awaitEvent(t, "web", "BackOff", `Back-off pulling image "nginx"`)
	r.api.delete("web", 0)
	r.api.await(t, "web", "gone", gone)
}

// TestStartIsFast: three pods run and are ready without waiting for any clock: not
// for the list of what runs, of each second, and not to try again.
func TestStartIsFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime, err := memruntime.New(memruntime.Config{Socket: "/not/listened/at"})
		if err != nil {
			t.Fatal(err)
		}
		r := rigOn(t, runtime, runtime)
		r.start()
		start := time.Now()
		for i := range 3 {
			r.api.create(webPod(fmt.Sprintf("web-%d", i)))
		}
		for i := range 3 {
			r.api.await(t, fmt.Sprintf("web-%d", i), "running", running)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("three pods waited %v", took)
		}
		r.stop()
	})
}
