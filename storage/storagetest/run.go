package storagetest

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/storage"
)

// limit is the time after which a check counts as stuck.
const limit = time.Minute

// A reporter is the part of testing.T that checks use, so that the suite's own tests can check that
// it detects broken stores.
type reporter interface {
	Helper()
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// A check tests one promise of the contract on a fresh store.
type check struct {
	name string
	run  func(*env)
	// of is the feature that the check tests; empty for required behaviour.
	of Feature
}

func checks() []check {
	return []check{
		{name: "create", run: checkCreate},
		{name: "update", run: checkUpdate},
		{name: "delete", run: checkDelete},
		{name: "invalid", run: checkInvalid},
		{name: "ownership", run: checkOwnership},
		{name: "get at a revision", run: checkGetAt, of: History},
		{name: "list", run: checkList},
		{name: "list pages", run: checkListPages, of: History},
		{name: "list at a revision", run: checkListAt, of: History},
		{name: "revision", run: checkRevision},
		{name: "watch", run: checkWatch},
		{name: "watch from now", run: checkWatchFromNow},
		{name: "watch from the future", run: checkWatchFromFuture},
		{name: "watch prefix", run: checkWatchPrefix},
		{name: "watch contexts", run: checkWatchContexts},
		{name: "watch close", run: checkWatchClose},
		{name: "watch slowly", run: checkWatchSlowly},
		{name: "watch gapless", run: checkWatchGapless},
		{name: "read what was watched", run: checkReadWatched},
		{name: "progress", run: checkProgress},
		{name: "ttl", run: checkTTL, of: TimeToLive},
		{name: "compaction", run: checkCompaction, of: History},
		{name: "cancelled", run: checkCancelled},
		{name: "interrupted", run: checkInterrupted},
		{name: "create once", run: checkCreateOnce},
		{name: "counter", run: checkCounter},
		{name: "linearizable", run: checkLinearizable},
		{name: "history", run: checkHistory},
		{name: "model", run: func(e *env) { model(e, rand.Uint64()) }, of: History},
	}
}

// Run checks the stores that newStore returns. Each must be empty and unused; newStore may register
// its cleanup with t.Cleanup. Checks run one after the other, so that stores may share a backend.
func Run(t *testing.T, newStore func(t testing.TB) storage.Store, with ...Option) {
	t.Helper()
	var o options
	for _, option := range with {
		option(&o)
	}
	for _, c := range o.checks() {
		t.Run(c.name, func(t *testing.T) {
			on := func(t *testing.T) { c.on(t, newStore(t), o.lacks...) }
			if o.virtual {
				synctest.Test(t, on)
			} else {
				on(t)
			}
		})
	}
}

// on runs c on store.
func (c check) on(t reporter, store storage.Store, lacks ...Feature) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c.run(&env{reporter: t, store: store, ctx: ctx, lacks: lacks})
}

// Model performs a few hundred random operations on store, which must be empty, and compares every
// answer with plain maps. The same seed makes the same operations.
func Model(t *testing.T, store storage.Store, seed uint64) {
	t.Helper()
	check{name: "model", run: func(e *env) { model(e, seed) }}.on(t, store)
}
