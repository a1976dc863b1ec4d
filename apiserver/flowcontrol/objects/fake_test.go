package objects_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver/flowcontrol"
	"github.com/planekit/planekit/apiserver/flowcontrol/objects"
	"github.com/planekit/planekit/localcache"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

type (
	level      = flowcontrolv1.PriorityLevelConfiguration
	flowSchema = flowcontrolv1.FlowSchema
)

type object[T any] interface {
	comparable
	metav1.Object
	DeepCopy() T
}

// api is one resource of a server in memory: it guards updates by resource version
// and counts generations.
type api[T object[T]] struct {
	parts func(T) (spec, status any)

	mu       sync.Mutex
	revision int
	all      map[string]T
	caches   []*cache[T]
	// writes counts what was stored, by kind of write and name.
	writes map[string]int
	// fail, if set, is the answer to every write, which refused counts.
	fail    error
	refused int
	// conflicts counts writes of old versions.
	conflicts int
}

func (a *api[T]) refuse(reason func(schema.GroupResource, string) *apierrors.StatusError, name string) (T, error) {
	var none T
	return none, reason(schema.GroupResource{Resource: "things"}, name)
}

func conflict(r schema.GroupResource, name string) *apierrors.StatusError {
	return apierrors.NewConflict(r, name, errors.New("modified"))
}

// store is called with mu.
func (a *api[T]) store(verb string, o T) T {
	a.revision++
	o.SetResourceVersion(strconv.Itoa(a.revision))
	a.writes[verb+" "+o.GetName()]++
	if verb == "delete" {
		delete(a.all, o.GetName())
	} else {
		a.all[o.GetName()] = o
	}
	for _, c := range a.caches {
		c.send(verb == "delete", o)
	}
	return o.DeepCopy()
}

func (a *api[T]) Create(_ context.Context, o T) (T, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fail != nil {
		a.refused++
		return o, a.fail
	}
	if _, ok := a.all[o.GetName()]; ok {
		return a.refuse(apierrors.NewAlreadyExists, o.GetName())
	}
	o = o.DeepCopy()
	o.SetGeneration(1)
	o.SetUID(types.UID(fmt.Sprint("uid-", a.revision)))
	return a.store("create", o), nil
}

func (a *api[T]) update(o T, status bool) (T, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fail != nil {
		a.refused++
		return o, a.fail
	}
	have, ok := a.all[o.GetName()]
	if !ok {
		return a.refuse(apierrors.NewNotFound, o.GetName())
	}
	if o.GetResourceVersion() != have.GetResourceVersion() {
		a.conflicts++
		return a.refuse(conflict, o.GetName())
	}
	out := have.DeepCopy()
	spec, state := a.parts(out)
	newSpec, newState := a.parts(o.DeepCopy())
	if status {
		reflect.ValueOf(state).Elem().Set(reflect.ValueOf(newState).Elem())
		return a.store("status", out), nil
	}
	if !equality.Semantic.DeepEqual(spec, newSpec) {
		out.SetGeneration(have.GetGeneration() + 1)
	}
	reflect.ValueOf(spec).Elem().Set(reflect.ValueOf(newSpec).Elem())
	out.SetAnnotations(o.GetAnnotations())
	return a.store("update", out), nil
}

func (a *api[T]) Update(_ context.Context, o T) (T, error)       { return a.update(o, false) }
func (a *api[T]) UpdateStatus(_ context.Context, o T) (T, error) { return a.update(o, true) }

func (a *api[T]) Delete(_ context.Context, _, name string, options metav1.DeleteOptions) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fail != nil {
		a.refused++
		return a.fail
	}
	have, ok := a.all[name]
	if !ok {
		_, err := a.refuse(apierrors.NewNotFound, name)
		return err
	}
	if p := options.Preconditions; p != nil && (*p.UID != have.GetUID() || *p.ResourceVersion != have.GetResourceVersion()) {
		_, err := a.refuse(conflict, name)
		return err
	}
	a.store("delete", have.DeepCopy())
	return nil
}

func (a *api[T]) get(name string) (T, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, ok := a.all[name]
	return o, ok
}

func (a *api[T]) list() []T {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.all))
}

func (a *api[T]) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, w := range a.writes {
		n += w
	}
	return n
}

// seen returns how often an object was written so, and how many writes were refused
// and conflicted.
func (a *api[T]) seen(write string) (written, refused, conflicts int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.writes[write], a.refused, a.conflicts
}

func (a *api[T]) setFail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fail = err
}

