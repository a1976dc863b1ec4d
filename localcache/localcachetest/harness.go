package localcachetest

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/localcache"
)

// An Object is what the caches under test hold.
type Object struct {
	// Key is the object's name.
	Key string
	// Group is where the index finds the object.
	Group string
	// Version is greater than that of every object put before it.
	Version int
	// Revision is for the harness, which may set it when it is given the object.
	Revision string
}

// String returns key@version.
func (o *Object) String() string {
	if o == nil {
		return "none"
	}
	return fmt.Sprintf("%s@%d", o.Key, o.Version)
}

// A Harness is a new cache and what fills it. All fields must be set. Put, Delete
// and Replace may return before the cache shows the change; what they change
// before Sync is part of the first list.
type Harness struct {
	Cache localcache.Cache[*Object]
	// ByGroup is an index of Cache by Object.Group.
	ByGroup localcache.Index[string, *Object]
	// Sync gives the cache its first full list.
	Sync func()
	// Put stores object where the cache gets its objects from, and returns the
	// revision of that.
	Put func(object *Object) (revision string)
	// Delete deletes the object of key, which exists.
	Delete func(key string) (revision string)
	// Replace has the cache list anew, after Sync: what it finds are objects, each
	// either new or the very one it has, and no others.
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
