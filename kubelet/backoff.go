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
	// mountFirst and mountMost bound the delay after volumes could not be set up.
	mountFirst = 500 * time.Millisecond
	mountMost  = 2*time.Minute + 2*time.Second
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

// mountBackoff is the delay between attempts to set up a pod's volumes. It doubles with each
// failure and starts over with a success. The zero value has none.
type mountBackoff struct {
	delay time.Duration
	// until is when the next attempt is due.
	until time.Time
}

// next returns the back-off after another failure at now.
func (b mountBackoff) next(now time.Time) mountBackoff {
	delay := min(2*b.delay, mountMost)
	if delay == 0 {
		delay = mountFirst
	}
	return mountBackoff{delay: delay, until: now.Add(delay)}
}
