package kubelet_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

func TestKubeletRestartKeepsContainers(t *testing.T) {
	r := newRig(t, memruntime.Config{})
	r.start()
	r.api.create(webPod("web"))
	before := r.api.await(t, "web", "running", running)
	r.stop()
	if len(r.containers()) != 1 {
		t.Fatal("the container did not survive the kubelet")
	}
	r.api.create(webPod("lost"))
	r.start()
	r.api.await(t, "lost", "running", running)
	after := r.api.await(t, "web", "running", running)
	if a, b := after.Status.ContainerStatuses[0], before.Status.ContainerStatuses[0]; a.ContainerID != b.ContainerID || a.RestartCount != 0 {
		t.Errorf("container %s became %s", b.ContainerID, a.ContainerID)
	}
	// What the API loses while the kubelet is away is stopped when it is back.
	r.stop()
	r.api.lose("lost")
	r.start()
	eventually(t, "the lost pod is stopped", func() bool { return len(r.sandboxes()) == 1 && len(r.containers()) == 1 })
}

// eventually asks the runtime until it says yes. The runtime cannot tell when.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not so: %s", what)
		}
	}
}

func TestSandboxDies(t *testing.T) {
	r := newRig(t, memruntime.Config{})
	r.start()
	r.api.create(webPod("web"))
	before := r.api.await(t, "web", "running", running)
	if _, err := r.client.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: r.sandboxes()[0].Id}); err != nil {
		t.Fatal(err)
	}
	after := r.api.await(t, "web", "running again", func(pod *corev1.Pod) bool {
		return running(pod) && pod.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID
	})
	if c := after.Status.ContainerStatuses[0]; c.RestartCount != 1 || c.LastTerminationState.Terminated == nil {
		t.Errorf("status: %+v", c)
	}
	eventually(t, "the sandbox is attempt 1", func() bool {
		list := r.sandboxes()
		return slices.ContainsFunc(list, func(s *runtimeapi.PodSandbox) bool {
			return s.Metadata.Attempt == 1 && s.State == runtimeapi.PodSandboxState_SANDBOX_READY
		})
	})
}

func TestStopPodsOnExit(t *testing.T) {
	r := newRig(t, memruntime.Config{})
	r.config.StopPodsOnExit = true
	r.start()
	r.api.create(webPod("web"))
	before := r.api.await(t, "web", "running", running)
	r.stop()
	if n := len(r.sandboxes()) + len(r.containers()); n != 0 {
		t.Fatalf("%d things are left in the runtime", n)
	}
	r.start()
	after := r.api.await(t, "web", "running again", func(pod *corev1.Pod) bool {
		return running(pod) && pod.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID
	})
	c := after.Status.ContainerStatuses[0]
	if c.RestartCount != 1 || c.LastTerminationState.Terminated == nil || c.LastTerminationState.Terminated.ExitCode != 137 {
		t.Errorf("status: %+v", c)
	}
}

// TestLogsOfGonePodsAreRemoved: a kubelet that was killed while it removed a pod has
// left nothing of it but the logs.
func TestLogsOfGonePodsAreRemoved(t *testing.T) {
	r := newRig(t, memruntime.Config{})
	left := filepath.Join(r.config.LogRoot, "default_left_0123-uid")
	foreign := filepath.Join(r.config.LogRoot, "lost+found")
	for _, dir := range []string{filepath.Join(left, "web"), foreign} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(left, "web/0.log"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.api.create(webPod("web"))
	r.start()
	pod := r.api.await(t, "web", "running", running)
	eventually(t, "the logs are removed", func() bool { _, err := os.Stat(left); return os.IsNotExist(err) })
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("what is not a pod's: %v", err)
	}
	if _, err := os.Stat(filepath.Join(r.config.LogRoot, "default_web_"+string(pod.UID))); err != nil {
		t.Errorf("the logs of a pod that runs: %v", err)
	}
}

