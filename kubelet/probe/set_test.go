package probe_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/kubelet/probe"
)

// server is a Prober whose answers a test sets, by kind of probe. The action's command names the
// kind.
type server struct {
	mu     sync.Mutex
	answer map[string]probe.Result
	broken error
	tries  map[string][]time.Time
}

func newServer() *server {
	return &server{answer: map[string]probe.Result{}, tries: map[string][]time.Time{}}
}

func (s *server) Probe(_ context.Context, _ probe.Target, action *corev1.ProbeHandler) (probe.Result, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := action.Exec.Command[0]
	s.tries[kind] = append(s.tries[kind], time.Now())
	return s.answer[kind], "its output", s.broken
}

func (s *server) set(kind string, r probe.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer[kind] = r
}

func (s *server) count(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tries[kind])
}

// spec returns a probe with the API's defaults whose action names kind.
func spec(kind string) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{kind}}}}
}

// pod returns a pod with one container that has the given probes.
func pod(startup, liveness, readiness *corev1.Probe) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "web", StartupProbe: startup, LivenessProbe: liveness, ReadinessProbe: readiness,
	}}}}
}

// world is one pod's Set with its server.
type world struct {
	t       *testing.T
	server  *server
	set     *probe.Set
	pod     *corev1.Pod
	running []probe.Running
	events  []string
	changed int
	mu      sync.Mutex
}

func newWorld(t *testing.T, p *corev1.Pod, c probe.Config) *world {
	w := &world{t: t, server: newServer(), pod: p, running: []probe.Running{{Name: "web", ID: "1", StartedAt: time.Now()}}}
	c.Prober = w.server
	c.Changed = func() { w.mu.Lock(); w.changed++; w.mu.Unlock() }
	c.Event = func(_ *corev1.Pod, c *corev1.Container, reason, message string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, c.Name+" "+reason+" "+message)
	}
	w.set = probe.NewSet(c)
	t.Cleanup(w.set.Stop)
	return w
}

// after advances the clock and returns the state of the container.
func (w *world) after(d time.Duration) probe.State {
	w.set.Update(w.pod, "10.0.0.1", w.running)
	time.Sleep(d)
	synctest.Wait()
	return w.set.Update(w.pod, "10.0.0.1", w.running)["web"]
}

func (w *world) expect(d time.Duration, started, ready bool, unhealthy probe.Kind) {
	w.t.Helper()
	s := w.after(d)
	var kind probe.Kind
	if s.Unhealthy != nil {
		kind = s.Unhealthy.Kind
	}
	if s.Started != started || s.Ready != ready || kind != unhealthy {
		w.t.Fatalf("started %v, ready %v, unhealthy %q; want %v, %v, %q", s.Started, s.Ready, kind, started, ready, unhealthy)
	}
}

func TestWithoutProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod(nil, nil, nil), probe.Config{})
		w.expect(0, true, true, "")
	})
}

func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod(nil, nil, spec("readiness")), probe.Config{})
		w.expect(0, true, false, "")
		w.server.set("readiness", probe.Success)
		w.expect(9*time.Second, true, false, "")
		w.expect(time.Second, true, true, "")
		w.server.set("readiness", probe.Failure)
		w.expect(20*time.Second, true, true, "") // two failures
		w.expect(10*time.Second, true, false, "")
		w.server.set("readiness", probe.Warning)
		w.expect(10*time.Second, true, true, "")
		if want := 3; w.changed != want {
			t.Errorf("%d changes, want %d", w.changed, want)
		}
		want := []string{
			"web Unhealthy Readiness probe failed: its output",
			"web Unhealthy Readiness probe failed: its output",
			"web Unhealthy Readiness probe failed: its output",
			"web Unhealthy Readiness probe failed: its output",
			"web ProbeWarning Readiness probe warning: its output",
		}
		if !reflect.DeepEqual(w.events, want) {
			t.Errorf("events %q, want %q", w.events, want)
		}
	})
}

// The first attempt is made InitialDelaySeconds after the start, and further ones PeriodSeconds
// after each other; a threshold counts equal results in a row.
func TestTimesAndThresholds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		liveness := spec("liveness")
		liveness.InitialDelaySeconds, liveness.PeriodSeconds, liveness.FailureThreshold = 7, 2, 2
		liveness.TerminationGracePeriodSeconds = new(int64)
		*liveness.TerminationGracePeriodSeconds = 5
		w := newWorld(t, pod(nil, liveness, nil), probe.Config{})
		begin := time.Now()
		w.expect(8*time.Second, true, true, "") // a failure at 7
		w.server.set("liveness", probe.Success)
		w.expect(2*time.Second, true, true, "") // a success at 9
		w.server.set("liveness", probe.Failure)
		w.expect(2*time.Second, true, true, "") // a failure at 11
		w.expect(2*time.Second, true, true, probe.Liveness)
		if s := w.after(0); *s.Unhealthy.Grace != 5 {
			t.Errorf("grace %d, want the probe's 5", *s.Unhealthy.Grace)
		}
		w.server.set("liveness", probe.Success)
		w.expect(time.Minute, true, true, probe.Liveness) // for good
		for i, at := range w.server.tries["liveness"] {
			if want := time.Duration(7+2*i) * time.Second; at.Sub(begin) != want {
				t.Errorf("attempt %d after %v, want %v", i, at.Sub(begin), want)
			}
		}
		if n := w.server.count("liveness"); n != 4 {
			t.Errorf("%d attempts, want 4", n)
		}
	})
}

