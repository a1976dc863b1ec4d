package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func waiting(name, uid string) *PodInfo {
	return NewPodInfo(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}})
}

// newTestQueue returns a queue in which the errors of a class are alike.
func newTestQueue() *queue {
	return newQueue(&Config{InitialBackoff: defaultBackoff, MaxBackoff: defaultMaxBackoff}, rules{
		alike:    func(*FitError) bool { return true },
		errorFor: func(err *FitError, p *PodInfo) *FitError { return err },
	})
}

func TestBackoffDoublesToTenSeconds(t *testing.T) {
	q, now, p := newTestQueue(), time.Unix(0, 0), waiting("a", "1")
	q.set(p, true, now)
	for _, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		if _, ok := q.pop(now); !ok {
			t.Fatal("not ready")
		}
		q.retry(p, nil, now)
		at, ok := q.next()
		if !ok || at.Sub(now) != want*time.Second {
			t.Errorf("backoff %v, want %vs", at.Sub(now), int(want))
		}
		if _, ok := q.pop(at.Add(-1)); ok {
			t.Error("ready too early")
		}
		now = at
	}
}

func TestParkedForFiveMinutes(t *testing.T) {
	q, now, p := newTestQueue(), time.Unix(0, 0), waiting("a", "1")
	q.set(p, true, now)
	q.pop(now)
	q.park(p, nil, "", nil, now)
	q.set(p, false, now) // a change of no interest
	if at, ok := q.next(); !ok || at.Sub(now) != 5*time.Minute {
		t.Errorf("next at %v", at)
	}
	if _, ok := q.pop(now.Add(5 * time.Minute)); !ok {
		t.Error("not ready after five minutes")
	}
	q.park(p, nil, "", nil, now)
	q.set(p, true, now.Add(time.Minute)) // its backoff is over
	if _, ok := q.pop(now.Add(time.Minute)); !ok {
		t.Error("not ready after a change")
	}
	q.remove(p.Key)
	q.park(p, nil, "", nil, now) // comes back from an attempt, but is gone
	if _, ok := q.next(); ok || len(q.entries) != 0 {
		t.Error("something is left")
	}
}

// TestQueueModel does random things and checks that every pod is in exactly the
// place where it should be.
func TestQueueModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	q, now := newTestQueue(), time.Unix(0, 0)
	model := make(map[string]string) // name to ready, backoff, parked or popped
	pods := make(map[string]*PodInfo)
	until := make(map[string]time.Time)
	for step := range 20000 {
		name := fmt.Sprint(rng.IntN(12))
		key := "ns/" + name
		switch rng.IntN(8) {
		case 0, 1:
			p := waiting(name, fmt.Sprint(rng.IntN(3)))
			if old := pods[key]; old == nil || old.Pod.UID != p.Pod.UID {
				model[key] = "ready"
			}
			pods[key] = p
			q.set(p, false, now)
		case 2:
			q.remove(key)
			delete(model, key)
			delete(pods, key)
		case 3, 4:
			for k, where := range model {
				if where == "backoff" && !until[k].After(now) {
					model[k] = "ready"
				}
			}
			if a, ok := q.pop(now); ok {
				p := a.pod
				if model[p.Key] != "ready" || pods[p.Key].Pod.UID != p.Pod.UID {
					t.Fatalf("step %d: popped %s, which is %q", step, p.Key, model[p.Key])
				}
				model[p.Key] = "popped"
			}
		case 5:
			if model[key] == "popped" {
				q.park(pods[key], nil, "", nil, now)
				model[key], until[key] = "parked", q.entries[key].until
			}
		case 6:
			if model[key] == "popped" {
				q.retry(pods[key], nil, now)
				model[key], until[key] = "backoff", q.entries[key].until
			}
		case 7:
			if rng.IntN(10) == 0 {
				q.wakeIf(func(*FitError) bool { return true }, none, now)
				for k, where := range model {
					if where == "parked" && until[k].After(now) {
						model[k] = "backoff"
					} else if where == "parked" {
						model[k] = "ready"
					}
				}
			}
			now = now.Add(time.Duration(rng.IntN(20)) * time.Millisecond)
		}
		counts := make(map[string]int)
		for _, where := range model {
			counts[where]++
		}
		if q.ready.Len() != counts["ready"] || q.backoff.Len() != counts["backoff"] ||
			q.parked.Len() != counts["parked"] || len(q.entries) != len(model) {
			t.Fatalf("step %d: %d ready, %d backing off, %d parked; want %v", step, q.ready.Len(), q.backoff.Len(), q.parked.Len(), counts)
		}
	}
}
