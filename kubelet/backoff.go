package kubelet

import "time"

// Back-off figures of the Kubernetes node agent.
const (
	backoffFirst = 10 * time.Second
	backoffMost  = 300 * time.Second
	// backoffReset is how long things must go well for the delay to start over.
	backoffReset = 600 * time.Second
	// retryStart is the pause after a container or sandbox could not be made
	// for a reason that has no back-off of its own.
	retryStart = 10 * time.Second
	// retrySandbox is the pause after a sandbox could not be made.
	retrySandbox = time.Second
)

// backoff is a delay that doubles. The zero value has none.
type backoff struct {
	delay time.Duration
	since time.Time // when the delay was last set
}

// until is when the next try is due after a failure at failed. It is failed
// itself, which is now or past, where there is no delay or where things went
// well for long.
func (b backoff) until(failed time.Time) time.Time {
	if failed.Sub(b.since) > backoffReset {
		return failed
	}
	return failed.Add(b.delay)
}

// next is the back-off after another failure at failed, tried again now.
func (b backoff) next(failed, now time.Time) backoff {
	if b.delay == 0 || failed.Sub(b.since) > backoffReset {
		return backoff{delay: backoffFirst, since: now}
	}
	return backoff{delay: min(2*b.delay, backoffMost), since: now}
}
