package lifecycle

import "time"

// Backoff times of the Kubernetes kubelet.
const (
	backoffFirst = 10 * time.Second
	// BackoffMost is the greatest delay.
	BackoffMost = 300 * time.Second
	// backoffReset is the time without failures after which the delay starts over.
	backoffReset = 600 * time.Second
	// retryStart is the delay after a failure to create a container or sandbox for a reason without
	// its own backoff.
	retryStart = 10 * time.Second
	// retrySandbox is the delay after a failure to create a sandbox.
	retrySandbox = time.Second
)

// Backoff is a delay that doubles. The zero value has no delay.
type Backoff struct {
	delay time.Duration
	since time.Time // when the delay was last set
}

// until returns when to retry after a failure at failed. It returns failed itself if there is no
// delay, or if there was no failure for a long time. A failure that seems to come later than the delay was before
// the clock was set back: it is retried now.
func (b Backoff) until(failed, now time.Time) time.Time {
	switch {
	case failed.Sub(now) > b.delay:
		return now
	case failed.Sub(b.since) > backoffReset:
		return failed
	}
	return failed.Add(b.delay)
}

// Next returns the backoff after another failure at failed that is retried now.
func (b Backoff) Next(failed, now time.Time) Backoff { return b.NextWithin(BackoffMost, failed, now) }

// NextWithin is Next with a greatest delay.
func (b Backoff) NextWithin(most time.Duration, failed, now time.Time) Backoff {
	if b.delay == 0 || failed.Sub(b.since) > backoffReset {
		return Backoff{delay: min(backoffFirst, most), since: now}
	}
	return Backoff{delay: min(2*b.delay, most), since: now}
}