// TestStopNow: with StopNow closed in the middle of a grace period, containers are
// killed and nothing is left.
func TestStopNow(t *testing.T) {
	r := newRig(t, memruntime.Config{Behave: func(*runtimeapi.ContainerConfig) memruntime.Behavior {
		return memruntime.Behavior{IgnoresTerm: true}
	}})
	now := make(chan struct{})
	r.config.StopPodsOnExit, r.config.StopNow, r.config.StopGrace = true, now, 10*patience
	r.start()
	pod := webPod("web")
	pod.Spec.TerminationGracePeriodSeconds = new(int64((10 * patience).Seconds()))
	r.api.create(pod)
	r.api.await(t, "web", "running", running)
	if names := r.kubelet.Stopping(); len(names) != 0 {
		t.Errorf("stopping %v before it is asked to", names)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.stop()
	}()
	eventually(t, "the pod is being stopped", func() bool { return slices.Equal(r.kubelet.Stopping(), []string{"default/web"}) })
	close(now)
	select {
	case <-stopped:
	case <-time.After(patience):
		t.Fatal("the grace period is waited for")
	}
	if n := len(r.sandboxes()) + len(r.containers()) + len(r.kubelet.Stopping()); n != 0 {
		t.Errorf("%d things are left", n)
	}
}

// TestStopWhileASandboxIsMade: what the runtime has begun is let end, and then
// taken away; broken off, a real one would leave a network namespace behind.
func TestStopWhileASandboxIsMade(t *testing.T) {
	begun, proceed := make(chan struct{}), make(chan struct{})
	r := newRig(t, memruntime.Config{Intercept: func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if _, ok := in.(*runtimeapi.RunPodSandboxRequest); !ok {
			return next(ctx, in)
		}
		close(begun)
		<-proceed
		if err := ctx.Err(); err != nil {
			t.Errorf("the call was broken off: %v", err)
		}
		return next(ctx, in)
	}})
	r.config.StopPodsOnExit = true
	r.start()
	r.api.create(webPod("web"))
	<-begun
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.stop()
	}()
	select {
	case <-stopped:
		t.Error("the kubelet stopped in the middle of a call")
	case <-time.After(100 * time.Millisecond):
	}
	close(proceed)
	<-stopped
	if n := len(r.sandboxes()); n != 0 {
		t.Errorf("%d sandboxes are left", n)
	}
}

func TestAPIOutage(t *testing.T) {
	r := newRig(t, memruntime.Config{})
	r.start()
	r.api.create(webPod("web"))
	r.api.await(t, "web", "running", running)
	r.api.mu.Lock()
	r.api.down = true
	r.api.mu.Unlock()
	r.api.create(webPod("late"))
	eventually(t, "the pod runs though nobody can be told", func() bool { return len(r.containers()) == 2 })
	r.api.mu.Lock()
	r.api.down = false
	r.api.mu.Unlock()
	r.api.await(t, "late", "running", running)
}

func TestRuntimeOutage(t *testing.T) {
	var mu sync.Mutex
	down := false
	r := newRig(t, memruntime.Config{Intercept: func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		mu.Lock()
		is := down
		mu.Unlock()
		if is {
			return nil, status.Error(codes.Unavailable, "down")
		}
		return next(ctx, in)
	}})
	set := func(is bool) {
		mu.Lock()
		defer mu.Unlock()
		down = is
	}
	r.start()
	r.api.create(webPod("web"))
	before := r.api.await(t, "web", "running", running)
	set(true)
	r.api.create(webPod("late"))
	eventually(t, "the node says so", func() bool {
		r.api.mu.Lock()
		defer r.api.mu.Unlock()
		return nodeReady(r.api.node).Status == corev1.ConditionFalse
	})
	set(false)
	r.api.await(t, "late", "running", running)
	after := r.api.await(t, "web", "running", running)
	if a, b := after.Status.ContainerStatuses[0].ContainerID, before.Status.ContainerStatuses[0].ContainerID; a != b {
		t.Errorf("container %s became %s", b, a)
	}
}

func TestDeleteDoesNotWaitForLongerGrace(t *testing.T) {
	r := newRig(t, memruntime.Config{Behave: func(*runtimeapi.ContainerConfig) memruntime.Behavior {
		return memruntime.Behavior{IgnoresTerm: true}
	}})
	r.start()
	r.api.create(webPod("web"))
	r.api.await(t, "web", "running", running)
	r.api.delete("web", 3600)
	r.api.awaitEvent(t, "web", "Killing", "Stopping container web")
	start := time.Now()
	r.api.delete("web", 0)
	r.api.await(t, "web", "gone", gone)
	// It has a second all the same, and not the hour.
	if took := time.Since(start); took < time.Second {
		t.Errorf("a pod told to stop at once took %v", took)
	}
}
