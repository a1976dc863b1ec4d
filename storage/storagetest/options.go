package storagetest

import (
	"errors"
	"slices"
	"time"

	"github.com/planekit/planekit/storage"
)

// An Option says what is special about the stores of a [Run].
type Option func(*options)

type options struct {
	virtual bool
	lacks   []Feature
}

// VirtualTime runs every check in a bubble of testing/synctest, where waiting for a time
// to live takes no time. It is for stores that live in the bubble alone: they take the time
// from package time, and have no connections, processes or goroutines outside.
func VirtualTime() Option { return func(o *options) { o.virtual = true } }

// Lacks names what the stores do not do. Checks of it are left out, and another shows that
// the stores say so: one that accepts what it does not do, or does it after all, fails.
func Lacks(features ...Feature) Option {
	return func(o *options) { o.lacks = append(o.lacks, features...) }
}

// A Feature is a part of the contract of a [storage.Store] that simple stores may lack.
type Feature string

const (
	// TimeToLive is what Change.TTL asks for. A store without it refuses a change with a
	// TTL, by an error that is [errors.ErrUnsupported], and changes nothing.
	TimeToLive Feature = "time to live"
	// History is reading at a revision before the latest, and with it listing in pages of
	// one revision. A store without it answers [storage.ErrCompacted]. Watches from a
	// revision are no part of it.
	History Feature = "history"
)

// checks returns the checks for stores with these options.
func (o options) checks() []check {
	all := slices.DeleteFunc(checks(), func(c check) bool { return c.of != "" && slices.Contains(o.lacks, c.of) })
	for _, c := range []check{{"no time to live", checkNoTTL, TimeToLive}, {"no history", checkNoHistory, History}} {
		if slices.Contains(o.lacks, c.of) {
			all = append(all, c)
		}
	}
	return all
}

// past reports whether a read at a revision may fail, and has failed, for want of history.
func (e *env) past(at storage.Revision, err error) bool {
	return at != 0 && slices.Contains(e.lacks, History) && errors.Is(err, storage.ErrCompacted)
}

// checkNoTTL checks that a store which cannot keep a time to live does not pretend to.
func checkNoTTL(e *env) {
	before := e.create("/kept", "one")
	for _, c := range []storage.Change{
		{Op: storage.Create, Key: "/new", Value: []byte("one"), TTL: time.Hour},
		{Op: storage.Update, Key: before.Key, Value: []byte("two"), Previous: before.Revision, TTL: time.Hour},
	} {
		if r, err := e.store.Commit(e.ctx, c); !errors.Is(err, errors.ErrUnsupported) {
			e.Errorf("%s %q with a TTL on a store without %s: %s, error %v, want %v", c.Op, c.Key, TimeToLive, show(r), err, errors.ErrUnsupported)
		}
	}
	e.absent("/new", 0)
	e.stands(before, 0)
}

// checkNoHistory checks that a store which cannot read the past says so.
func checkNoHistory(e *env) {
	first := e.create("/a", "one")
	e.update(first, "two")
	if r, err := e.store.Get(e.ctx, first.Key, first.Revision); !errors.Is(err, storage.ErrCompacted) {
		e.Errorf("get %q at %d of a store without %s: %s, error %v, want %v", first.Key, first.Revision, History, show(r), err, storage.ErrCompacted)
	}
	if page, err := e.store.List(e.ctx, "/", storage.ListOptions{At: first.Revision}); !errors.Is(err, storage.ErrCompacted) {
		e.Errorf("list at %d of a store without %s: %s, error %v, want %v", first.Revision, History, show(page.Records...), err, storage.ErrCompacted)
	}
}
