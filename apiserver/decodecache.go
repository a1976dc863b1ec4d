package apiserver

import (
	"sync"

	"github.com/planekit/planekit/storage"
	"k8s.io/apimachinery/pkg/runtime"
)

// cachedObjects bounds a decodeCache, per resource. At a few kB an object that
// is some tens of MB in a busy cluster and nothing in an idle one.
const cachedObjects = 10_000

// decodeCache keeps objects by key and revision, so that what a thousand
// watchers and readers see is decoded once. A record at one revision never
// changes, so nothing in here can be stale: at worst it is not asked for again.
type decodeCache struct {
	mu      sync.Mutex
	objects map[storage.Key]cachedObject // guarded by mu
}

type cachedObject struct {
	revision storage.Revision
	obj      runtime.Object
}

func newDecodeCache() *decodeCache {
	return &decodeCache{objects: map[storage.Key]cachedObject{}}
}

func (c *decodeCache) get(key storage.Key, revision storage.Revision) (runtime.Object, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hit, ok := c.objects[key]
	return hit.obj, ok && hit.revision == revision
}

// put remembers the newest revision of key. Over the bound any other entry
// goes, which map iteration picks about at random.
func (c *decodeCache) put(key storage.Key, revision storage.Revision, obj runtime.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.objects[key].revision > revision {
		return
	}
	c.objects[key] = cachedObject{revision, obj}
	for other := range c.objects {
		if len(c.objects) <= cachedObjects {
			return
		}
		if other != key {
			delete(c.objects, other)
		}
	}
}

// drop forgets key, which was deleted.
func (c *decodeCache) drop(key storage.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.objects, key)
}
