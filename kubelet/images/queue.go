package images

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Patience is how long a pull holds its turn. A registry that hangs or trickles would otherwise hold
// the pulls of its node for as long as its pod exists.
const Patience = time.Minute

// Source is the namespace that an image is pulled for, and the registry that it comes from.
type Source struct{ Namespace, Registry string }

// Queue bounds how many images are pulled at once. Those that wait get their turn in order.
//
// A pull that takes longer than [Patience] goes on, but no longer counts: another one gets a turn. While
// it goes on, its Source gets no further turn, and the other pulls of its namespace come after those of
// namespaces that have fewer such pulls. A registry that hangs then delays a namespace
// of another user by Patience once, and pulls of its own namespace from other registries by no more.
type Queue struct {
	// most is the largest number of pulls that count; zero is no limit.
	most int

	mu sync.Mutex
	// mu guards the fields below.

	active  int
	late    map[Source]int // pulls in progress that no longer count
	waiting []*pull
}

// pull is a pull that waits or is in progress.
type pull struct {
	source Source
	begun  chan struct{} // closed when it gets its turn
	timer  *time.Timer   // ends its turn
	late   bool
}

// NewQueue returns a queue for at most most pulls at once; zero means no limit.
func NewQueue(most int) *Queue { return &Queue{most: max(most, 0), late: map[Source]int{}} }

// Enter waits for a turn, or until ctx is done. The caller must call leave once, after the pull,
// unless there is an error.
func (q *Queue) Enter(ctx context.Context, source Source) (leave func(), err error) {
	if err := ctx.Err(); err != nil || q.most == 0 {
		return func() {}, err
	}
	p := &pull{source: source, begun: make(chan struct{})}
	q.mu.Lock()
	q.waiting = append(q.waiting, p)
	q.advance()
	q.mu.Unlock()
	select {
	case <-p.begun:
		return func() { q.leave(p) }, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	i := slices.Index(q.waiting, p)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	q.mu.Unlock()
	if i < 0 {
		q.leave(p) // it got its turn meanwhile
	}
	return nil, ctx.Err()
}

// advance gives turns while there are any. q.mu is held.
func (q *Queue) advance() {
	for q.active < q.most {
		i := q.next()
		if i < 0 {
			return
		}
		p := q.waiting[i]
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.active++
		p.timer = time.AfterFunc(Patience, func() { q.overrun(p) })
		close(p.begun)
	}
}

// next returns the index of the pull that gets the next turn: the first of those whose namespaces have
// the fewest late pulls. It is negative if there is none. q.mu is held.
func (q *Queue) next() int {
	byNamespace := map[string]int{}
	for source, n := range q.late {
		byNamespace[source.Namespace] += n
	}
	best := -1
	for i, p := range q.waiting {
		if q.late[p.source] == 0 && (best < 0 || byNamespace[p.source.Namespace] < byNamespace[q.waiting[best].source.Namespace]) {
			best = i
		}
	}
	return best
}

// overrun ends the turn of a pull that goes on.
func (q *Queue) overrun(p *pull) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.timer == nil {
		return // it has ended meanwhile
	}
	p.late = true
	q.active--
	q.late[p.source]++
	q.advance()
}

// leave ends a pull.
func (q *Queue) leave(p *pull) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p.timer.Stop()
	p.timer = nil
	if !p.late {
		q.active--
	} else if q.late[p.source]--; q.late[p.source] == 0 {
		delete(q.late, p.source)
	}
	q.advance()
}
