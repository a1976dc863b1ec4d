package events

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestLRUForgetsTheOldest(t *testing.T) {
	l := newLRU[int, string](2)
	l.put(1, "a")
	l.put(2, "b")
	l.get(1)
	l.put(3, "c")
	if l.get(2) != nil {
		t.Error("2 was not forgotten")
	}
	if v := l.get(1); v == nil || *v != "a" || len(l.places) != 2 || len(l.entries) != 3 {
		t.Errorf("1 is %v, %d items", v, len(l.places))
	}
}

// TestLRUIsTheModel compares random calls with a slice that has the most recently used key in
// front.
func TestLRUIsTheModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for limit := 1; limit < 8; limit++ {
		l := newLRU[int, int](limit)
		var keys []int
		values := map[int]int{}
		for i := range 3000 {
			key := random.IntN(12)
			at := slices.Index(keys, key)
			if random.IntN(2) == 0 {
				got := l.get(key)
				if (got != nil) != (at >= 0) || got != nil && *got != values[key] {
					t.Fatalf("limit %d, call %d: get %d: %v, want %v of %v", limit, i, key, got, values[key], keys)
				}
				if at < 0 {
					continue
				}
			} else {
				values[key] = i
				if got := l.put(key, i); *got != i {
					t.Fatalf("limit %d, call %d: put %d: %d", limit, i, key, *got)
				}
			}
			if at >= 0 {
				keys = slices.Delete(keys, at, at+1)
			}
			keys = append([]int{key}, keys...)
			keys = keys[:min(len(keys), limit)]
		}
	}
}

// TestCorrelatorHoldsLittle fills the correlator to its limits with objects that have long names.
func TestCorrelatorHoldsLittle(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapObjects
	}
	c := newCorrelator()
	before := heap()
	now := time.Now()
	for i := range 3 * remembered {
		about := corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: fmt.Sprint(strings.Repeat("n", 100), i)}
		at := now.Add(time.Duration(i) * time.Millisecond)
		c.admit(newEvent(about, "Normal", "Started", fmt.Sprint("Started container ", i), at))
	}
	if after := heap(); after > before+200 {
		t.Errorf("%d objects on the heap for %d events", after-before, remembered)
	}
	runtime.KeepAlive(c)
}
