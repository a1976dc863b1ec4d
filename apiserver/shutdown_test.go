package apiserver_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestShutdownInOrder ends a server: first it is not ready and serves, then
// watches end and nothing new begins, and what is in flight is waited for.
func TestShutdownInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := inMemory(t, func(c *apiserver.Config) {
			c.ShutdownDelay, c.DrainTimeout = 10*time.Second, time.Minute
			c.Admission = admit{mutate: func(_ context.Context, in *admission.Request) error {
				if in.Name == "slow" {
					time.Sleep(30 * time.Second)
				}
				return nil
			}}
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		<-s.Ready()
		a.want(a.do("GET", "/readyz/shutdown", ""), 200, "")
		watch := a.watch(configPath + "?watch=true")
		began := time.Now()
		cancel()
		synctest.Wait()
		a.want(a.do("GET", "/readyz", ""), 500, "[-]shutdown failed")
		a.want(a.do("GET", "/livez", ""), 200, "")
		a.create(configPath, configMap("a", ""))
		watch.want("ADDED/a")
		slow := make(chan answer, 1)
		time.Sleep(9 * time.Second)
		go func() { slow <- a.do("POST", configPath, configMap("slow", "")) }()
		if e := watch.next(); e != nil || time.Since(began) != 10*time.Second {
			t.Errorf("the watch ended after %v with %v", time.Since(began), e)
		}
		if _, err := a.client.Get(a.base + "/version"); err == nil {
			t.Error("a request was taken after the delay")
		}
		if err := <-done; err != nil || time.Since(began) != 39*time.Second {
			t.Errorf("ended after %v: %v", time.Since(began), err)
		}
		if got := <-slow; got.code != http.StatusCreated {
			t.Errorf("the request in flight: %d", got.code)
		}
	})
}

func TestDrainGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		s, a := inMemory(t, func(c *apiserver.Config) {
			c.DrainTimeout = 5 * time.Second
			c.Admission = admit{mutate: func(context.Context, *admission.Request) error { <-leave; return nil }}
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		<-s.Ready()
		gone := make(chan struct{})
		go func() { defer close(gone); a.do("POST", configPath, configMap("stuck", "")) }()
		synctest.Wait()
		began := time.Now()
		cancel()
		if err := <-done; err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("ended after %v: %v", time.Since(began), err)
		}
		close(leave)
		<-gone
	})
}

func TestAfterCreateAndDecorate(t *testing.T) {
	var created atomic.Int64
	r := configMaps()
	r.AfterCreate = func(_ context.Context, obj runtime.Object) {
		if obj.(*corev1.ConfigMap).ResourceVersion != "" {
			created.Add(1)
		}
	}
	r.Decorate = func(obj runtime.Object) {
		c := obj.(*corev1.ConfigMap)
		c.Annotations = map[string]string{"seen-at": c.ResourceVersion}
	}
	r.Strategy.PrepareForUpdate = func(_ context.Context, obj, _ runtime.Object) { obj.(*corev1.ConfigMap).Annotations = nil }
	var store *recording
	s := apiservertest.Start(t, apiservertest.WithResources(r), apiservertest.WithConfig(func(c *apiserver.Config) {
		store = &recording{Store: c.Store}
		c.Store = store
	}))
	a := &api{t, s.As("admin", "system:masters"), "http://memory"}
	check := func(got answer) {
		t.Helper()
		if c := into[corev1.ConfigMap](t, got); c.Annotations["seen-at"] != c.ResourceVersion || c.ResourceVersion == "" {
			t.Errorf("the metadata of the answer is %+v, want a resourceVersion, and the same in seen-at", c.ObjectMeta)
		}
	}
	a.want(a.do("POST", configPath+"?dryRun=All", configMap("a", "")), 201, "")
	if created.Load() != 0 {
		t.Error("called after a dry run")
	}
	check(a.create(configPath, configMap("a", "")))
	check(a.do("GET", configPath+"/a", ""))
	check(a.do("PATCH", configPath+"/a", `{"data":{"k":"v"}}`, mergePatch))
	check(a.do("GET", configPath+"/a", ""))
	a.want(a.do("POST", configPath, configMap("a", "")), 409, "")
	if n := created.Load(); n != 1 {
		t.Errorf("called %d times", n)
	}
	if store.has("seen-at") {
		t.Error("what is made up was stored")
	}
}
