package storagetest

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/planekit/planekit/storage"
)

// limit is how long one check may take before it counts as stuck.
const limit = time.Minute

// A reporter is the part of testing.T that checks use, so that the suite's own
// tests can listen to its complaints about broken stores.
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
}

func checks() []check {
	return []check{
		{"create", checkCreate},
		{"update", checkUpdate},
		{"delete", checkDelete},
		{"invalid", checkInvalid},
		{"ownership", checkOwnership},
		{"get at a revision", checkGetAt},
		{"list", checkList},
		{"list pages", checkListPages},
		{"list at a revision", checkListAt},
		{"revision", checkRevision},
		{"watch", checkWatch},
		{"watch from now", checkWatchFromNow},
		{"watch from the future", checkWatchFromFuture},
		{"watch prefix", checkWatchPrefix},
		{"watch contexts", checkWatchContexts},
		{"watch close", checkWatchClose},
		{"watch slowly", checkWatchSlowly},
		{"watch gapless", checkWatchGapless},
		{"read what was watched", checkReadWatched},
		{"progress", checkProgress},
		{"ttl", checkTTL},
		{"compaction", checkCompaction},
		{"cancelled", checkCancelled},
		{"create once", checkCreateOnce},
		{"counter", checkCounter},
		{"linearizable", checkLinearizable},
		{"history", checkHistory},
		{"model", func(e *env) { model(e, rand.Uint64()) }},
	}
}

// Run checks the stores that newStore makes. Each must be empty and unused;
// newStore may register their end with t.Cleanup. Checks run one after the
// other, so stores that share a backend may be handed out.
func Run(t *testing.T, newStore func(t testing.TB) storage.Store) {
	t.Helper()
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) { c.on(t, newStore(t)) })
	}
}

// on runs c on store.
func (c check) on(t reporter, store storage.Store) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c.run(&env{reporter: t, store: store, ctx: ctx})
}

// Model performs a few hundred random operations on store, which must be empty,
// and compares every answer with that of plain maps. The same seed makes the
// same operations.
func Model(t *testing.T, store storage.Store, seed uint64) {
	t.Helper()
	check{"model", func(e *env) { model(e, seed) }}.on(t, store)
}
