package schedule

import "time"

// A Queue is the queue of a [Scheduler], for programs that drive a [State] in a time of their own, such as
// package simulate. It holds the pods that need a node: each is ready, in the order of priority and age;
// backs off after a failed attempt; or is parked until an [Event] helps, or for five minutes. It has no
// clock: methods take the time, which must not go backwards. It must be used by one goroutine at a time.
type Queue struct {
	queue *queue
	state *State
}

// NewQueue returns an empty queue for the pods that a State decides about.
func NewQueue(s *State) *Queue {
	c := &Config{InitialBackoff: defaultBackoff, MaxBackoff: defaultMaxBackoff}
	return &Queue{newQueue(c, rules{s.alike, s.errorFor}), s}
}

// Add adds a pod, which is ready at once.
func (q *Queue) Add(p *PodInfo, now time.Time) { q.queue.set(p, true, now) }

// Remove removes a pod by its key.
func (q *Queue) Remove(key string) { q.queue.remove(key) }

// Len returns the number of pods in the queue.
func (q *Queue) Len() int { return len(q.queue.entries) }

// Pop takes the first ready pod. It counts as in the queue until Remove or Park is called for it.
func (q *Queue) Pop(now time.Time) (p *PodInfo, ok bool) {
	a, ok := q.queue.pop(now)
	if !ok {
		return nil, false
	}
	return a.pod, true
}

// Park puts back a popped pod that fits no node, with the error of [State.Decide].
func (q *Queue) Park(p *PodInfo, unfit *FitError, now time.Time) {
	q.queue.park(p, unfit, q.state.classOf(unfit), q.state.refusers(unfit), now)
}

// Wake makes the parked pods ready, after their backoff, that an event of the State may help. It must be called
// with the event of each change of the State.
func (q *Queue) Wake(e Event, now time.Time) {
	if q.queue.parked.Len() == 0 || e.trivial() {
		return
	}
	q.queue.wakeIf(func(unfit *FitError) bool { return q.state.Helps(unfit, e) }, e, now)
}

// WakeNow makes a parked pod ready, after its backoff.
func (q *Queue) WakeNow(p *PodInfo, now time.Time) { q.queue.wakeNow(p, now) }

// Next returns the time at which the next pod becomes ready without an event; ok is false if none does.
func (q *Queue) Next() (at time.Time, ok bool) { return q.queue.next() }
