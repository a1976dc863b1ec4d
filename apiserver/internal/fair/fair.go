// Package fair lets a bounded number of requests in at once, and gives users
// their turns when there are more.
//
// Who finds no place waits in a queue of their own. A place that becomes free
// goes to the users who wait, one after the other, so that one who sends a
// thousand requests delays another's one by a single turn. Queues are bounded: a
// user's own by Config.Queue, and all together, where the last of the longest
// queue makes room for a newcomer. So nobody can fill the queue for others either.
package fair

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Why a request is not let in.
var (
	ErrFull = errors.New("too many are waiting")
	ErrLate = errors.New("waited too long")
)

// allQueues is how many full queues are waited in at most, all users together.
const allQueues = 16

// Config bounds a Limiter.
type Config struct {
	// Places are the requests let in at once.
	Places int
	// Queue is how many of one user's requests may wait; zero is none.
	Queue int
	// Wait is how long they do.
	Wait time.Duration
}

// Limiter is safe for concurrent use.
type Limiter struct {
	config Config

	mu sync.Mutex
	// Guarded by mu. free is zero while somebody waits. turns are the users who
	// wait, the next first.
	free    int
	users   map[string]*queue
	turns   []*queue
	waiting int
}

// queue is one user's waiting requests, the first come first. It is never empty
// outside the lock.
type queue struct {
	user    string
	waiters []*waiter
}

// waiter is one request that waits. admitted gets exactly one value: nil with a
// place, or why there is none.
type waiter struct{ admitted chan error }

// New returns a limiter with all places free.
func New(c Config) *Limiter {
	return &Limiter{config: c, free: c.Places, users: map[string]*queue{}}
}

// Enter takes a place for a request of user, who must Leave it where the error
// is nil. It fails with ErrFull, ErrLate or the context's error.
func (l *Limiter) Enter(ctx context.Context, user string) error {
	l.mu.Lock()
	if l.free > 0 {
		l.free--
		l.mu.Unlock()
		return nil
	}
	w := l.enqueue(user)
	l.mu.Unlock()
	if w == nil {
		return ErrFull
	}
	late := time.NewTimer(l.config.Wait)
	defer late.Stop()
	select {
	case err := <-w.admitted:
		return err
	case <-late.C:
		return l.abandon(user, w, ErrLate)
	case <-ctx.Done():
		return l.abandon(user, w, ctx.Err())
	}
}

// Leave gives a place back, to whoever's turn it is.
func (l *Limiter) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.turns) == 0 {
		l.free++
		return
	}
	q := l.turns[0]
	l.turns = slices.Delete(l.turns, 0, 1)
	w := q.waiters[0]
	q.waiters = q.waiters[1:]
	l.waiting--
	if len(q.waiters) > 0 {
		l.turns = append(l.turns, q)
	} else {
		delete(l.users, q.user)
	}
	w.admitted <- nil
}

// Waiting counts the requests that wait.
func (l *Limiter) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// enqueue returns nil where there is no room.
func (l *Limiter) enqueue(user string) *waiter {
	q := l.users[user]
	have := 0
	if q != nil {
		have = len(q.waiters)
	}
	if have >= l.config.Queue {
		return nil
	}
	if l.waiting >= l.config.Queue*allQueues && !l.makeRoom(have+1) {
		return nil
	}
	if q == nil {
		q = &queue{user: user}
		l.users[user] = q
		l.turns = append(l.turns, q)
	}
	w := &waiter{admitted: make(chan error, 1)} // so that whoever admits never waits
	q.waiters = append(q.waiters, w)
	l.waiting++
	return w
}

// makeRoom turns away the last of the longest queue, if that is longer than the
// newcomer's would become.
func (l *Limiter) makeRoom(length int) bool {
	var longest *queue
	for _, q := range l.turns {
		if longest == nil || len(q.waiters) > len(longest.waiters) {
			longest = q
		}
	}
	if longest == nil || len(longest.waiters) <= length {
		return false
	}
	last := len(longest.waiters) - 1
	longest.waiters[last].admitted <- ErrFull
	longest.waiters = longest.waiters[:last]
	l.waiting--
	return true
}

// abandon takes w out of its queue. Where it has been answered meanwhile, that
// is taken back.
func (l *Limiter) abandon(user string, w *waiter, cause error) error {
	l.mu.Lock()
	q := l.users[user]
	i := -1
	if q != nil {
		i = slices.Index(q.waiters, w)
	}
	if i < 0 {
		l.mu.Unlock()
		if err := <-w.admitted; err != nil {
			return err
		}
		l.Leave()
		return cause
	}
	defer l.mu.Unlock()
	q.waiters = slices.Delete(q.waiters, i, i+1)
	l.waiting--
	if len(q.waiters) == 0 {
		delete(l.users, user)
		at := slices.Index(l.turns, q)
		l.turns = slices.Delete(l.turns, at, at+1)
	}
	return cause
}
