package unsupported_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/unsupported"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// board is a store of pods with the events about them.
type board struct {
	mu     sync.Mutex
	stored map[string]*corev1.Pod
	events []string
	times  []time.Time
}

func (b *board) store(pods ...*corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, pod := range pods {
		b.stored[pod.Name] = pod
	}
}

func (b *board) config() unsupported.Config {
	return unsupported.Config{
		Lookup: func(_ context.Context, _ admission.GroupVersionResource, _ admission.GroupVersionKind, _, name string) (metav1.Object, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if pod := b.stored[name]; pod != nil {
				return pod, nil
			}
			return nil, errors.New("not found")
		},
		Event: func(about runtime.Object, eventType, reason, message string) {
			ref := about.(*corev1.ObjectReference)
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events = append(b.events, fmt.Sprintf("%s %s/%s %s %s %s: %s", ref.Kind, ref.Namespace, ref.Name, ref.UID, eventType, reason, message))
			b.times = append(b.times, time.Now())
		},
	}
}

// run starts a plugin that ends with the test's bubble.
func (b *board) run(t *testing.T) (p *unsupported.Plugin, stop func()) {
	p = newPlugin(t, b.config())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	return p, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run returned %v", err)
		}
	}
}

func withDeviceNamed(name string, generation int64) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Generation: generation}, Spec: withDevice()}
}

// TestEvents: one event for each generation of an object that was stored.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{stored: map[string]*corev1.Pod{}}
		p, stop := b.run(t)
		defer stop()
		validate := func(pod *corev1.Pod, change func(*admission.Request)) {
			r := request(pod)
			if change != nil {
				change(r)
			}
			if err := p.Validate(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		web := withDeviceNamed("web", 1)
		b.store(web, withDeviceNamed("dry", 1))
		validate(web, nil)
		validate(web, nil) // tried again after a conflict
		validate(withDeviceNamed("refused", 1), nil)
		validate(withDeviceNamed("dry", 1), func(r *admission.Request) { r.DryRun = true })
		other := withDeviceNamed("other", 1)
		validate(other, nil)
		other = other.DeepCopy()
		other.UID = "uid-of-a-successor"
		b.store(other)
		time.Sleep(10 * time.Second)
		next := withDeviceNamed("web", 2)
		validate(next, func(r *admission.Request) { r.Operation, r.OldObject = admission.Update, web })
		time.Sleep(10 * time.Second) // generation 2 is never stored
		validate(next, func(r *admission.Request) { r.Operation, r.OldObject = admission.Update, web })
		b.store(next)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want := "Pod default/web uid-web Warning NotImplemented: spec.containers[0]." + device
		if got := strings.Join(b.events, "\n"); got != want+"\n"+want {
			t.Errorf("events:\n%s\nwant twice:\n%s", got, want)
		}
	})
}

// TestEventsAreBounded: a flood neither waits nor is written faster than the pace.
func TestEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{stored: map[string]*corev1.Pod{}}
		p, stop := b.run(t)
		defer stop()
		begin := time.Now()
		for i := range 10_000 {
			pod := withDeviceNamed(fmt.Sprint("web-", i), 1)
			b.store(pod)
			if err := p.Validate(t.Context(), request(pod)); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(begin); waited > 0 {
			t.Errorf("writes waited %v", waited)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := len(b.events); n < 256 || n > 300 {
			t.Errorf("%d events, want those that fit the queue", n)
		}
		for i := range b.times[1:] {
			if gap := b.times[i+1].Sub(b.times[i]); gap < 100*time.Millisecond {
				t.Fatalf("events %d and %d are %v apart", i, i+1, gap)
			}
		}
	})
}

// TestMessageFits: the message of an event is at most as long as events.k8s.io takes, and
// says how much it leaves out.
func TestMessageFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{stored: map[string]*corev1.Pod{}}
		p, stop := b.run(t)
		defer stop()
		pod := withDeviceNamed("web", 1)
		pod.Spec = everything()
		b.store(pod)
		if err := p.Validate(t.Context(), request(pod)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(b.events) != 1 {
			t.Fatalf("events: %q", b.events)
		}
		_, message, _ := strings.Cut(b.events[0], "NotImplemented: ")
		if len(message) > 1024 || len(message) < 512 || !strings.Contains(message, "; and ") || !strings.HasSuffix(message, " more") {
			t.Errorf("%d bytes: %s", len(message), message)
		}
	})
}
