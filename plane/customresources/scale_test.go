package customresources_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/discovery"
	"github.com/planekit/planekit/kinds/apiextensions"
	"github.com/planekit/planekit/kinds/kind"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/customresources"
	"github.com/planekit/planekit/plane/planetest"
	"github.com/planekit/planekit/storage/memstore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	many   = flag.Int("definitions", 50, "definitions to serve")
	coming = flag.Int("coming", 15, "definitions to create and delete, twice")
	seed   = flag.Uint64("seed", 1, "seed of the order in which definitions come and go")
)

// thing is the definition of the nth kind.
func thing(t testing.TB, n int) *apiextensions.CustomResourceDefinition {
	t.Helper()
	text := strings.NewReplacer("lamps", fmt.Sprint("things", n), "Lamp", fmt.Sprint("Thing", n)).Replace(lamps)
	definitions, err := customresources.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return definitions[0]
}

// things are the objects of the nth kind, for clients.
func things(api *client.Client, n int) client.Resource[*metav1.PartialObjectMetadata] {
	return client.For(api, kind.Define(kind.Kind[*metav1.PartialObjectMetadata]{
		Group: "example.com", Version: "v1", Kind: fmt.Sprint("Thing", n), Plural: fmt.Sprint("things", n), Namespaced: true,
	}))
}

func makeThing(ctx context.Context, api *client.Client, n int, name string) error {
	_, err := api.Do(ctx, client.Request{
		Method: "POST", Path: fmt.Sprintf("/apis/example.com/v1/namespaces/default/things%d", n),
		Body: fmt.Appendf(nil, `{"apiVersion":"example.com/v1","kind":"Thing%d","metadata":{"name":%q}}`, n, name),
	})
	return err
}

