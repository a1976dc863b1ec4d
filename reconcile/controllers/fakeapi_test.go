package controllers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/localcache"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// thing is any API object.
type thing[T any] interface {
	comparable
	metav1.Object
	runtime.Object
	DeepCopy() T
}

// api is an API server in memory: one revision counter, collections, events,
// and a fault that may strike any write.
type api struct {
	mu       sync.Mutex
	revision int
	// fault is asked before each write; it may refuse it, or apply it and then
	// pretend to have failed.
	fault  func(verb, name string) (apply bool, err error)
	writes []string
	// refused are the writes of controllers that came too late: creations of what
	// exists, and changes of what has changed.
	refused []string
	// blind are the deletions by controllers that did not say of which object with
	// the name: it may be another by the time they arrive.
	blind  []string
	events []string
}

func (a *api) Event(_ runtime.Object, kind, reason, message string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, kind+" "+reason+": "+message)
}

func (a *api) hasEvent(event string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.events, event)
}

func (a *api) wrote() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.writes)
}

// tooLate are the writes that were refused as told at refused, since it was last
// asked.
func (a *api) tooLate() (refused []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	refused, a.refused = a.refused, nil
	return refused
}

// outside is a context for writes that no fault strikes: those of users.
func outside() context.Context { return context.WithValue(context.Background(), outsider{}, true) }

type outsider struct{}

// change is one entry of the history of a collection.
type change[T any] struct {
	revision int
	key      string
	old, new T
}

// collection is the objects of one resource. It has all the writers that
// controllers ask for.
type collection[T thing[T]] struct {
	api     *api
	kind    string
	fresh   func() T
	objects map[string]T
	history []change[T]
	changed chan struct{}
	// graceful objects stay, marked, when they are deleted, until finished.
	graceful bool
	// check sees every change under the lock of the api.
	check func(old, new T)
}

func newCollection[T thing[T]](a *api, kind string, fresh func() T) *collection[T] {
	return &collection[T]{api: a, kind: kind, fresh: fresh, objects: map[string]T{}, changed: make(chan struct{})}
}

func (c *collection[T]) resource() schema.GroupResource {
	return schema.GroupResource{Resource: strings.ToLower(c.kind) + "s"}
}

func keyOf(o metav1.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// write runs one transaction, with the fault on both sides.
func (c *collection[T]) write(ctx context.Context, verb, name string, apply func() (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	var failure error
	if c.api.fault != nil && ctx.Value(outsider{}) == nil {
		var through bool
		if through, failure = c.api.fault(verb, c.kind+" "+name); !through {
			return none, failure
		}
	}
	result, err := apply()
	switch outsider := ctx.Value(outsider{}) != nil; {
	case err == nil:
		c.api.writes = append(c.api.writes, verb+" "+c.kind+" "+name)
	case !outsider && (apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err)):
		c.api.refused = append(c.api.refused, verb+" "+c.kind+" "+name)
	}
	if failure != nil {
		return none, failure
	}
	if err != nil {
		return none, err
	}
	return result, nil
}

// put stores o as a new revision; an object that is to be gone, goes.
func (c *collection[T]) put(key string, old, o T) T {
	var none T
	c.api.revision++
	o.SetResourceVersion(strconv.Itoa(c.api.revision))
	stored := o
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && (!c.graceful || *o.GetDeletionGracePeriodSeconds() == 0) {
		stored = none
		delete(c.objects, key)
	} else {
		c.objects[key] = o
	}
	c.history = append(c.history, change[T]{c.api.revision, key, old, stored})
	close(c.changed)
	c.changed = make(chan struct{})
	if c.check != nil {
		c.check(old, stored)
	}
	return o
}

func (c *collection[T]) Create(ctx context.Context, object T) (T, error) {
	return c.write(ctx, "create", object.GetName(), func() (T, error) {
		var none T
		o := object.DeepCopy()
		if _, exists := c.objects[keyOf(o)]; exists {
			return none, apierrors.NewAlreadyExists(c.resource(), o.GetName())
		}
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", c.api.revision+1)))
		o.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
		o.SetGeneration(1)
		return c.put(keyOf(o), none, o).DeepCopy(), nil
	})
}

// edit changes the object that is stored.
func (c *collection[T]) edit(ctx context.Context, verb, key, revision string, uid types.UID, change func(T) error) (T, error) {
	return c.write(ctx, verb, key, func() (T, error) {
		var none T
		old, ok := c.objects[key]
		if !ok {
			return none, apierrors.NewNotFound(c.resource(), key)
		}
		if revision != "" && revision != old.GetResourceVersion() || uid != "" && uid != old.GetUID() {
			return none, apierrors.NewConflict(c.resource(), key, errors.New("the object has been modified"))
		}
		o := old.DeepCopy()
		if err := change(o); err != nil {
			return none, err
		}
		if equality.Semantic.DeepEqual(old, o) {
			return old.DeepCopy(), nil
		}
		// Of Deployments, annotations are a part of what is wanted, but for those
		// that come with a status.
		annotated := c.kind == "Deployment" && verb != "status" && !maps.Equal(old.GetAnnotations(), o.GetAnnotations())
		if annotated || !equality.Semantic.DeepEqual(fields(old)["spec"], fields(o)["spec"]) {
			o.SetGeneration(old.GetGeneration() + 1)
		}
		return c.put(key, old, o).DeepCopy(), nil
	})
}

func fields(o any) map[string]any {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		panic(err)
	}
	return m
}

