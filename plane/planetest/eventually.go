package planetest

import (
	"testing"
	"time"
)

const (
	// patience is long enough for a busy machine.
	patience = time.Minute
	// pollInterval is the time between two checks.
	pollInterval = 10 * time.Millisecond
)

// Eventually calls check until it returns nil. After a minute it fails the test with the last error. In
// a bubble of testing/synctest it is simpler to call synctest.Wait and to check once.
func Eventually(tb testing.TB, check func() error) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("planetest: after %v: %v", patience, err)
		}
		time.Sleep(pollInterval)
	}
}
