package kubelet_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// restartAllPod is a pod of an init container, a sidecar and the main containers web and other. When web ends with
// the code 42, all are restarted.
func restartAllPod() *corev1.Pod {
	always, never := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever
	pod := webPod("web")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "i"}, {Name: "side", Image: "i", RestartPolicy: &always}}
	web := &pod.Spec.Containers[0]
	web.RestartPolicy = &never
	web.RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action: corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
		},
	}}
	web.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "other", Image: "i", Lifecycle: &corev1.Lifecycle{PreStop: command("pre")}})
	return pod
}

// restartAllRig is a rig whose runtime records which containers it starts and can refuse to stop or create one.
type restartAllRig struct {
	*rig
	hooks *hooks

	mu      sync.Mutex
	order   []string
	volume  string
	refused string // the method that is refused for the containers other and init
	hit     chan struct{}
	grace   int64
}

func newRestartAllRig(t *testing.T) *restartAllRig {
	r := &restartAllRig{hooks: newHooks(), hit: make(chan struct{}, 1)}
	var id atomic.Value
	id.Store("")
	r.rig = newRig(t, memruntime.Config{
		Behave: func(c *runtimeapi.ContainerConfig) memruntime.Behavior {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.order = append(r.order, c.Metadata.Name)
			for _, m := range c.Mounts {
				if m.ContainerPath == "/data" {
					r.volume = m.HostPath
				}
			}
			switch c.Metadata.Name {
			case "init":
				return memruntime.Behavior{Exits: true}
			case "web":
				return memruntime.Behavior{TermCode: 42}
			}
			return memruntime.Behavior{TermCode: 143}
		},
		Intercept: func(ctx context.Context, in any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			method := filepath.Base(info.FullMethod)
			name := ""
			switch in := in.(type) {
			case *runtimeapi.CreateContainerRequest:
				name = in.Config.Metadata.Name
			case *runtimeapi.StopContainerRequest:
				if in.ContainerId == id.Load() {
					name = "other"
					r.mu.Lock()
					r.grace = in.Timeout
					r.mu.Unlock()
				}
			}
			r.mu.Lock()
			refuse := method == r.refused && (name == "other" || name == "init")
			r.mu.Unlock()
			if refuse {
				select {
				case r.hit <- struct{}{}:
				default:
				}
				return nil, status.Error(codes.Unavailable, "not now")
			}
			out, err := next(ctx, in)
			if c, ok := out.(*runtimeapi.CreateContainerResponse); ok && name == "other" {
				id.Store(c.ContainerId)
			}
			return out, err
		},
	})
	r.config.Hooks = r.hooks
	return r
}

func (r *restartAllRig) refuse(method string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = method
}

// end ends the container web with the code that restarts all.
func (r *restartAllRig) end() {
	r.t.Helper()
	for _, c := range r.containers() {
		if c.Metadata.Name == "web" && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			if _, err := r.client.StopContainer(r.t.Context(), &runtimeapi.StopContainerRequest{ContainerId: c.Id, Timeout: 60}); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

// allRun reports whether all containers of a pod that run until they are stopped do, and all were restarted n
// times.
func allRun(n int32) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		if pod == nil || len(pod.Status.ContainerStatuses) != 2 || len(pod.Status.InitContainerStatuses) != 2 {
			return false
		}
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if c.RestartCount != n || (c.State.Running == nil) != (c.Name == "init") {
				return false
			}
		}
		return running(pod) && condition(pod, corev1.AllContainersRestarting) == corev1.ConditionFalse
	}
}

// TestRestartAllContainers: the end of a container restarts the whole pod in place.
func TestRestartAllContainers(t *testing.T) {
	r := newRestartAllRig(t)
	r.start()
	r.api.create(restartAllPod())
	before := r.api.await(t, "web", "running", allRun(0))
	sandbox := r.sandboxes()[0].Id
	r.mu.Lock()
	keep := filepath.Join(r.volume, "keep")
	r.mu.Unlock()
	if err := os.WriteFile(keep, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for n := range int32(2) {
		r.end()
		after := r.api.await(t, "web", "restarted", allRun(n+1))
		if after.Status.PodIP != before.Status.PodIP || len(r.sandboxes()) != 1 || r.sandboxes()[0].Id != sandbox {
			t.Errorf("the sandbox was replaced: %s, before %s", after.Status.PodIP, before.Status.PodIP)
		}
		for _, c := range slices.Concat(after.Status.InitContainerStatuses, after.Status.ContainerStatuses) {
			if last := c.LastTerminationState.Terminated; last == nil || last.Reason != "RestartingAllContainers" || last.ExitCode != 137 ||
				last.Message != "The container is removed because RestartAllContainers in place" {
				t.Errorf("%s: the last end is %+v", c.Name, last)
			}
		}
	}
	if _, err := os.Stat(keep); err != nil {
		t.Errorf("the volume: %v", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range 3 {
		round := r.order[4*n : 4*n+4]
		if round[0] != "init" || round[1] != "side" || !slices.Contains(round, "web") || !slices.Contains(round, "other") {
			t.Errorf("order: %v", r.order)
		}
	}
	if len(r.order) != 12 {
		t.Errorf("order: %v", r.order)
	}
	if r.hooks.count("pre") != 0 {
		t.Error("the preStop hook was called")
	}
	if r.grace != 2 {
		t.Errorf("a grace period of %d s, want 2", r.grace)
	}
	r.api.awaitEvent(t, "web", "Killing", "killing")
}

// TestRestartAllSurvivesRestart: a kubelet that ends in the middle goes on where it was.
func TestRestartAllSurvivesRestart(t *testing.T) {
	for _, method := range []string{"StopContainer", "CreateContainer"} {
		t.Run(method, func(t *testing.T) {
			r := newRestartAllRig(t)
			r.start()
			r.api.create(restartAllPod())
			r.api.await(t, "web", "running", allRun(0))
			sandbox := r.sandboxes()[0].Id
			r.refuse(method)
			r.end()
			<-r.hit
			r.api.await(t, "web", "restarting", func(pod *corev1.Pod) bool {
				return condition(pod, corev1.AllContainersRestarting) == corev1.ConditionTrue
			})
			r.stop()
			r.refuse("")
			r.start()
			pod := r.api.await(t, "web", "restarted", allRun(1))
			if r.sandboxes()[0].Id != sandbox || pod.Status.Phase != corev1.PodRunning {
				t.Errorf("the pod has phase %s and sandboxes %v, want Running and %s first", pod.Status.Phase, r.sandboxes(), sandbox)
			}
		})
	}
}
