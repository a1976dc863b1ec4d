package reconcile

import "slices"

// sleepers are the workers that wait for a key. At most one of them is being woken at a time, and
// it wakes the next if more keys are ready. So a burst of adds costs one wake-up instead of one for
// each key, and an add to a queue whose workers are busy wakes no worker.
//
// Invariant: while keys are ready and a worker sleeps, another worker has been called and has not
// risen yet.
type sleepers struct {
	asleep []*sleeper // most recently asleep last
	called *sleeper
	free   []*sleeper
}

type sleeper struct{ wake chan struct{} } // room for its one wake-up

// maxFreeSleepers limits the sleepers kept for reuse. Programs usually have fewer workers.
const maxFreeSleepers = 64

// sleep adds a sleeper. The caller waits for its wake channel and must then call rise.
func (w *sleepers) sleep() *sleeper {
	s := &sleeper{}
	if n := len(w.free); n > 0 {
		s, w.free = w.free[n-1], w.free[:n-1]
	} else {
		s.wake = make(chan struct{}, 1)
	}
	w.asleep = append(w.asleep, s)
	return s
}

// rise removes s, whether or not it was called. The caller then takes a key or, if it does not want
// one, calls another sleeper.
func (w *sleepers) rise(s *sleeper) {
	if w.called == s {
		w.called = nil
		select { // it may have been called without having received the wake-up
		case <-s.wake:
		default:
		}
	} else if at := slices.Index(w.asleep, s); at >= 0 {
		w.asleep = slices.Delete(w.asleep, at, at+1)
	}
	if len(w.free) < maxFreeSleepers {
		w.free = append(w.free, s)
	}
}

// call wakes one sleeper if there are keys for it and no other is being woken.
func (w *sleepers) call(keys int) {
	last := len(w.asleep) - 1
	if last < 0 || keys == 0 || w.called != nil {
		return
	}
	w.called = w.asleep[last]
	w.asleep = w.asleep[:last]
	w.called.wake <- struct{}{}
}