// The other probes begin after the startup probe has succeeded.
func TestStartup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod(spec("startup"), spec("liveness"), spec("readiness")), probe.Config{})
		w.expect(15*time.Second, false, false, "")
		if n := w.server.count("liveness") + w.server.count("readiness"); n != 0 {
			t.Fatalf("%d attempts before the start", n)
		}
		w.server.set("startup", probe.Success)
		w.server.set("liveness", probe.Success)
		w.server.set("readiness", probe.Success)
		w.expect(5*time.Second, true, true, "")
		w.expect(time.Minute, true, true, "")
		if n := w.server.count("startup"); n != 3 {
			t.Errorf("%d attempts of the startup probe, want 3", n)
		}
	})
}

func TestStartupFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod(spec("startup"), nil, nil), probe.Config{})
		w.expect(19*time.Second, false, false, "")
		w.expect(time.Second, false, false, probe.Startup)
	})
}

// A restarted container starts without results.
func TestRestartedContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod(nil, spec("liveness"), spec("readiness")), probe.Config{})
		w.server.set("readiness", probe.Success)
		w.expect(21*time.Second, true, true, probe.Liveness)
		w.running = []probe.Running{{Name: "web", ID: "2", StartedAt: time.Now()}}
		w.server.set("readiness", probe.Failure)
		w.expect(0, true, false, "")
		w.running = nil
		if states := w.set.Update(w.pod, "", nil); len(states) != 0 {
			t.Errorf("states of containers that do not run: %v", states)
		}
		before := w.server.count("liveness")
		time.Sleep(time.Minute)
		if n := w.server.count("liveness"); n != before {
			t.Errorf("%d attempts at a container that does not run", n-before)
		}
	})
}

// After a restart of the kubelet, containers keep the state that the pod's status has, and the
// first attempts are spread over a period.
func TestRestartedKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pod(spec("startup"), nil, spec("readiness"))
		started := true
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", ContainerID: "containerd://1", Ready: true, Started: &started}}
		began := time.Now().Add(-time.Hour)
		spread := map[time.Duration]bool{}
		for range 20 {
			now := time.Now()
			w := newWorld(t, p, probe.Config{Since: now})
			w.running[0].StartedAt = began
			w.expect(0, true, true, "")
			w.expect(10*time.Second, true, true, "")
			if n := w.server.count("startup"); n != 0 {
				t.Fatalf("the startup probe of a started container was tried")
			}
			first := w.server.tries["readiness"][0].Sub(now)
			if first >= 10*time.Second {
				t.Errorf("first attempt after %v", first)
			}
			spread[first.Truncate(time.Second)] = true
			w.expect(30*time.Second, true, false, "")
			w.set.Stop()
		}
		if len(spread) < 4 {
			t.Errorf("first attempts after %v", spread)
		}
	})
}

// An attempt that cannot be made is tried three times and changes nothing.
func TestBrokenProber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod(nil, spec("liveness"), nil), probe.Config{})
		w.server.broken = errors.New("runtime is away")
		w.expect(35*time.Second, true, true, "")
		if n := w.server.count("liveness"); n != 12 {
			t.Errorf("%d tries, want 4 attempts of 3", n)
		}
		if want := "web Unhealthy Liveness probe errored and resulted in unknown state: runtime is away"; w.events[0] != want || len(w.events) != 4 {
			t.Errorf("events %q", w.events)
		}
	})
}

// While a pod terminates, only readiness probes continue.
func TestTerminating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod(nil, spec("liveness"), spec("readiness")), probe.Config{})
		w.server.set("readiness", probe.Success)
		w.server.set("liveness", probe.Success)
		w.expect(time.Second, true, true, "")
		w.pod = w.pod.DeepCopy()
		w.pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		w.server.set("readiness", probe.Failure)
		w.server.set("liveness", probe.Failure)
		w.expect(time.Minute, true, false, "")
		if n := w.server.count("liveness"); n != 1 {
			t.Errorf("%d attempts of the liveness probe, want 1", n)
		}
	})
}

// An attempt that hangs ends at its timeout.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pod(nil, spec("liveness"), nil)
		p.Spec.Containers[0].LivenessProbe.TimeoutSeconds = 4
		var took []time.Duration
		set := probe.NewSet(probe.Config{
			Prober: probe.ProberFunc(func(ctx context.Context, _ probe.Target, _ *corev1.ProbeHandler) (probe.Result, string, error) {
				<-ctx.Done()
				return probe.Failure, ctx.Err().Error(), nil
			}),
			Observe: func(_ *corev1.Pod, _ *corev1.Container, _ probe.Kind, result string, d time.Duration) {
				if result != "failed" {
					t.Errorf("result %q", result)
				}
				took = append(took, d)
			},
		})
		defer set.Stop()
		running := []probe.Running{{Name: "web", ID: "1", StartedAt: time.Now()}}
		set.Update(p, "", running)
		time.Sleep(25 * time.Second)
		if state := set.Update(p, "", running)["web"]; state.Unhealthy == nil {
			t.Error("healthy although it hangs")
		}
		if fmt.Sprint(took) != "[4s 4s 4s]" {
			t.Errorf("attempts took %v", took)
		}
	})
}

// TestClockSetBack: a container that seems to have started in the future is probed after its initial delay.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readiness := spec("readiness")
		readiness.InitialDelaySeconds = 10
		w := newWorld(t, pod(nil, nil, readiness), probe.Config{})
		defer w.set.Stop()
		w.running[0].StartedAt = time.Now().Add(time.Hour)
		w.set.Update(w.pod, "10.0.0.1", w.running)
		time.Sleep(10*time.Second - 1)
		synctest.Wait()
		early := w.server.count("readiness")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := w.server.count("readiness"); early != 0 || n != 1 {
			t.Errorf("%d attempts before the initial delay and %d after, want 0 and 1", early, n)
		}
	})
}
