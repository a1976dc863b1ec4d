package loop

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/reconcile"
)

// meter is Metrics that counts.
type meter struct {
	adds, got, calls, watched atomic.Int64
	workers                   int
}

func (m *meter) Queue(string) reconcile.QueueHooks {
	return reconcile.QueueHooks{Added: func() { m.adds.Add(1) }, Got: func(time.Duration) { m.got.Add(1) }}
}

func (m *meter) Controller(_ string, workers int) reconcile.Hooks {
	m.workers = workers
	return reconcile.Hooks{Ended: func(reconcile.Outcome, time.Duration) { m.calls.Add(1) }}
}

func (m *meter) Watch(_ string, q interface{ Stats() reconcile.QueueStats }) (stop func()) {
	m.watched.Store(int64(1 + q.Stats().Depth))
	return func() { m.watched.Store(0) }
}

// TestNamespacesTakeTurns has one namespace with a thousand objects before one
// with a single one, and names without a namespace.
func TestNamespacesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		m := &meter{}
		l, err := New(Config{Name: "turns", Workers: 1, Metrics: m}, func(_ context.Context, key string) (reconcile.Result, error) {
			order = append(order, key)
			return reconcile.Result{}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			l.Enqueue(fmt.Sprintf("large/%d", i))
		}
		for i := range 100 {
			l.Enqueue(fmt.Sprintf("node-%d", i))
		}
		l.Enqueue("small/one")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		synctest.Wait()
		if at := slices.Index(order, "small/one"); at < 0 || at > 2 {
			t.Errorf("the only key of its namespace is number %d", at)
		}
		// Those without a namespace are one tenant among three, and not a hundred.
		if at := slices.Index(order, "node-99"); at < 190 {
			t.Errorf("the hundredth without a namespace is number %d", at)
		}
		if adds, got, calls := m.adds.Load(), m.got.Load(), m.calls.Load(); adds != 1101 || got != 1101 || calls != 1101 || m.workers != 1 {
			t.Errorf("told of %d adds, %d taken, %d calls, %d workers", adds, got, calls, m.workers)
		}
		if m.watched.Load() != 1102 {
			t.Errorf("watched with a depth of %d", m.watched.Load()-1)
		}
		cancel()
		if err := <-done; err != nil || m.watched.Load() != 0 {
			t.Errorf("after the end: %v, watched %d", err, m.watched.Load())
		}
	})
}
