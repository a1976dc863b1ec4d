package localcache

import "sync"

// change is one call of a handler, or, with caughtUp set, the end of the first list.
type change[T any] struct {
	old, new T
	caughtUp bool
}

// subscription is the queue of one handler of a [Map].
type subscription[T any] struct {
	handle   func(old, new T)
	caughtUp chan struct{}

	mu sync.Mutex
	// The fields below are guarded by mu.
	queue   []change[T]
	calling bool
	stopped bool
	// idle is signalled when calling becomes false.
	idle sync.Cond
}

func newSubscription[T any](handle func(old, new T)) *subscription[T] {
	s := &subscription[T]{handle: handle, caughtUp: make(chan struct{})}
	s.idle.L = &s.mu
	return s
}

// add queues changes. The Map calls it with its own mutex held, so that they are queued in the
// order of the changes.
func (s *subscription[T]) add(changes []change[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, changes...)
}

// deliver calls the handler until the queue is empty. If another goroutine, or a caller of this
// function's caller, already does that, deliver leaves the queue to it.
func (s *subscription[T]) deliver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calling {
		return
	}
	s.calling = true
	defer func() {
		s.calling = false
		s.idle.Broadcast()
	}()
	for len(s.queue) > 0 && !s.stopped {
		next := s.queue[0]
		s.queue = s.queue[1:]
		if next.caughtUp {
			close(s.caughtUp)
		} else {
			s.call(next)
		}
	}
}

// call calls the handler without the mutex, and locks it again even if the handler
// ends the goroutine.
func (s *subscription[T]) call(c change[T]) {
	s.mu.Unlock()
	defer s.mu.Lock()
	s.handle(c.old, c.new)
}

// stop prevents further calls and waits for one in progress.
func (s *subscription[T]) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for s.calling {
		s.idle.Wait()
	}
}
