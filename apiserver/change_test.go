package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// settings returns a resource in group with the Go type of ConfigMap.
func settings(group, plural string) apiserver.Resource {
	return apiserver.Resource{
		Group: group, Version: "v1", Kind: "Setting", Plural: plural, Namespaced: true,
		New:     func() runtime.Object { return &corev1.ConfigMap{} },
		NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
	}
}

const settingsPath = "/apis/example.com/v1/namespaces/default/settings"

// TestChange adds a resource, replaces it by one that refuses creates, and removes it.
func TestChange(t *testing.T) {
	a, server := startChanging(t)
	a.want(a.do("GET", settingsPath, ""), 404, "")
	gr := schema.GroupResource{Group: "example.com", Resource: "settings"}
	change := func(c apiserver.Change) {
		t.Helper()
		drained, err := server.Change(c)
		if err == nil {
			err = drained(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	change(apiserver.Change{Serve: []apiserver.Resource{settings("example.com", "settings")}})
	body := `{"apiVersion":"example.com/v1","kind":"Setting","metadata":{"name":"a"},"data":{"x":"y"}}`
	a.want(a.do("POST", settingsPath, body), 201, `"x":"y"`)
	a.want(a.do("GET", "/apis", ""), 200, "example.com")
	a.want(a.do("GET", "/apis/example.com/v1", ""), 200, "settings")
	a.want(a.do("GET", "/openapi/v3", ""), 200, "apis/example.com/v1")
	a.want(a.do("GET", "/openapi/v3/apis/example.com/v1", ""), 200, "namespaces/{namespace}/settings")

	closed := settings("example.com", "settings")
	closed.Closed = fmt.Errorf("the resource is closed")
	change(apiserver.Change{Serve: []apiserver.Resource{closed}})
	a.want(a.do("POST", settingsPath, strings.Replace(body, `"a"`, `"b"`, 1)), 500, "closed")
	a.want(a.do("GET", settingsPath+"/a", ""), 200, `"x":"y"`)

	change(apiserver.Change{Remove: []schema.GroupResource{gr}})
	a.want(a.do("GET", settingsPath+"/a", ""), 404, "")
	if got := a.do("GET", "/apis", ""); strings.Contains(got.body, "example.com") {
		t.Errorf("a group without resources is left: %s", got.body)
	}
	a.want(a.do("GET", "/openapi/v3/apis/example.com/v1", ""), 404, "")
}

func TestChangeRefuses(t *testing.T) {
	a, server := startChanging(t)
	for want, c := range map[string]apiserver.Change{
		"one of Config":               {Serve: []apiserver.Resource{configMaps()}},
		"version, kind and plural":    {Serve: []apiserver.Resource{{Group: "example.com", Plural: "settings"}}},
		"would both be stored under":  {Serve: []apiserver.Resource{settings("core", "pods")}},
		"it has Answer or Allocation": {Serve: []apiserver.Resource{{Group: "example.com", Plural: "settings", Allocation: &apiserver.Allocation{}}}},
	} {
		if _, err := server.Change(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	a.want(a.do("GET", "/apis/example.com/v1", ""), 404, "")
}

// TestChangeEndsWatches: a client whose watch ends watches again, and misses nothing.
func TestChangeEndsWatches(t *testing.T) {
	a, server := startChanging(t)
	r := settings("example.com", "settings")
	if _, err := server.Change(apiserver.Change{Serve: []apiserver.Resource{r}}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	began := make(chan struct{})
	go func() {
		defer close(ended)
		request, _ := http.NewRequestWithContext(t.Context(), "GET", a.base+settingsPath+"?watch=1", nil)
		response, err := a.client.Do(request)
		close(began)
		if err != nil {
			t.Error(err)
			return
		}
		defer response.Body.Close()
		for buffer := make([]byte, 100); err == nil; {
			_, err = response.Body.Read(buffer)
		}
	}()
	<-began
	drained, err := server.Change(apiserver.Change{Serve: []apiserver.Resource{r}})
	if err == nil {
		err = drained(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the watch goes on")
	}
}

// TestChangeLosesNothing writes and reads while the resource is replaced again and again.
func TestChangeLosesNothing(t *testing.T) {
	a, server := startChanging(t)
	r := settings("example.com", "settings")
	if _, err := server.Change(apiserver.Change{Serve: []apiserver.Resource{r}}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var changer, writers sync.WaitGroup
	changer.Go(func() {
		for ctx.Err() == nil {
			drained, err := server.Change(apiserver.Change{Serve: []apiserver.Resource{r}})
			if err == nil {
				err = drained(t.Context())
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for w := range 4 {
		writers.Go(func() {
			for i := range 25 {
				name := fmt.Sprintf("s-%d-%d", w, i)
				body := `{"apiVersion":"example.com/v1","kind":"Setting","metadata":{"name":"` + name + `"}}`
				a.want(a.do("POST", settingsPath, body), 201, name)
				a.want(a.do("GET", settingsPath+"/"+name, ""), 200, name)
				a.want(a.do("PATCH", settingsPath+"/"+name, `{"data":{"a":"b"}}`, "Content-Type: application/merge-patch+json"), 200, name)
			}
		})
	}
	writers.Wait()
	stop()
	changer.Wait()
	got := a.want(a.do("GET", settingsPath, ""), 200, "")
	if n := strings.Count(got.body, `"a":"b"`); n != 100 {
		t.Errorf("%d objects, want 100", n)
	}
}

func startChanging(t *testing.T) (*api, *apiservertest.Server) {
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...))
	return &api{t, s.As("admin", "system:masters"), "http://memory"}, s
}
