package apiserver_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// seats bounds the number of seated config maps.
const seats = 4

// seated are config maps each of which has a seat for itself in its data.
func seated() apiserver.Resource {
	r := configMaps()
	seat := func(obj runtime.Object) string { return obj.(*corev1.ConfigMap).Data["seat"] }
	r.Allocation = &apiserver.Allocation{
		Names: func(obj runtime.Object) []string {
			if seat(obj) == "" {
				return nil
			}
			return []string{seat(obj)}
		},
		Fill: func(obj, old runtime.Object, values apiserver.Values) error {
			if old != nil && seat(old) == seat(obj) {
				return nil
			}
			wanted := []string{seat(obj)}
			if wanted[0] == "" {
				wanted = wanted[:0]
				for n := range seats {
					wanted = append(wanted, fmt.Sprint(n))
				}
			}
			for _, name := range wanted {
				free, err := values.Take(name)
				if err != nil || free {
					obj.(*corev1.ConfigMap).Data = map[string]string{"seat": name}
					return err
				}
			}
			return apierrors.NewBadRequest("taken")
		},
	}
	r.Strategy.Validate = func(_ context.Context, obj runtime.Object) field.ErrorList {
		if obj.(*corev1.ConfigMap).Labels["bad"] != "" {
			return field.ErrorList{field.Invalid(field.NewPath("metadata", "labels"), "", "bad")}
		}
		return nil
	}
	return r
}

// house is a server of seated config maps on store.
func house(t *testing.T, store storage.Store) *api {
	return start(t, apiservertest.WithConfig(func(c *apiserver.Config) {
		c.Store, c.Resources = store, []apiserver.Resource{seated()}
	}))
}

func (a *api) seat(name string) string {
	a.t.Helper()
	return into[corev1.ConfigMap](a.t, a.want(a.do("GET", configPath+"/"+name, ""), 200, "")).Data["seat"]
}

func withSeat(name, seat string) string {
	return configMap(name, fmt.Sprintf(`,"data":{"seat":%q}`, seat))
}

func TestAllocation(t *testing.T) {
	a := house(t, memstore.New())
	a.create(configPath, configMap("a", ""))
	if s := a.seat("a"); s != "0" {
		t.Errorf("seat %q", s)
	}
	a.want(a.do("POST", configPath, withSeat("b", "0")), 400, "taken")
	a.want(a.do("POST", configPath, withSeat("a", "1")), 409, "already exists")
	a.want(a.do("POST", configPath, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b","labels":{"bad":"x"}},"data":{"seat":"1"}}`), 422, "bad")
	a.want(a.do("POST", configPath+"?dryRun=All", withSeat("b", "1")), 201, "")
	a.want(a.do("POST", configPath+"?dryRun=All", withSeat("b", "0")), 400, "taken")
	a.create(configPath, withSeat("b", "1")) // nothing of the above has kept it

	a.want(a.do("PUT", configPath+"/b", withSeat("b", "0")), 400, "taken")
	a.want(a.do("PUT", configPath+"/b?dryRun=All", withSeat("b", "2")), 200, "")
	a.want(a.do("PUT", configPath+"/b", withSeat("b", "2")), 200, "")
	a.create(configPath, withSeat("c", "1"))
	a.want(a.do("POST", configPath, withSeat("d", "2")), 400, "taken")
	a.want(a.do("DELETE", configPath+"/b?dryRun=All", ""), 200, "")
	a.want(a.do("POST", configPath, withSeat("d", "2")), 400, "taken")
	a.want(a.do("DELETE", configPath+"/b", ""), 200, "")
	a.create(configPath, withSeat("d", "2"))
}

// A finalizer keeps the object and so its seat; the update that takes away the
// last finalizer gives back both.
func TestAllocationFinalizer(t *testing.T) {
	a := house(t, memstore.New())
	a.create(configPath, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","finalizers":["x/y"]},"data":{"seat":"1"}}`)
	a.want(a.do("DELETE", configPath+"/a", ""), 200, "")
	a.want(a.do("POST", configPath, withSeat("b", "1")), 400, "taken")
	a.want(a.do("PATCH", configPath+"/a", `{"metadata":{"finalizers":null}}`, mergePatch), 200, "")
	a.create(configPath, withSeat("b", "1"))
}

// TestAllocationRace lets many clients of two servers want the few seats there
// are: each has one holder, and none is left over.
func TestAllocationRace(t *testing.T) {
	store := memstore.New()
	servers := []*api{house(t, store), house(t, store)}
	for round := range 20 {
		var wg sync.WaitGroup
		for i := range 2 * seats {
			wg.Go(func() {
				servers[i%2].do("POST", configPath, configMap(fmt.Sprintf("c-%d", i), ""))
			})
		}
		wg.Wait()
		list := into[corev1.ConfigMapList](t, servers[0].do("GET", configPath, ""))
		holders := map[string]bool{}
		for _, c := range list.Items {
			if holders[c.Data["seat"]] {
				t.Fatalf("round %d: seat %s twice", round, c.Data["seat"])
			}
			holders[c.Data["seat"]] = true
			wg.Go(func() { servers[round%2].do("DELETE", configPath+"/"+c.Name, "") })
		}
		wg.Wait()
		if len(holders) != seats {
			t.Fatalf("round %d: %d seats of %d are taken", round, len(holders), seats)
		}
	}
}

// A claim whose object never came, or has the name no more, is free a minute after a server met it and not
// before, whatever the time in the claim is.
func TestAllocationLeftOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		_, a := inMemory(t, func(c *apiserver.Config) { c.Store, c.Resources = store, []apiserver.Resource{seated()} })
		a.create(configPath, withSeat("a", "0"))
		long := time.Now().Add(-time.Hour).Format(time.RFC3339)
		for seat, claim := range map[string]string{
			"1": fmt.Sprintf(`{"holder":"/registry/core/configmaps/default/gone","uid":"u","time":%q}`, long),
			"2": fmt.Sprintf(`{"holder":"/registry/core/configmaps/default/a","uid":"v","time":%q}`, long),
		} {
			key := storage.Key("/registry/held/core/configmaps/" + seat)
			if _, err := store.Commit(t.Context(), storage.Change{Op: storage.Create, Key: key, Value: []byte(claim)}); err != nil {
				t.Fatal(err)
			}
		}
		for _, seat := range []string{"0", "1", "2"} {
			a.want(a.do("POST", configPath, withSeat("s"+seat, seat)), 400, "taken")
		}
		time.Sleep(time.Minute)
		a.create(configPath, withSeat("s1", "1"))
		a.create(configPath, withSeat("s2", "2"))
		a.want(a.do("POST", configPath, withSeat("s0", "0")), 400, "taken")
	})
}
