// Package intake bounds the request bodies that a server holds in memory, and
// shares that memory fairly between users.
//
// A request reserves the size of its body before the server reads it, and keeps
// the reservation until it has been answered. One user may have a bounded number
// of bodies being read. A user's first body needs as many bytes as are free; with
// further ones a user holds at most a quarter of what is still free. So one user
// who takes all there is to get has a fifth of the memory, two have two sixths,
// and there is always some left ("dynamic thresholds"). What does not fit waits.
// When memory becomes free, the user who would then hold the least goes first.
//
// [Read] reads a body from a client that has to keep up with a least rate.
package intake

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Why a body must not be read.
var (
	// ErrFull means that Config.UserWaits bodies of the user wait already.
	ErrFull = errors.New("too many wait for memory")
	// ErrLate means that a body waited for memory as long as Config.Wait.
	ErrLate = errors.New("waited too long for memory")
)

// freeShare is the multiple of what one user holds that must still be free.
const freeShare = 4

// Config bounds a Budget. All fields must be positive.
type Config struct {
	// Bytes are reserved at most, for all users together.
	Bytes int64
	// UserReads bounds the bodies of one user that are read at the same time.
	UserReads int
	// UserWaits bounds the bodies of one user that wait at the same time.
	UserWaits int
	// Wait is how long a body waits until it may be read.
	Wait time.Duration
}

// Budget is safe for concurrent use.
type Budget struct {
	config Config

	mu sync.Mutex
	// Guarded by mu: accounts have those users who hold or wait for something,
	// candidates those whose first waiter is held up only by the other users.
	free       int64
	accounts   map[string]*account
	candidates candidates
}

// account holds what one user has reserved and waits for.
type account struct {
	user    string
	held    int64
	reads   int
	waiters []*waiter
	place   int // in candidates, -1 outside
}

// waiter is one body that waits. admitted is closed when it may be read.
type waiter struct {
	bytes    int64
	admitted chan struct{}
}

// New returns a budget of which nothing is taken.
func New(c Config) *Budget {
	return &Budget{config: c, free: c.Bytes, accounts: map[string]*account{}}
}

// Hold is memory reserved for one body. Its methods must not be called by several
// goroutines at once. The zero Hold holds nothing.
type Hold struct {
	budget  *Budget
	account *account
	bytes   int64
	reading bool
}

// Reserve waits until a body of user with that many bytes may be read. It fails
// with ErrFull, ErrLate or the context's error. A body larger than the budget counts as
// all of it.
func (b *Budget) Reserve(ctx context.Context, user string, bytes int64) (Hold, error) {
	bytes = min(bytes, b.config.Bytes)
	b.mu.Lock()
	a := b.accounts[user]
	if a == nil {
		a = &account{user: user, place: -1}
		b.accounts[user] = a
	}
	hold := Hold{budget: b, account: a, bytes: bytes, reading: true}
	if len(a.waiters) == 0 && a.reads < b.config.UserReads && a.wish(bytes) <= b.free {
		b.take(a, bytes)
		b.mu.Unlock()
		return hold, nil
	}
	if len(a.waiters) >= b.config.UserWaits {
		b.mu.Unlock()
		return Hold{}, ErrFull
	}
	w := &waiter{bytes, make(chan struct{})}
	a.waiters = append(a.waiters, w)
	b.settle(a)
	b.mu.Unlock()
	late := time.NewTimer(b.config.Wait)
	defer late.Stop()
	select {
	case <-w.admitted:
		return hold, nil
	case <-late.C:
		return b.abandon(hold, w, ErrLate)
	case <-ctx.Done():
		return b.abandon(hold, w, ctx.Err())
	}
}

// Read marks the body as read, with the number of bytes that it turned out to
// have. What was reserved beyond becomes free.
func (h *Hold) Read(bytes int64) {
	if h.budget == nil {
		return
	}
	surplus := max(h.bytes-bytes, 0)
	h.bytes -= surplus
	h.give(surplus)
}

// Release gives up the memory. Further calls do nothing.
func (h *Hold) Release() {
	if h.budget == nil {
		return
	}
	h.give(h.bytes)
	h.budget = nil
}

func (h *Hold) give(bytes int64) {
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	h.account.held -= bytes
	b.free += bytes
	if h.reading {
		h.reading = false
		h.account.reads--
	}
	b.settle(h.account)
}

func (b *Budget) take(a *account, bytes int64) {
	a.held += bytes
	a.reads++
	b.free -= bytes
}

// settle admits the waiting requests that fit after a change of a.
func (b *Budget) settle(a *account) {
	b.enlist(a)
	for len(b.candidates) > 0 {
		// This one needs the least: where it does not fit, no other does.
		first := b.candidates[0]
		w := first.waiters[0]
		if first.wish(w.bytes) > b.free {
			break
		}
		b.take(first, w.bytes)
		first.waiters = slices.Delete(first.waiters, 0, 1)
		close(w.admitted)
		b.enlist(first)
	}
	// A hold of no bytes does not keep its account, and the user may have a new one.
	if a.held == 0 && a.reads == 0 && len(a.waiters) == 0 && b.accounts[a.user] == a {
		delete(b.accounts, a.user)
	}
}

// enlist puts a among the candidates, to its right place, or takes it out.
func (b *Budget) enlist(a *account) {
	candidate := len(a.waiters) > 0 && a.reads < b.config.UserReads
	switch {
	case candidate && a.place < 0:
		heap.Push(&b.candidates, a)
	case candidate:
		heap.Fix(&b.candidates, a.place)
	case a.place >= 0:
		heap.Remove(&b.candidates, a.place)
	}
}

// abandon takes w out of its queue. Where it was admitted meanwhile, that is
// undone.
func (b *Budget) abandon(hold Hold, w *waiter, cause error) (Hold, error) {
	b.mu.Lock()
	a := hold.account
	if i := slices.Index(a.waiters, w); i >= 0 {
		a.waiters = slices.Delete(a.waiters, i, i+1)
		b.settle(a)
		b.mu.Unlock()
		return Hold{}, cause
	}
	b.mu.Unlock()
	hold.Release()
	return Hold{}, cause
}

// candidates is a heap, by what must be free for the first waiter of each.
type candidates []*account

func (c candidates) Len() int { return len(c) }

func (c candidates) Less(i, j int) bool {
	return c[i].wish(c[i].waiters[0].bytes) < c[j].wish(c[j].waiters[0].bytes)
}

func (c candidates) Swap(i, j int) {
	c[i], c[j] = c[j], c[i]
	c[i].place, c[j].place = i, j
}

func (c *candidates) Push(x any) {
	a := x.(*account)
	a.place = len(*c)
	*c = append(*c, a)
}

func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	last.place = -1
	(*c)[len(*c)-1] = nil
	*c = (*c)[:len(*c)-1]
	return last
}

// wish returns the bytes that must be free for a to get bytes more.
func (a *account) wish(bytes int64) int64 {
	if a.held == 0 {
		return bytes
	}
	return freeShare * (a.held + bytes)
}
