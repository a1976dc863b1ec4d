package kubelet_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// startMeters counts what the meters of starts say.
type startMeters struct {
	mu         sync.Mutex
	counts     map[string]int // guarded by mu, as the fields below
	total, sli time.Duration
	running    time.Duration
}

func (m *startMeters) meters() kubelet.Meters {
	note := func(what string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.counts[what]++
	}
	return kubelet.Meters{
		WorkerStarted: func(time.Duration) { note("worker") },
		Synced:        func(operation string, _ time.Duration) { note(operation) },
		PodRunning: func(took time.Duration) {
			note("running")
			m.mu.Lock()
			defer m.mu.Unlock()
			m.running = took
		},
		PodStarted: func(total, sli time.Duration, stateful bool) {
			note("started")
			m.mu.Lock()
			defer m.mu.Unlock()
			m.total, m.sli = total, sli
		},
		ContainerStarting: func(kind string) { note(kind) },
		ContainerFailed:   func(kind, reason string) { note(kind + " " + reason) },
	}
}

// take returns the counts since the last call, without those of works that need no change.
func (m *startMeters) take() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := m.counts
	m.counts = map[string]int{}
	delete(counts, "sync")
	return counts
}

// TestStartMeters: the starts of a pod whose first pull fails and whose init container runs for a while, a
// change of it, and its end.
func TestStartMeters(t *testing.T) {
	var pulls int
	c := memruntime.Config{
		Pull: func(_ context.Context, _ string, _ *runtimeapi.AuthConfig) error {
			if pulls++; pulls == 1 {
				return errors.New("no route")
			}
			time.Sleep(2 * time.Second)
			return nil
		},
		Behave: func(c *runtimeapi.ContainerConfig) memruntime.Behavior {
			if c.Metadata.Name == "init" {
				return memruntime.Behavior{For: 5 * time.Second, TermCode: 143}
			}
			return memruntime.Behavior{}
		},
	}
	inBubble(t, c, func(t *testing.T, r *rig) {
		m := &startMeters{counts: map[string]int{}}
		r.config.Meters = m.meters()
		r.start()
		pod := webPod("web")
		pod.CreationTimestamp = metav1.NewTime(time.Now())
		pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init"}}
		r.api.create(pod)
		r.api.await(t, "web", "running", running)
		time.Sleep(time.Minute)
		want := map[string]int{
			"worker": 1, "create": 1, "running": 1, "started": 1,
			"init_container": 2, "init_container ErrImagePull": 1, "container": 1,
		}
		if got := m.take(); !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		// 10 seconds of backoff, two pulls of 2 seconds, and 5 seconds of the init container.
		if m.total < 19*time.Second || m.total > 22*time.Second || m.sli < 0 || m.sli > 3*time.Second || m.running < 5*time.Second || m.running > m.total+time.Second {
			t.Errorf("total %v, sli %v, running %v", m.total, m.sli, m.running)
		}

		// An earlier kubelet has started the pod.
		r.stop()
		r.start()
		time.Sleep(time.Minute)
		if got, want := m.take(), map[string]int{"worker": 1, "create": 1}; !maps.Equal(got, want) {
			t.Errorf("after a restart: %v, want %v", got, want)
		}
		r.api.delete("web", 1)
		r.api.await(t, "web", "gone", gone)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		got := m.take()
		if got["terminated"] != 1 || got["create"]+got["worker"]+got["running"]+got["started"]+got["container"] > 0 {
			t.Errorf("at the end: %v", got)
		}
	})
}
