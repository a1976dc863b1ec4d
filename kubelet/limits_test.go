package kubelet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// TestRestartBackoff: the delays of a container that fails again and again, with a greatest one.
func TestRestartBackoff(t *testing.T) {
	for _, test := range []struct {
		most, during time.Duration
		want         []int // seconds between two attempts, after the first restart, which is at once
	}{
		{0, 16 * time.Minute, []int{10, 20, 40, 80, 160, 300, 300}},
		{25 * time.Second, 100 * time.Second, []int{10, 20, 25, 25}},
		{3 * time.Second, 20 * time.Second, []int{3, 3, 3}},
	} {
		var starts []time.Time
		behave := func(*runtimeapi.ContainerConfig) memruntime.Behavior {
			starts = append(starts, time.Now())
			return memruntime.Behavior{Exits: true, ExitCode: 3}
		}
		inBubble(t, memruntime.Config{Behave: behave}, func(t *testing.T, r *rig) {
			r.config.MaxRestartBackoff = test.most
			r.start()
			r.api.create(webPod("web"))
			time.Sleep(test.during)
		})
		if len(starts) < len(test.want)+2 {
			t.Fatalf("at most %v: %d starts", test.most, len(starts))
		}
		for i, want := range test.want {
			got := starts[i+2].Sub(starts[i+1])
			if seconds := got.Seconds(); seconds < float64(want) || seconds > float64(want)+1.5 {
				t.Errorf("at most %v: restart %d came after %v, want %d s", test.most, i+2, got, want)
			}
		}
	}
}

// TestPullRate: a pull too many fails, and is made after its backoff of 10 seconds.
func TestPullRate(t *testing.T) {
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		r.config.PullRate = kubelet.Rate{PerSecond: 1, Burst: 2}
		r.start()
		for _, name := range []string{"a", "b", "c"} {
			pod := webPod(name)
			pod.Spec.Containers[0].Image = name
			r.api.create(pod)
		}
		time.Sleep(5 * time.Second)
		held := 0
		r.api.mu.Lock()
		for _, e := range r.api.events {
			if e.Message == fmt.Sprintf("Failed to pull image %q: pull QPS exceeded", e.InvolvedObject.Name) {
				held++
			}
		}
		r.api.mu.Unlock()
		if held != 1 {
			t.Errorf("%d pulls failed, want 1", held)
		}
		time.Sleep(10 * time.Second)
		for _, name := range []string{"a", "b", "c"} {
			r.api.await(t, name, "running", running)
		}
	})
}

// TestPodsPerCore: a node has room for no more pods than its CPUs allow, and the Node says so.
func TestPodsPerCore(t *testing.T) {
	for _, test := range []struct{ perCore, want int64 }{{0, 10}, {2, 4}, {100, 10}} {
		inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
			r.config.Capacity[corev1.ResourcePods] = resource.MustParse("10")
			r.config.PodsPerCore, r.config.ProviderID = int(test.perCore), "cloud://1"
			r.start()
			node, err := nodeAPI{r.api}.Get(t.Context(), "", "node-1")
			if err != nil {
				t.Fatal(err)
			}
			if n := node.Status.Allocatable.Pods().Value(); n != test.want || node.Status.Capacity.Pods().Value() != n || node.Spec.ProviderID != "cloud://1" {
				t.Errorf("%d pods for each of two CPUs: %d pods, want %d; provider %s", test.perCore, n, test.want, node.Spec.ProviderID)
			}
			if test.perCore != 2 {
				return
			}
			for i := range 5 {
				r.api.create(webPod(fmt.Sprint("web", i)))
			}
			refused := 0
			time.Sleep(time.Minute)
			for i := range 5 {
				pod := r.api.await(t, fmt.Sprint("web", i), "decided", func(p *corev1.Pod) bool { return running(p) || p.Status.Phase == corev1.PodFailed })
				if pod.Status.Reason == "OutOfpods" {
					refused++
				}
			}
			if refused != 1 {
				t.Errorf("%d pods are refused, want 1", refused)
			}
		})
	}
}

