package reconcile

import "slices"

// sleepers are the workers who wait for a key. At most one of them is being
// woken at a time: it wakes the next if there is more to do than it can take. So
// a burst of adds costs one call, and not one for each key, and who adds to a
// queue whose workers are busy calls nobody.
//
// What must stay true: while keys are ready and somebody sleeps, somebody has
// been called who has not risen yet.
type sleepers struct {
	asleep []*sleeper // the last has slept least
	called *sleeper
	free   []*sleeper
}

type sleeper struct{ wake chan struct{} } // room for the one call it gets

// maxFreeSleepers bounds those kept for reuse: as many as workers, usually.
const maxFreeSleepers = 64

// sleep adds a sleeper; who asks must rise after waiting for its call.
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

// rise takes s back, called or not. Who rises takes a key or, if there is one
// and it does not want it, calls another.
func (w *sleepers) rise(s *sleeper) {
	if w.called == s {
		w.called = nil
		select { // it may have been called and not have heard
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

// call wakes one if there are keys for it.
func (w *sleepers) call(keys int) {
	last := len(w.asleep) - 1
	if last < 0 || keys == 0 || w.called != nil {
		return
	}
	w.called = w.asleep[last]
	w.asleep = w.asleep[:last]
	w.called.wake <- struct{}{}
}
