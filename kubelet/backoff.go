package kubelet

import "time"

// Backoff times of the Kubernetes kubelet.
const (
	backoffFirst = 10 * time.Second
	backoffMost  = 300 * time.Second
	// backoffReset is the time without failures after which the delay starts over.
	backoffReset = 600 * time.Second
	// retryStart is the delay after a failure to create a container or sandbox for a reason without
	// its own backoff.
	retryStart = 10 * time.Second
	// retrySandbox is the delay after a failure to create a sandbox.
	retrySandbox = time.Second
	// mountFirst and mountMost bound the delay after a failure to set up volumes.
	mountFirst = 500 * time.Millisecond
	mountMost  = 2*time.Minute + 2*time.Second
)

// backoff is a delay that doubles. The zero value has no delay.
type backoff struct {
	delay time.Duration
	since time.Time // when the delay was last set
}

// until returns when to retry after a failure at failed. It returns failed itself if there is no
// delay, or if there was no failure for a long time.
func (b backoff) until(failed time.Time) time.Time {
	if failed.Sub(b.since) > backoffReset {
		return failed
	}
	return failed.Add(b.delay)
}

// next returns the backoff after another failure at failed that is retried now.
func (b backoff) next(failed, now time.Time) backoff {
	if b.delay == 0 || failed.Sub(b.since) > backoffReset {
		return backoff{delay: backoffFirst, since: now}
	}
	return backoff{delay: min(2*b.delay, backoffMost), since: now}
}

// mountBackoff is the delay between attempts to set up a pod's volumes. It doubles with each
// failure and starts over after a success. The zero value has no delay.
type mountBackoff struct {
	delay time.Duration
	// until is the time of the next attempt.
	until time.Time
}

// next returns the backoff after another failure at now.
func (b mountBackoff) next(now time.Time) mountBackoff {
	delay := min(2*b.delay, mountMost)
	if delay == 0 {
		delay = mountFirst
	}
	return mountBackoff{delay: delay, until: now.Add(delay)}
}