// inParallel calls f with each number below n, from eight goroutines.
func inParallel(n int, f func(int) error) error {
	var all sync.WaitGroup
	var next atomic.Int64
	failures := make([]error, 8)
	for w := range failures {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failures[w] == nil; i = int(next.Add(1)) - 1 {
				failures[w] = f(i)
			}
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

// usage returns the goroutines and the bytes of the heap in use.
func usage() (goroutines int, heap uint64) {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), m.HeapAlloc
}

// seen is a sink that counts the objects that it has seen.
type seen struct {
	names sync.Map
}

func (s *seen) Replace(_ string, objects []*metav1.PartialObjectMetadata) {
	for _, o := range objects {
		s.names.Store(o.Name, true)
	}
}
func (s *seen) Put(_ string, o *metav1.PartialObjectMetadata)    { s.names.Store(o.Name, true) }
func (s *seen) Remove(_ string, o *metav1.PartialObjectMetadata) { s.names.Delete(o.Name) }
func (s *seen) Bookmark(string)                                  {}

// TestManyDefinitions: a control plane starts with many definitions, and all are discovered, listed and watched.
func TestManyDefinitions(t *testing.T) {
	store := memstore.New()
	with := func(c *plane.Config) { c.Store = store; customresources.Enable(c) }
	t.Run("create", func(t *testing.T) {
		p := planetest.Start(t, planetest.With(with))
		var all []*apiextensions.CustomResourceDefinition
		for n := range *many {
			all = append(all, thing(t, n))
		}
		began := time.Now()
		if err := customresources.Install(t.Context(), p.Client(), all...); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d definitions are established in %v", *many, time.Since(began))
		if err := inParallel(*many, func(n int) error { return makeThing(t.Context(), p.Client(), n, "old") }); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("start", func(t *testing.T) {
		_, before := usage()
		began := time.Now()
		p := planetest.Start(t, planetest.With(with))
		t.Logf("the control plane is ready in %v", time.Since(began))
		planetest.Eventually(t, func() error {
			n := 0
			for range p.Caches.Custom.Objects.All() {
				n++
			}
			if n != *many {
				return fmt.Errorf("%d objects of %d are followed", n, *many)
			}
			return nil
		})
		t.Logf("all objects are followed after %v", time.Since(began))
		goroutines, after := usage()
		t.Logf("%d goroutines, %d KB for each definition with the rest of the control plane", goroutines, (after-before)/uint64(*many)/1024)

		began = time.Now()
		catalog, err := discovery.Fetch(t.Context(), p.Client())
		if err != nil {
			t.Fatal(err)
		}
		found := map[schema.GroupResource]bool{}
		for _, m := range catalog.Mappings {
			found[schema.GroupResource{Group: m.Group, Resource: m.Plural}] = true
		}
		t.Logf("discovery takes %v", time.Since(began))
		began = time.Now()
		watchAll(t, p, found)
		t.Logf("all are listed, written and watched in %v", time.Since(began))
	})
}

// watchAll fails the test unless each kind is discovered, and each is listed and watched.
func watchAll(t *testing.T, p *planetest.Plane, found map[schema.GroupResource]bool) {
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	sinks := make([]seen, *many)
	for n := range sinks {
		if r := (schema.GroupResource{Group: "example.com", Resource: fmt.Sprint("things", n)}); !found[r] {
			t.Fatalf("%s is not discovered", r)
		}
		work.Go(func() { _ = things(p.Client(), n).Sync(ctx, "", &sinks[n]) })
	}
	if err := inParallel(*many, func(n int) error { return makeThing(t.Context(), p.Client(), n, "new") }); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, func() error {
		for n := range sinks {
			for _, name := range []string{"old", "new"} {
				if _, ok := sinks[n].names.Load(name); !ok {
					return fmt.Errorf("the watch of things%d has not seen %q", n, name)
				}
			}
		}
		return nil
	})
}

// TestDefinitionsComeAndGo: definitions are created and deleted in a random order, each with objects, a watch and
// a writer. Goroutines and memory are back when all have gone.
func TestDefinitionsComeAndGo(t *testing.T) {
	// The history of the store is short, so that a leak is not hidden by it.
	p := planetest.Start(t, planetest.CustomResources(), planetest.With(func(c *plane.Config) { c.Store = memstore.NewHistory(100) }))
	api := p.Client()
	definitions := client.For(api, customresources.Definitions)
	one := func(n int) error {
		if err := customresources.Install(t.Context(), api, thing(t, n)); err != nil {
			return err
		}
		ctx, stop := context.WithCancel(t.Context())
		var work sync.WaitGroup
		defer work.Wait()
		defer stop()
		work.Go(func() {
			for ctx.Err() == nil {
				_ = things(api, n).Sync(ctx, "", new(seen))
				time.Sleep(5 * time.Millisecond) // the definition has gone, and ctx soon ends
			}
		})
		written := make(chan error, 1)
		work.Go(func() {
			for i := 0; ; i++ {
				if err := makeThing(t.Context(), api, n, fmt.Sprint("t", i)); err != nil {
					written <- err
					return
				}
				time.Sleep(time.Millisecond) // the objects are to be deleted in the end
			}
		})
		random := rand.New(rand.NewPCG(*seed, uint64(n)))
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		if err := definitions.Delete(t.Context(), "", thing(t, n).Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		// The writer is refused while the objects go, and then there is no such resource.
		if err := <-written; !apierrors.IsMethodNotSupported(err) && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return fmt.Errorf("things%d: the writer's error is %w", n, err)
		}
		return nil
	}
	gone := func() {
		t.Helper()
		planetest.Eventually(t, func() error {
			all, _, err := definitions.List(t.Context(), "", metav1.ListOptions{})
			if err == nil && len(all) > 0 {
				err = fmt.Errorf("%d definitions are left", len(all))
			}
			for k := range p.Caches.Custom.Kinds.All() {
				err = errors.Join(err, fmt.Errorf("%s is still followed", k.Plural))
			}
			return err
		})
	}
	round := func(from, count int) {
		t.Helper()
		if err := inParallel(count, func(n int) error { return one(from + n) }); err != nil {
			t.Fatal(err)
		}
		gone()
	}
	round(0, *coming) // which fills the histories of the caches
	goroutines, heap := usage()
	began := time.Now()
	round(*coming, *coming)
	t.Logf("%d definitions have come and gone in %v", *coming, time.Since(began))
	planetest.Eventually(t, func() error {
		if now, _ := usage(); now > goroutines+5 {
			return fmt.Errorf("%d goroutines, %d at first", now, goroutines)
		}
		return nil
	})
	_, now := usage()
	t.Logf("the heap has %d KB, %d KB at first", now/1024, heap/1024)
	if now > heap+8<<20 {
		t.Errorf("%d MB are left of %d", now>>20, heap>>20)
	}
}
