package kubelet_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/kubelet/probe"
)

// hooks is a hook.Caller that a test controls.
type hooks struct {
	mu    sync.Mutex
	calls []string
	// begun gets a value whenever a hook begins.
	begun chan string
	fail  error
	// hang is closed when hooks may end.
	hang chan struct{}
}

func newHooks() *hooks {
	h := &hooks{begun: make(chan string, 100), hang: make(chan struct{})}
	close(h.hang)
	return h
}

func (h *hooks) Call(ctx context.Context, t probe.Target, action *corev1.LifecycleHandler) error {
	name := action.Exec.Command[0]
	h.mu.Lock()
	h.calls = append(h.calls, name)
	fail, hang := h.fail, h.hang
	h.mu.Unlock()
	h.begun <- name
	select {
	case <-hang:
		return fail
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *hooks) set(fail error, hang chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fail, h.hang = fail, hang
}

func (h *hooks) count(name string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(h.calls), func(call string) bool { return call != name }))
}

func command(name string) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{name}}}
}

func hookedPod(postStart, preStop *corev1.LifecycleHandler) *corev1.Pod {
	pod := webPod("web")
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: postStart, PreStop: preStop}
	return pod
}

// A pod is not Running before its postStart hook has ended, and its preStop hook is called before it
// is stopped.
func TestHooks(t *testing.T) {
	h := newHooks()
	hang := make(chan struct{})
	h.set(nil, hang)
	r := newRig(t, memruntime.Config{})
	r.config.Hooks = h
	r.start()
	r.api.create(hookedPod(command("post"), command("pre")))
	if name := <-h.begun; name != "post" {
		t.Fatalf("%s was called first", name)
	}
	r.api.awaitEvent(t, "web", "Started", "Container started")
	r.api.await(t, "web", "creating", func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Running == nil
	})
	close(hang)
	r.api.await(t, "web", "running", running)
	hang = make(chan struct{})
	h.set(nil, hang)
	r.api.delete("web", 30)
	if name := <-h.begun; name != "pre" {
		t.Fatalf("%s was called", name)
	}
	if n := len(r.containers()); n != 1 || r.containers()[0].State.String() != "CONTAINER_RUNNING" {
		t.Errorf("the container was stopped before its preStop hook has ended")
	}
	close(hang)
	r.api.await(t, "web", "gone", gone)
	if h.count("post") != 1 || h.count("pre") != 1 {
		t.Errorf("calls %v", h.calls)
	}
}

// A failing postStart hook ends the container, which is started again with a backoff.
func TestPostStartFails(t *testing.T) {
	h := newHooks()
	h.set(errors.New("not today"), h.hang)
	r := newRig(t, memruntime.Config{})
	r.config.Hooks = h
	r.start()
	r.api.create(hookedPod(command("post"), nil))
	r.api.awaitEvent(t, "web", "FailedPostStartHook", "PostStartHook failed")
	r.api.awaitEvent(t, "web", "Killing", "FailedPostStartHook")
	r.api.await(t, "web", "waiting for the hook", func(pod *corev1.Pod) bool {
		w := firstStatus(pod).State.Waiting
		return w != nil && (w.Reason == "PostStartHookError" && strings.Contains(w.Message, "not today") || w.Reason == "CrashLoopBackOff")
	})
	h.set(nil, h.hang)
	pod := r.api.await(t, "web", "running", running)
	if n := pod.Status.ContainerStatuses[0].RestartCount; n == 0 {
		t.Error("not counted as a restart")
	}
}

// A pod whose postStart hook hangs can be deleted; a preStop hook that hangs ends with the grace
// period, and is not called again if the pod must end sooner.
func TestHooksHang(t *testing.T) {
	h := newHooks()
	r := newRig(t, memruntime.Config{})
	r.config.Hooks = h
	r.start()

	h.set(nil, make(chan struct{}))
	r.api.create(hookedPod(command("post"), nil))
	<-h.begun
	r.api.delete("web", 30)
	r.api.await(t, "web", "gone", gone)

	hang := make(chan struct{})
	close(hang)
	h.set(nil, hang)
	r.api.create(hookedPod(nil, command("pre")))
	r.api.await(t, "web", "running", running)
	h.set(nil, make(chan struct{}))
	r.api.delete("web", 3600)
	<-h.begun
	begin := time.Now()
	r.api.delete("web", 1)
	r.api.await(t, "web", "gone", gone)
	if n := h.count("pre"); n != 1 {
		t.Errorf("%d calls of the preStop hook", n)
	}
	if took := time.Since(begin); took > patience/2 {
		t.Errorf("ended after %v", took)
	}
}

// A preStop hook spends the grace period.
func TestPreStopSpendsGrace(t *testing.T) {
	h := newHooks()
	r := newRig(t, memruntime.Config{})
	r.config.Hooks = h
	r.start()
	r.api.create(hookedPod(nil, command("pre")))
	r.api.await(t, "web", "running", running)
	h.set(nil, make(chan struct{}))
	r.api.delete("web", 3)
	r.api.await(t, "web", "gone", gone)
	if n := h.count("pre"); n != 1 {
		t.Errorf("%d calls of the preStop hook", n)
	}
}
