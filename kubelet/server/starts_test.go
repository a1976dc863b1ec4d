package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestStarts: four commands of a pod start at once, those of other pods beside them. A command whose end is not
// known makes room after a second, and a client waits for no more than 20.
func TestStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s starts
		begun := time.Now()
		wait := func(pod string, want bool, after time.Duration) func() {
			t.Helper()
			ended, ok := s.wait(t.Context(), types.UID(pod))
			if got := time.Since(begun); ok != want || got != after {
				t.Fatalf("wait(%q) = %v after %v, want %v after %v", pod, ok, got, want, after)
			}
			return ended
		}
		first := wait("a", true, 0)
		for range startsAtOnce - 1 {
			wait("a", true, 0)
		}
		wait("b", true, 0)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, ok := s.wait(gone, "a"); ok {
			t.Error("wait(a) = true for a client that has gone, want false")
		}
		first()
		first()
		wait("a", true, 0)
		wait("a", true, time.Second)
		time.Sleep(2 * startTime)
		checkNone(t, &s)
	})
}

// TestStartsEnd: a client whose command cannot be started gets its answer after 30 s.
func TestStartsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s starts
		const clients = 300
		results := make(chan bool, clients)
		begun := time.Now()
		for range clients {
			go func() {
				_, ok := s.wait(t.Context(), "a")
				results <- ok
			}()
		}
		started := 0
		for range clients {
			if <-results {
				started++
			}
		}
		if took, want := time.Since(begun), startsAtOnce*int(startWait/startTime); took != startWait || started < want || started > want+startsAtOnce {
			t.Errorf("%d of %d commands have started after %v, want about %d after %v", started, clients, took, want, startWait)
		}
		time.Sleep(2 * startTime)
		checkNone(t, &s)
	})
}

func checkNone(t *testing.T, s *starts) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pods) != 0 {
		t.Errorf("%d pods have commands that start, want 0", len(s.pods))
	}
}
