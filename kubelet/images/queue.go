package images

import "context"

// Queue bounds how many images are pulled at once. Those that wait get their turn in order.
type Queue struct {
	// slots holds an element for each pull in progress; nil is no limit.
	slots chan struct{}
}

// NewQueue returns a queue for at most most pulls at once; zero means no limit.
func NewQueue(most int) *Queue {
	if most <= 0 {
		return &Queue{}
	}
	return &Queue{slots: make(chan struct{}, most)}
}

// Enter waits for a turn, or until ctx is done. The caller must call leave once, after the pull,
// unless there is an error.
func (q *Queue) Enter(ctx context.Context) (leave func(), err error) {
	if q.slots == nil {
		return func() {}, ctx.Err()
	}
	select {
	case q.slots <- struct{}{}:
		return func() { <-q.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
