package informer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/informer"
)

// attempts runs an informer of a source whose nth connection lasts for the time of lasts, and
// returns the delays between connections.
func attempts(t *testing.T, n int, lasts func(nth int) time.Duration) (waits []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		nth, ended := 0, time.Now()
		stop := start(t, newInformer(t, sourceFunc(func(ctx context.Context, _ string, _ informer.Sink[*object]) error {
			if nth > 0 {
				waits = append(waits, time.Since(ended))
			}
			if nth++; nth > n {
				close(done)
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(lasts(nth))
			ended = time.Now()
			return errors.New("broken")
		})))
		<-done
		stop()
	})
	return waits
}

// TestWaitsDiffer: informers that lost one server at the same time do not reconnect at the same
// time, neither at first nor later.
func TestWaitsDiffer(t *testing.T) {
	const informers, each = 10, 6
	var seen [each]map[time.Duration]bool
	for range informers {
		for i, wait := range attempts(t, each, func(int) time.Duration { return 0 }) {
			if seen[i] == nil {
				seen[i] = map[time.Duration]bool{}
			}
			seen[i][wait] = true
		}
	}
	for i := range seen {
		// Two delays of at least tens of milliseconds are never equal in nanoseconds.
		if len(seen[i]) < informers-1 {
			t.Errorf("before attempt %d, %d informers waited for %d different times", i+2, informers, len(seen[i]))
		}
	}
}

// TestBackoffStartsOver: a connection that lasted is not a failure.
func TestBackoffStartsOver(t *testing.T) {
	waits := attempts(t, 6, func(nth int) time.Duration {
		if nth == 5 {
			return 30 * time.Second
		}
		return time.Millisecond
	})
	if waits[3] < 3200*time.Millisecond || waits[4] > 100*time.Millisecond {
		t.Errorf("the waits were %v: the fourth is to be 3.2 s or more, and that after the connection that lasted 0.1 s or less", waits)
	}
}
