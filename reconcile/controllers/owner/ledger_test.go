package owner

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// waits is a cache that records the revisions waited for, and fails for the revision "gone".
type waits struct{ revisions []string }

func (w *waits) WaitFor(_ context.Context, revision string) error {
	w.revisions = append(w.revisions, revision)
	if revision == "gone" {
		return errors.New("the cache has stopped")
	}
	return nil
}

// TestLedger checks that Wait waits for the writes of one owner in all caches, once, and that a
// write remains recorded if the wait for it fails.
func TestLedger(t *testing.T) {
	var l Ledger
	var pods, sets waits
	l.Add("ns/web", &pods, "1")
	l.Add("ns/web", &sets, "2")
	l.Add("ns/web", &pods, "3")
	l.Add("ns/other", &pods, "4")
	for range 2 {
		if err := l.Wait(t.Context(), "ns/web"); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(pods.revisions, []string{"3", "1"}) || !slices.Equal(sets.revisions, []string{"2"}) {
		t.Errorf("waited for pods %v, sets %v", pods.revisions, sets.revisions)
	}
	l.Add("ns/web", &pods, "gone")
	for range 2 {
		if err := l.Wait(t.Context(), "ns/web"); err == nil {
			t.Error("no error for a write that the cache never shows")
		}
	}
}