// TestNodeImages: the Node lists as many images as it may.
func TestNodeImages(t *testing.T) {
	for _, test := range []struct {
		most *int
		want int
	}{{nil, 50}, {new(-1), 60}, {new(0), 0}, {new(3), 3}} {
		inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
			r.config.NodeImages = test.most
			for i := range 60 {
				if _, err := r.config.Images.PullImage(t.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: fmt.Sprint("image", i)}}); err != nil {
					t.Fatal(err)
				}
			}
			r.start()
			time.Sleep(time.Minute)
			node, err := nodeAPI{r.api}.Get(t.Context(), "", "node-1")
			if err != nil || len(node.Status.Images) != test.want {
				t.Errorf("%d images, want %d (%v)", len(node.Status.Images), test.want, err)
			}
		})
	}
}

// timedEvents notes when events are written.
type timedEvents struct {
	kubelet.Events
	mu    sync.Mutex
	times []time.Time // guarded by mu
}

func (e *timedEvents) Create(_ context.Context, event *corev1.Event) (*corev1.Event, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.times = append(e.times, time.Now())
	return event, nil
}

// take returns how many events were written since the last call.
func (e *timedEvents) take() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(e.times)
	e.times = nil
	return n
}

// TestEventRate: more events than may be written at once wait for their turn, and none is lost.
func TestEventRate(t *testing.T) {
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		written := &timedEvents{Events: r.config.Events}
		r.config.Events, r.config.EventRate = written, kubelet.Rate{PerSecond: 2, Burst: 4}
		r.start()
		time.Sleep(time.Minute) // until the node's own events are written
		written.take()
		for i := range 10 {
			r.api.create(webPod(fmt.Sprint("web", i)))
		}
		time.Sleep(10*time.Second + 100*time.Millisecond)
		first := written.take()
		if first != 4+2*10 {
			t.Errorf("%d events in 10 seconds, want 24", first)
		}
		time.Sleep(time.Minute)
		if n := first + written.take(); n < 40 || n > 50 {
			t.Errorf("%d events of 10 pods", n)
		}
	})
}

// TestLogInterval: logs are looked at as often as the configuration says.
func TestLogInterval(t *testing.T) {
	for _, test := range []struct{ interval, want time.Duration }{{0, 10 * time.Second}, {3 * time.Second, 3 * time.Second}} {
		inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
			r.config.LogInterval, r.config.LogWorkers, r.config.LogMaxSize = test.interval, 2, 1000
			r.start()
			begin := time.Now()
			pod := r.api.create(webPod("web"))
			r.api.await(t, "web", "running", running)
			log := filepath.Join(r.config.LogRoot, "default_web_"+string(pod.UID), "web", "0.log")
			if err := os.WriteFile(log, []byte(strings.Repeat("x", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
			for {
				rotated, err := filepath.Glob(log + ".*")
				if err != nil {
					t.Fatal(err)
				}
				if len(rotated) > 0 {
					break
				}
				if time.Since(begin) > time.Minute {
					t.Fatal("the log is not rotated")
				}
				time.Sleep(100 * time.Millisecond)
			}
			if took := time.Since(begin); took < test.want-time.Second || took > test.want+time.Second {
				t.Errorf("rotated after %v, want %v", took, test.want)
			}
		})
	}
}

// TestLimitsRefused: New says which limit is wrong.
func TestLimitsRefused(t *testing.T) {
	for want, change := range map[string]func(*kubelet.Config){
		"LogInterval -1ns is negative":                          func(c *kubelet.Config) { c.LogInterval = -1 },
		"LogWorkers -1 is negative":                             func(c *kubelet.Config) { c.LogWorkers = -1 },
		"PodsPerCore -1 is negative":                            func(c *kubelet.Config) { c.PodsPerCore = -1 },
		"NodeImages is less than -1":                            func(c *kubelet.Config) { c.NodeImages = new(-2) },
		"MaxRestartBackoff 1ms is not between 1s and 5m0s":      func(c *kubelet.Config) { c.MaxRestartBackoff = time.Millisecond },
		"PullRate has a negative field: {PerSecond:-1 Burst:0}": func(c *kubelet.Config) { c.PullRate.PerSecond = -1 },
		"EventRate.Burst -1 is negative":                        func(c *kubelet.Config) { c.EventRate.Burst = -1 },
	} {
		inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
			c := r.config
			change(&c)
			if _, err := kubelet.New(c); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			r.stop = func() {}
		})
	}
}
