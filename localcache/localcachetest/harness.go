package localcachetest

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/localcache"
)

// An Object is an object of the caches under test.
type Object struct {
	// Key is the object's name.
	Key string
	// Group is the index key of the object.
	Group string
	// Version is greater than that of every object put before it.
	Version int
	// Revision is for the harness, which may set it when it receives the object.
	Revision string
}

// String returns key@version.
func (o *Object) String() string {
	if o == nil {
		return "none"
	}
	return fmt.Sprintf("%s@%d", o.Key, o.Version)
}

// A Harness is a new cache and the functions that fill it. All fields must be set. Put, Delete and
// Replace may return before the cache has the change. Their changes before Sync are part of the
// first list.
type Harness struct {
	Cache localcache.Cache[*Object]
	// ByGroup is an index of Cache by Object.Group.
	ByGroup localcache.Index[string, *Object]
	// Sync sends the cache its first full list.
	Sync func()
	// Put stores object at the source of the cache and returns its revision there.
	Put func(object *Object) (revision string)
	// Delete deletes the object of key, which exists.
	Delete func(key string) (revision string)
	// Replace makes the cache list again, after Sync. The list has exactly objects, each of which
	// is new or the same one that the cache has.
	Replace func(objects ...*Object)
}

// Run checks the caches that newHarness returns, one for each check.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.run(newWorld(t, newHarness(t))) })
		})
	}
}

// check is one test of a cache.
type check struct {
	name string
	run  func(*world)
}

var checks = []check{
	{"Synced", synced},
	{"CaughtUp", caughtUp},
	{"Shared", shared},
	{"LateSubscriber", lateSubscriber},
	{"Order", order},
	{"SubscribeWhileWriting", subscribeWhileWriting},
	{"SubscribeInHandler", subscribeInHandler},
	{"ChangeInIteration", changeInIteration},
	{"Stop", stop},
	{"StopWaits", stopWaits},
	{"WaitFor", waitFor},
	{"WaitForUnsynced", waitForUnsynced},
	{"Replace", replace},
	{"ReplaceAtOnce", replaceAtOnce},
	{"Index", index},
	{"Readers", readers},
}