// user edits an object as kubectl does, at its newest version.
func (a *api[T]) user(t *testing.T, name string, edit func(T)) {
	t.Helper()
	o, ok := a.get(name)
	if !ok {
		t.Fatalf("there is no %s", name)
	}
	o = o.DeepCopy()
	edit(o)
	if _, err := a.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// cache is a copy of an api that is behind by up to lag.
type cache[T object[T]] struct {
	lag    time.Duration
	synced chan struct{}
	queue  chan func()

	mu       sync.Mutex
	all      map[string]T
	handlers map[*func(old, new T)]bool
}

func (a *api[T]) cache(t *testing.T, lag time.Duration) *cache[T] {
	c := &cache[T]{lag: lag, synced: make(chan struct{}), queue: make(chan func(), 10_000), all: map[string]T{}, handlers: map[*func(old, new T)]bool{}}
	a.mu.Lock()
	a.caches = append(a.caches, c)
	for _, o := range a.all {
		c.all[o.GetName()] = o
	}
	a.mu.Unlock()
	close(c.synced)
	go func() {
		for apply := range c.queue {
			if c.lag > 0 {
				time.Sleep(rand.N(c.lag))
			}
			apply()
		}
	}()
	t.Cleanup(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.caches = slices.DeleteFunc(a.caches, func(one *cache[T]) bool { return one == c })
		close(c.queue)
	})
	return c
}

func (c *cache[T]) send(deleted bool, o T) {
	c.queue <- func() {
		c.mu.Lock()
		var none T
		old := c.all[o.GetName()]
		if deleted {
			delete(c.all, o.GetName())
		} else {
			c.all[o.GetName()] = o
		}
		handlers := slices.Collect(maps.Keys(c.handlers))
		c.mu.Unlock()
		for _, h := range handlers {
			if deleted {
				(*h)(old, none)
			} else {
				(*h)(old, o)
			}
		}
	}
}

func (c *cache[T]) All() iter.Seq[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Values(slices.Collect(maps.Values(c.all)))
}

func (c *cache[T]) Subscribe(handle func(old, new T)) localcache.Subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers[&handle] = true
	return localcache.Subscription{CaughtUp: c.synced, Stop: func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.handlers, &handle)
	}}
}

func (c *cache[T]) Synced() <-chan struct{} { return c.synced }

// target records what it is configured with.
type target struct {
	t     *testing.T
	mu    sync.Mutex
	last  flowcontrol.Config
	times int
}

func (c *target) Configure(config flowcontrol.Config) error {
	if err := config.Validate(); err != nil {
		c.t.Errorf("a configuration that is not valid: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = config
	c.times++
	return nil
}

func (c *target) have() (flowcontrol.Config, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, c.times
}

// world is a server with both resources.
type world struct {
	t       *testing.T
	levels  *api[*level]
	schemas *api[*flowSchema]
}

func newWorld(t *testing.T) *world {
	return &world{
		t: t,
		levels: &api[*level]{all: map[string]*level{}, writes: map[string]int{},
			parts: func(l *level) (any, any) { return &l.Spec, &l.Status }},
		schemas: &api[*flowSchema]{all: map[string]*flowSchema{}, writes: map[string]int{},
			parts: func(s *flowSchema) (any, any) { return &s.Spec, &s.Status }},
	}
}

func (w *world) config(lag time.Duration, to objects.Target) objects.KeeperConfig {
	return objects.KeeperConfig{
		Levels: w.levels.cache(w.t, lag), Schemas: w.schemas.cache(w.t, lag),
		LevelClient: w.levels, SchemaClient: w.schemas, Target: to, Seats: 600,
	}
}

// keep runs a Keeper until the test ends or stop is called.
func (w *world) keep(lag time.Duration) (to *target, stop func()) {
	w.t.Helper()
	to = &target{t: w.t}
	k, err := objects.NewKeeper(w.config(lag, to))
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(stop)
	return to, stop
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) writes() int { return w.levels.count() + w.schemas.count() }

func newLevel(name string) *level {
	return &level{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
		Type: flowcontrolv1.PriorityLevelEnablementLimited,
		Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
			NominalConcurrencyShares: new(int32(7)), LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
		},
	}}
}

func newSchema(name, levelName string) *flowSchema {
	return &flowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.FlowSchemaSpec{
		PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: levelName}, MatchingPrecedence: 77,
	}}
}

// condition is the state of a schema's reference to its level.
func condition(s *flowSchema) string {
	for _, c := range s.Status.Conditions {
		if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}
