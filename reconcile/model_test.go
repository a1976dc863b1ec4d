package reconcile_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/reconcile"
)

// seeded runs test in bubbles, each with a seed that is part of the test's name.
func seeded(t *testing.T, times int, test func(*testing.T, *rand.Rand)) {
	for range times {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

// TestQueueModel compares a queue, second by second, with slices and maps that give the exact
// order.
func TestQueueModel(t *testing.T) { seeded(t, 50, queueModel) }

const (
	modelKeys    = 12
	modelTenants = 3
)

// model is a simple queue.
type model struct {
	keys map[int]*modelKey
	// lines holds the waiting keys by priority and tenant, turns the tenants by priority in the
	// order of their turns.
	lines map[[2]int][]int
	turns map[int][]int
}

// modelKey is the state of a key in the model.
type modelKey struct {
	waiting, working  bool
	failures          int
	due               time.Time
	priority, delayed int
	held              int
}

func (m *model) add(key, priority int) {
	k := m.keys[key]
	switch {
	case !k.waiting:
		k.waiting, k.priority = true, priority
		if !k.working {
			m.stand(key)
		}
	case priority > k.priority:
		if !k.working {
			m.leave(key)
		}
		k.priority = priority
		if !k.working {
			m.stand(key)
		}
	}
}

func (m *model) stand(key int) {
	p, tenant := m.keys[key].priority, key%modelTenants
	if len(m.lines[[2]int{p, tenant}]) == 0 {
		m.turns[p] = append(m.turns[p], tenant)
	}
	m.lines[[2]int{p, tenant}] = append(m.lines[[2]int{p, tenant}], key)
}

func (m *model) leave(key int) {
	p, tenant := m.keys[key].priority, key%modelTenants
	line := slices.DeleteFunc(m.lines[[2]int{p, tenant}], func(k int) bool { return k == key })
	m.lines[[2]int{p, tenant}] = line
	if len(line) == 0 {
		m.turns[p] = slices.DeleteFunc(m.turns[p], func(t int) bool { return t == tenant })
	}
}

func (m *model) later(key int, wait time.Duration, priority int) {
	k, due := m.keys[key], time.Now().Add(wait)
	if k.due.IsZero() {
		k.due, k.delayed = due, priority
		return
	}
	k.delayed = max(k.delayed, priority)
	if due.Before(k.due) {
		k.due = due
	}
}

// ring adds the due keys. No two are due at the same time, because their order would be undefined.
func (m *model) ring() {
	var due []int
	for key, k := range m.keys {
		if !k.due.IsZero() && !time.Now().Before(k.due) {
			due = append(due, key)
		}
	}
	slices.SortFunc(due, func(a, b int) int { return m.keys[a].due.Compare(m.keys[b].due) })
	for _, key := range due {
		m.keys[key].due = time.Time{}
		m.add(key, m.keys[key].delayed)
	}
}

// end ends a worker's work on key. It then adds the key with o, or resets its failures.
func (m *model) end(key int, failed bool, o reconcile.AddOptions) {
	k := m.keys[key]
	if !k.working {
		return
	}
	if k.working = false; k.waiting {
		m.stand(key)
	}
	priority, wait := o.Priority, o.After
	if priority == 0 {
		priority = k.held
	}
	if o.Retry {
		wait += min(time.Second<<k.failures, 8*time.Second)
		k.failures++
	} else {
		k.failures = 0
	}
	if failed {
		m.later(key, wait, priority)
	}
}

// hand gives key to a worker; -1 means none.
func (m *model) hand(key int) {
	if key >= 0 {
		k := m.keys[key]
		k.waiting, k.working, k.held = false, true, k.priority
	}
}

// next returns the next key, or -1.
func (m *model) next() int {
	for p := 9; p >= -9; p-- {
		if len(m.turns[p]) == 0 {
			continue
		}
		tenant := m.turns[p][0]
		line := m.lines[[2]int{p, tenant}]
		m.lines[[2]int{p, tenant}] = line[1:]
		m.turns[p] = m.turns[p][1:]
		if len(line) > 1 {
			m.turns[p] = append(m.turns[p], tenant)
		}
		return line[0]
	}
	return -1
}

func queueModel(t *testing.T, r *rand.Rand) {
	q := reconcile.NewQueueWith(reconcile.QueueConfig[int]{
		Backoff: reconcile.Backoff{Min: time.Second, Max: 8 * time.Second},
		Tenant:  func(key int) string { return fmt.Sprint(key % modelTenants) },
	})
	m := &model{map[int]*modelKey{}, map[[2]int][]int{}, map[int][]int{}}
	for key := range modelKeys {
		m.keys[key] = &modelKey{}
	}
	for step := range 1000 {
		key := r.IntN(modelKeys)
		priority := r.IntN(19) - 9
		k := m.keys[key]
		switch r.IntN(11) {
		case 0, 1:
			q.AddWith(key, reconcile.AddOptions{Priority: priority})
			m.add(key, priority)
		case 2:
			wait := time.Duration(1+r.IntN(10))*time.Second + time.Duration(step)
			q.AddWith(key, reconcile.AddOptions{After: wait, Priority: priority})
			m.later(key, wait, priority)
		case 3:
			wait := time.Duration(step) // added to the backoff
			q.AddWith(key, reconcile.AddOptions{Retry: true, Priority: priority, After: wait})
			m.later(key, min(time.Second<<k.failures, 8*time.Second)+wait, priority)
			k.failures++
		case 4:
			q.Forget(key)
			k.failures = 0
		case 5, 6:
			q.Done(key)
			if k.working {
				if k.working = false; k.waiting {
					m.stand(key)
				}
			}
		case 7:
			time.Sleep(time.Duration(r.IntN(3)) * time.Second)
			synctest.Wait() // until the queue's timer, due at this same instant, has fired
			m.ring()
		case 8:
			want, got := m.next(), -1
			if q.Len() > 0 {
				got = get(t, q)
			}
			if got != want {
				t.Fatalf("step %d: got %d, want %d", step, got, want)
			}
			m.hand(got)
		case 9, 10:
			o, failed := reconcile.AddOptions{Priority: priority}, true
			switch r.IntN(3) {
			case 0:
				failed = false
			case 1:
				o.After = time.Duration(1+r.IntN(10))*time.Second + time.Duration(step)
			case 2:
				o.Retry, o.After = true, time.Duration(step)
			}
			m.end(key, failed, o)
			want, got := m.next(), -1
			ctx, cancel := context.WithCancel(t.Context())
			if want < 0 {
				cancel() // a cancelled Get does not wait for a key
			}
			if next, err := q.Next(ctx, key, failed, o); err == nil {
				got = next
			}
			cancel()
			if got != want {
				t.Fatalf("step %d: got %d next, want %d", step, got, want)
			}
			m.hand(got)
		}
	}
}

// TestQueueLoad: many goroutines add keys in all ways, and many work, fail and stop. No key is with
// two workers, and the last add of each key is followed by a call.
func TestQueueLoad(t *testing.T) { seeded(t, 40, queueLoad) }

func queueLoad(t *testing.T, r *rand.Rand) {
	const keys = 9
	q := reconcile.NewQueueWith(reconcile.QueueConfig[int]{
		Backoff: reconcile.Backoff{Min: time.Millisecond, Max: 64 * time.Millisecond},
		Tenant:  func(key int) string { return fmt.Sprint(key % modelTenants) },
	})
	var mu sync.Mutex
	var added, seen [keys]int
	var busy [keys]bool
	random := func(n int) int { // r is not safe for concurrent use
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	work := func(ctx context.Context) {
		key, err := q.Get(ctx)
		if err != nil {
			return
		}
		mu.Lock()
		if busy[key] {
			t.Errorf("%d is with two workers", key)
		}
		busy[key], seen[key] = true, added[key]
		mu.Unlock()
		time.Sleep(time.Duration(random(3)) * time.Millisecond)
		mu.Lock()
		busy[key] = false
		mu.Unlock()
		if random(4) == 0 {
			q.Retry(key)
		} else {
			q.Forget(key)
		}
		q.Done(key)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var workers, adders sync.WaitGroup
	for range 5 {
		workers.Go(func() {
			for ctx.Err() == nil {
				some, stop := context.WithTimeout(ctx, time.Duration(1+random(5))*time.Millisecond)
				work(some)
				stop()
			}
		})
	}
	for range 4 {
		adders.Go(func() {
			for range 200 {
				key, o := random(keys), reconcile.AddOptions{Priority: random(3), After: time.Duration(random(3)) * time.Millisecond}
				mu.Lock()
				added[key]++
				mu.Unlock()
				q.AddWith(key, o)
				time.Sleep(time.Duration(random(2)) * time.Millisecond)
			}
		})
	}
	adders.Wait()
	time.Sleep(10 * time.Second)
	if added != seen {
		t.Errorf("last seen %v, added %v", seen, added)
	}
	if got := q.Stats(); got != (reconcile.QueueStats{}) {
		t.Errorf("at the end %+v", got)
	}
	cancel()
	workers.Wait()
}
