package storagetest

import (
	"errors"
	"slices"
	"time"

	"github.com/planekit/planekit/storage"
)

// An Option describes a property of the stores of a [Run].
type Option func(*options)

type options struct {
	virtual bool
	lacks   []Feature
}

// VirtualTime runs every check in a bubble of testing/synctest, where waiting takes no time. Use it
// for stores that take the time from package time and have no connections, processes or goroutines
// outside the bubble.
func VirtualTime() Option { return func(o *options) { o.virtual = true } }

// Lacks lists features that the stores do not have. Their checks are skipped. Another check fails
// if a store accepts a request for such a feature or has the feature after all.
func Lacks(features ...Feature) Option {
	return func(o *options) { o.lacks = append(o.lacks, features...) }
}

// A Feature is an optional part of the contract of a [storage.Store].
type Feature string

const (
	// TimeToLive is the support of Change.TTL. A store without it must refuse a change with a TTL
	// with [errors.ErrUnsupported] and change nothing.
	TimeToLive Feature = "time to live"
	// History is the support of reads at earlier revisions, and so of consistent pages. A store
	// without it returns [storage.ErrCompacted]. Watches from an earlier revision do not depend on
	// it.
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

// past reports whether a read at a revision has failed because the store lacks history.
func (e *env) past(at storage.Revision, err error) bool {
	return at != 0 && slices.Contains(e.lacks, History) && errors.Is(err, storage.ErrCompacted)
}

// checkNoTTL checks that a store without TTLs refuses them.
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

// checkNoHistory checks that a store without history refuses to read the past.
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
