package caches

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/kinds/kind"
	"github.com/planekit/planekit/localcache"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A CustomKind is a kind that comes and goes while the server runs.
type CustomKind struct {
	schema.GroupVersionKind
	Plural     string
	Namespaced bool
}

// Resource returns the resource of the kind.
func (k *CustomKind) Resource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Plural}
}

// A CustomObject is the metadata of an object of a CustomKind.
type CustomObject struct {
	*metav1.PartialObjectMetadata
	Kind *CustomKind
}

func customKey(r schema.GroupResource, key string) string { return r.String() + "/" + key }

// Custom holds the metadata of all objects of kinds that come and go. [Custom.SetKinds] says which there are, and
// Run follows their objects. When a kind goes, its objects do.
type Custom struct {
	// Objects has the objects by resource, namespace and name.
	Objects *localcache.Map[*CustomObject]
	// Kinds has the kinds by resource. A kind is there once all its objects are in Objects.
	Kinds *localcache.Map[*CustomKind]

	api     *client.Client
	log     logr.Logger
	changed chan struct{} // holds a value when wanted has changed

	mu     sync.Mutex
	wanted map[schema.GroupResource]*CustomKind // guarded by mu
	named  map[schema.GroupKind]*CustomKind     // those of Kinds; guarded by mu
}

func newCustom(api *client.Client, log logr.Logger) *Custom {
	return &Custom{
		Objects: localcache.NewMapFunc(func(o *CustomObject) string { return customKey(o.Kind.Resource(), localcache.KeyOf(o)) }),
		Kinds:   localcache.NewMapFunc(func(k *CustomKind) string { return k.Resource().String() }),
		api:     api, log: log, changed: make(chan struct{}, 1), named: map[schema.GroupKind]*CustomKind{},
	}
}

// Get returns an object of a resource.
func (c *Custom) Get(r schema.GroupResource, namespace, name string) (*CustomObject, bool) {
	return c.Objects.Get(customKey(r, localcache.Key(namespace, name)))
}

// Find returns the kind of Kinds that has a group and a name.
func (c *Custom) Find(group, name string) (*CustomKind, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.named[schema.GroupKind{Group: group, Kind: name}]
	return k, ok
}

// SetKinds replaces the kinds to follow. It does not block.
func (c *Custom) SetKinds(kinds []CustomKind) {
	c.mu.Lock()
	before := c.wanted
	c.wanted = make(map[schema.GroupResource]*CustomKind, len(kinds))
	for i := range kinds {
		r := kinds[i].Resource()
		if was := before[r]; was != nil && *was == kinds[i] {
			c.wanted[r] = was
		} else {
			c.wanted[r] = &kinds[i]
		}
	}
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Run follows the objects until ctx is done. It can be called once.
func (c *Custom) Run(ctx context.Context) error {
	running := map[schema.GroupResource]*customFollower{}
	defer func() {
		for _, f := range running {
			f.stop()
		}
	}()
	for {
		select {
		case <-c.changed:
		case <-ctx.Done():
			return nil
		}
		c.mu.Lock()
		wanted := c.wanted
		c.mu.Unlock()
		for r, f := range running {
			if f.kind == wanted[r] {
				continue
			}
			f.stop()
			delete(running, r)
			if next := wanted[r]; next != nil { // another version of the same objects
				running[r] = c.follow(ctx, next, f.keys)
			} else {
				f.forget()
			}
		}
		for r, kind := range wanted {
			if running[r] == nil {
				running[r] = c.follow(ctx, kind, map[string]struct{}{})
			}
		}
	}
}

// customFollower fills the caches with the objects of one kind. It is the sink of its own Sync.
type customFollower struct {
	*Custom
	kind *CustomKind
	// keys are those in Objects, and revision is the last that was seen. Only the goroutine of the
	// follower uses them until it has stopped.
	keys     map[string]struct{}
	revision string
	cancel   context.CancelFunc
	stopped  chan struct{}
}

// follow starts a follower. keys are of objects of the kind that are in Objects already.
func (c *Custom) follow(ctx context.Context, k *CustomKind, keys map[string]struct{}) *customFollower {
	f := &customFollower{Custom: c, kind: k, keys: keys, stopped: make(chan struct{})}
	ctx, f.cancel = context.WithCancel(ctx)
	objects := client.For(c.api, kind.Define(kind.Kind[*metav1.PartialObjectMetadata]{
		Group: k.Group, Version: k.Version, Kind: k.Kind, Plural: k.Plural, Namespaced: k.Namespaced,
	}))
	go func() {
		defer close(f.stopped)
		f.run(ctx, objects)
	}()
	return f
}

// The waits between two attempts to follow the objects of a kind.
const firstCustomRetry, lastCustomRetry = 50 * time.Millisecond, 5 * time.Second

func (f *customFollower) run(ctx context.Context, objects client.Resource[*metav1.PartialObjectMetadata]) {
	wait := firstCustomRetry
	for {
		before := f.revision
		err := objects.Sync(ctx, f.revision, f)
		if ctx.Err() != nil {
			return
		}
		f.log.V(1).Info("objects are not followed; trying again", "resource", f.kind.Resource().String(), "cause", err.Error())
		if f.revision != before {
			wait = firstCustomRetry
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		wait = min(2*wait, lastCustomRetry)
	}
}

// stop ends the follower and waits for it.
func (f *customFollower) stop() {
	f.cancel()
	<-f.stopped
}

// forget removes the objects of a kind that is no longer served, and then the kind.
func (f *customFollower) forget() {
	for key := range f.keys {
		f.Objects.Delete(key)
	}
	f.Kinds.Delete(f.kind.Resource().String())
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.named[f.kind.GroupKind()] == f.kind {
		delete(f.named, f.kind.GroupKind())
	}
}

// Replace takes over a list of all objects.
func (f *customFollower) Replace(revision string, objects []*metav1.PartialObjectMetadata) {
	before := f.keys
	f.keys = make(map[string]struct{}, len(objects))
	for _, o := range objects {
		f.put(o)
	}
	for key := range before {
		if _, ok := f.keys[key]; !ok {
			f.Objects.Delete(key)
		}
	}
	f.revision = revision
	f.mu.Lock()
	f.named[f.kind.GroupKind()] = f.kind
	f.mu.Unlock()
	f.Kinds.Put(f.kind)
}

// Put takes over a new or changed object.
func (f *customFollower) Put(revision string, object *metav1.PartialObjectMetadata) {
	f.put(object)
	f.revision = revision
}

func (f *customFollower) put(object *metav1.PartialObjectMetadata) {
	object.ManagedFields = nil
	key := customKey(f.kind.Resource(), localcache.KeyOf(object))
	f.keys[key] = struct{}{}
	f.Objects.Put(&CustomObject{PartialObjectMetadata: object, Kind: f.kind})
}

// Remove takes over a deletion.
func (f *customFollower) Remove(revision string, object *metav1.PartialObjectMetadata) {
	key := customKey(f.kind.Resource(), localcache.KeyOf(object))
	delete(f.keys, key)
	f.Objects.Delete(key)
	f.revision = revision
}

// Bookmark notes that all changes up to a revision have been seen.
func (f *customFollower) Bookmark(revision string) { f.revision = revision }
