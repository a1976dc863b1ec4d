package kubelet_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// busyRuntime refuses to remove sandboxes as long as busy is set.
type busyRuntime struct {
	*memruntime.Runtime
	busy     atomic.Bool
	refusals atomic.Int64
}

func (b *busyRuntime) RemovePodSandbox(ctx context.Context, in *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	if b.busy.Load() {
		b.refusals.Add(1)
		return nil, errors.New("unlinkat /run/netns/cni-1: device or resource busy")
	}
	return b.Runtime.RemovePodSandbox(ctx, in)
}

func (b *busyRuntime) sandboxes(t *testing.T) int {
	t.Helper()
	list, err := b.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

// busyRig is a node on a runtime that refuses to remove sandboxes. lines counts
// what it logs.
func busyRig(t *testing.T) (r *rig, runtime *busyRuntime, lines *atomic.Int64) {
	inner, err := memruntime.New(memruntime.Config{Socket: "/not/listened/at"})
	if err != nil {
		t.Fatal(err)
	}
	runtime, lines = &busyRuntime{Runtime: inner}, new(atomic.Int64)
	runtime.busy.Store(true)
	r = rigOn(t, runtime, runtime)
	r.config.Log = funcr.New(func(string, string) { lines.Add(1) }, funcr.Options{})
	return r, runtime, lines
}

// mostRefusals is how often in an hour a pause fits that doubles from a second to
// five minutes, and one more.
const mostRefusals = 9 + 10 + 1

// TestSandboxThatIsNotRemoved: a pod whose dead sandbox the runtime refuses to remove is gone from the API all
// the same. It costs some tries an hour, as many lines of the log and at most one event. The sandbox goes within
// five minutes once the runtime lets it, also after a restart of the kubelet.
func TestSandboxThatIsNotRemoved(t *testing.T) {
	for name, restart := range map[string]bool{"waits": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, runtime, lines := busyRig(t)
				r.start()
				r.api.create(webPod("web"))
				r.api.await(t, "web", "running", running)
				r.api.delete("web", 30)
				r.api.await(t, "web", "gone", gone)
				time.Sleep(time.Hour)
				synctest.Wait()
				if n := runtime.refusals.Load(); n < 10 || n > mostRefusals+1 {
					t.Errorf("%d tries in an hour, want 10 to %d", n, mostRefusals+1)
				}
				if n := lines.Load(); n > mostRefusals+5 {
					t.Errorf("%d lines were logged in an hour", n)
				}
				if got := r.api.eventsAbout("web", "FailedKillPod"); len(got) > 1 {
					t.Errorf("events %s, want at most one", describe(got))
				}
				if n := runtime.sandboxes(t); n != 1 {
					t.Errorf("%d sandboxes, want the one that is not removed", n)
				}
				runtime.busy.Store(false)
				if restart {
					r.stop()
					r.start()
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if n := runtime.sandboxes(t); n != 0 {
					t.Errorf("%d sandboxes are left", n)
				}
				r.stop()
			})
		})
	}
}

// TestOldSandboxThatIsNotRemoved: it does not keep the pod from running in another.
func TestOldSandboxThatIsNotRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, runtime, lines := busyRig(t)
		r.start()
		r.api.create(webPod("web"))
		for attempt := range int32(3) {
			r.api.await(t, "web", "running", running)
			synctest.Wait()
			list, err := runtime.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range list.Items {
				if s.State == runtimeapi.PodSandboxState_SANDBOX_READY {
					if _, err := runtime.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: s.Id}); err != nil {
						t.Fatal(err)
					}
				}
			}
			time.Sleep(20 * time.Minute)
			synctest.Wait()
			pod := r.api.await(t, "web", "running", running)
			if n := pod.Status.ContainerStatuses[0].RestartCount; n != attempt+1 {
				t.Errorf("%d restarts after %d sandboxes died", n, attempt+1)
			}
		}
		if n := runtime.refusals.Load(); n < 5 || n > 3*mostRefusals {
			t.Errorf("%d tries in an hour, want 5 to %d", n, 3*mostRefusals)
		}
		if n := lines.Load(); n > 3*mostRefusals {
			t.Errorf("%d lines were logged in an hour", n)
		}
		if got := r.api.eventsAbout("web", "FailedKillPod"); len(got) != 1 {
			t.Errorf("events %s, want one", describe(got))
		}
		runtime.busy.Store(false)
		r.api.delete("web", 0)
		r.api.await(t, "web", "gone", gone)
		r.stop()
	})
}
