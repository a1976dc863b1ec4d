package apiserver_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
)

// deaf is a store that never reports changes: what was read once stays in the
// cache as it was.
type deaf struct{ storage.Store }

func (d deaf) Watch(ctx context.Context, prefix storage.Key, after storage.Revision) (storage.Watcher, error) {
	return silence{ctx}, nil
}

type silence struct{ ctx context.Context }

func (s silence) Next(ctx context.Context) ([]storage.Event, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silence) Close() {}

// TestStaleCache does random operations with a cache that stands still. Reads
// are no older than what was acknowledged before, and writes begin with what the
// store has.
func TestStaleCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		_, a := inMemory(t, func(c *apiserver.Config) { c.Store = deaf{memstore.New()} })
		m := &model{a, rand.New(rand.NewPCG(seed, 0)), map[string]modelled{}}
		for range 20 {
			m.step()
		}
		a.names(configPath + "?resourceVersion=0") // read into the cache
		for range 400 {
			m.step()
			listed := map[string]modelled{}
			for _, item := range into[corev1.ConfigMapList](t, a.do("GET", configPath, "")).Items {
				listed[item.Name] = known(&item)
			}
			if !maps.Equal(listed, m.objects) {
				t.Fatalf("listed %v, want %v", listed, m.objects)
			}
		}
	})
}

// TestStaleWrites does what would be nothing, or refused, if the cache were
// right.
func TestStaleWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := inMemory(t, func(c *apiserver.Config) { c.Store = deaf{memstore.New()} })
		with := func(v string) string { return configMap("a", `,"data":{"v":"`+v+`"}`) }
		a.create(configPath, with("0"))
		a.names(configPath)
		now := into[corev1.ConfigMap](t, a.want(a.do("PUT", configPath+"/a", with("1")), 200, ""))
		// Made from the newest, which the cache does not have.
		newest := strings.Replace(with("2"), `"name"`, `"resourceVersion":"`+now.ResourceVersion+`","name"`, 1)
		a.want(a.do("PUT", configPath+"/a", newest), 200, "")
		a.want(a.do("PUT", configPath+"/a", newest), 409, "the object has been modified")
		// Back to what the cache has: not nothing.
		back := into[corev1.ConfigMap](t, a.want(a.do("PUT", configPath+"/a", with("0")), 200, ""))
		if got := into[corev1.ConfigMap](t, a.do("GET", configPath+"/a", "")); got.Data["v"] != "0" || got.ResourceVersion != back.ResourceVersion {
			t.Errorf("stored %v", got)
		}
		dry := into[corev1.ConfigMap](t, a.want(a.do("PATCH", configPath+"/a?dryRun=All", `{"metadata":{"labels":{"x":"y"}}}`, mergePatch), 200, ""))
		if dry.ResourceVersion != back.ResourceVersion {
			t.Errorf("a dry run began with %s, want %s", dry.ResourceVersion, back.ResourceVersion)
		}
		a.want(a.do("DELETE", configPath+"/a", ""), 200, "")
		a.want(a.do("PATCH", configPath+"/a", `{}`, mergePatch), 404, "not found")
		a.want(a.do("DELETE", configPath+"/a", ""), 404, "not found")
		again := into[corev1.ConfigMap](t, a.create(configPath, with("0")))
		a.want(a.do("DELETE", configPath+"/a", `{"preconditions":{"uid":"`+string(again.UID)+`"}}`), 200, "")
	})
}

// TestWarningsStay: what decoding warns of is not lost on the way to the store.
func TestWarningsStay(t *testing.T) {
	a := start(t)
	a.create(configPath, configMap("a", ""))
	got := a.want(a.do("PUT", configPath+"/a?fieldValidation=Warn", configMap("a", `,"other":1`)), 200, "")
	if w := got.header.Values("Warning"); len(w) != 1 || !strings.Contains(w[0], "other") {
		t.Errorf("warnings %q", w)
	}
}
