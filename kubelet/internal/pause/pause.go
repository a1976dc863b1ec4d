// Package pause waits: for a time, or until something succeeds.
package pause

import (
	"context"
	"time"

	"github.com/go-logr/logr"
)

// For waits for d. It returns false if ctx is done before.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Retry calls do at growing intervals until it succeeds. It returns false if ctx is done before.
func Retry(ctx context.Context, log logr.Logger, what string, do func() error) bool {
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, 5*time.Second) {
		err := do()
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			return true
		}
		log.Error(err, what, "again", delay)
		if !For(ctx, delay) {
			return false
		}
	}
}