func fill(m map[string]any, o any) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, o)
}

func (c *collection[T]) replace(into T, m map[string]any) error {
	o := c.fresh()
	if err := fill(m, o); err != nil {
		return err
	}
	copyInto(into, o)
	return nil
}

func (c *collection[T]) Update(ctx context.Context, object T) (T, error) {
	return c.edit(ctx, "update", keyOf(object), object.GetResourceVersion(), object.GetUID(), func(o T) error {
		m := fields(object)
		if status, ok := fields(o)["status"]; ok {
			m["status"] = status
		}
		return c.replace(o, m)
	})
}

func (c *collection[T]) UpdateStatus(ctx context.Context, object T) (T, error) {
	return c.edit(ctx, "status", keyOf(object), object.GetResourceVersion(), object.GetUID(), func(o T) error {
		m := fields(o)
		m["status"] = fields(object)["status"]
		if err := c.replace(o, m); err != nil {
			return err
		}
		o.SetAnnotations(maps.Clone(object.GetAnnotations()))
		return nil
	})
}

func (c *collection[T]) Patch(ctx context.Context, namespace, name string, kind types.PatchType, data []byte, _ ...string) (T, error) {
	var none T
	var patch map[string]any
	if err := json.Unmarshal(data, &patch); err != nil || kind != types.MergePatchType {
		return none, apierrors.NewBadRequest("not a merge patch")
	}
	metadata, _ := patch["metadata"].(map[string]any)
	revision, _ := metadata["resourceVersion"].(string)
	uid, _ := metadata["uid"].(string)
	return c.edit(ctx, "patch", localcache.Key(namespace, name), revision, types.UID(uid), func(o T) error {
		m := fields(o)
		merge(m, patch)
		return c.replace(o, m)
	})
}

func merge(into, patch map[string]any) {
	for k, v := range patch {
		inner, isMap := v.(map[string]any)
		old, wasMap := into[k].(map[string]any)
		switch {
		case v == nil:
			delete(into, k)
		case isMap && wasMap:
			merge(old, inner)
		default:
			into[k] = v
		}
	}
}

func (c *collection[T]) Delete(ctx context.Context, namespace, name string, options metav1.DeleteOptions) error {
	var revision string
	var uid types.UID
	if p := options.Preconditions; p != nil {
		if p.ResourceVersion != nil {
			revision = *p.ResourceVersion
		}
		if p.UID != nil {
			uid = *p.UID
		}
	}
	if uid == "" && ctx.Value(outsider{}) == nil {
		c.api.mu.Lock()
		c.api.blind = append(c.api.blind, c.kind+" "+name)
		c.api.mu.Unlock()
	}
	_, err := c.edit(ctx, "delete", localcache.Key(namespace, name), revision, uid, func(o T) error {
		grace := int64(30)
		if options.GracePeriodSeconds != nil {
			grace = *options.GracePeriodSeconds
		}
		if o.GetDeletionTimestamp() == nil {
			now := metav1.NewTime(time.Now().Truncate(time.Second))
			o.SetDeletionTimestamp(&now)
			if options.PropagationPolicy != nil {
				switch *options.PropagationPolicy {
				case metav1.DeletePropagationForeground:
					addFinalizer(o, metav1.FinalizerDeleteDependents)
				case metav1.DeletePropagationOrphan:
					addFinalizer(o, metav1.FinalizerOrphanDependents)
				}
			}
		} else if before := o.GetDeletionGracePeriodSeconds(); before != nil {
			grace = min(grace, *before)
		}
		o.SetDeletionGracePeriodSeconds(&grace)
		return nil
	})
	return err
}

func addFinalizer(o metav1.Object, finalizer string) {
	if !slices.Contains(o.GetFinalizers(), finalizer) {
		o.SetFinalizers(append(o.GetFinalizers(), finalizer))
	}
}

func (c *collection[T]) Get(_ context.Context, namespace, name string) (T, error) {
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	o, ok := c.objects[localcache.Key(namespace, name)]
	if !ok {
		return o, apierrors.NewNotFound(c.resource(), name)
	}
	return o.DeepCopy(), nil
}

// list returns copies, sorted by name.
func (c *collection[T]) list() []T {
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	var all []T
	for _, o := range c.objects {
		all = append(all, o.DeepCopy())
	}
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(keyOf(a), keyOf(b)) })
	return all
}

// alter changes an object as another client would.
func (c *collection[T]) alter(t *testing.T, key string, change func(T)) {
	t.Helper()
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	old, ok := c.objects[key]
	if !ok {
		t.Fatalf("alter %s: not found", key)
	}
	c.alterLocked(key, old, change)
}

func (c *collection[T]) alterLocked(key string, old T, change func(T)) {
	o := old.DeepCopy()
	change(o)
	if !equality.Semantic.DeepEqual(fields(old)["spec"], fields(o)["spec"]) {
		o.SetGeneration(o.GetGeneration() + 1)
	}
	c.put(key, old, o)
}

// must is for what tests create themselves.
func must[T any](t *testing.T) func(T, error) T {
	return func(o T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
}

// newPods returns pods that terminate gracefully and that, like in a cluster, are made ready and
// finished by a separate loop.
func newPods(a *api) *collection[*corev1.Pod] {
	pods := newCollection(a, "Pod", func() *corev1.Pod { return &corev1.Pod{} })
	pods.graceful = true
	return pods
}
