package apiserver_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// behind is an Aggregator of what the test wants: others.example.com is passed on.
type behind struct {
	versions []apiserver.AggregatedVersion
	serve    http.HandlerFunc
}

func (b *behind) GroupVersions() []apiserver.AggregatedVersion { return b.versions }

func (b *behind) Handler(gv schema.GroupVersion) http.Handler {
	if gv.Group == "others.example.com" {
		return b.serve
	}
	return nil
}

func servedBy(group, version string, local bool) apiserver.AggregatedVersion {
	return apiserver.AggregatedVersion{GroupVersion: schema.GroupVersion{Group: group, Version: version}, Local: local}
}

// TestGroupsInOrder: the aggregator's order holds for this server's groups too;
// those it does not know come first, and what no server has is not listed.
func TestGroupsInOrder(t *testing.T) {
	for _, test := range []struct {
		versions []apiserver.AggregatedVersion
		want     []string
	}{
		{nil, []string{"apps/v1"}},
		{[]apiserver.AggregatedVersion{servedBy("others.example.com", "v1", false)}, []string{"apps/v1", "others.example.com/v1"}},
		{[]apiserver.AggregatedVersion{
			servedBy("others.example.com", "v2", false), servedBy("others.example.com", "v1", false), servedBy("gone", "v1", true),
			servedBy("", "v1", true), servedBy("apps", "v2", false),
		}, []string{"others.example.com/v2", "others.example.com/v1", "apps/v2", "apps/v1"}},
	} {
		a := start(t, apiservertest.WithConfig(func(c *apiserver.Config) { c.Aggregator = &behind{versions: test.versions} }))
		var list metav1.APIGroupList
		if err := json.Unmarshal([]byte(a.do("GET", "/apis", "").body), &list); err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, g := range list.Groups {
			if g.PreferredVersion != g.Versions[0] {
				t.Errorf("%s prefers %s", g.Name, g.PreferredVersion.Version)
			}
			for _, v := range g.Versions {
				have = append(have, v.GroupVersion)
			}
		}
		if !slices.Equal(have, test.want) {
			t.Errorf("groups %v, want %v", have, test.want)
		}
	}
}

// TestWhatIsPassedOn: requests for the group and for its documents, and no others.
func TestWhatIsPassedOn(t *testing.T) {
	const here = "passed on"
	a := start(t, apiservertest.WithConfig(func(c *apiserver.Config) {
		c.Aggregator = &behind{serve: func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, here) }}
	}))
	for path, want := range map[string]bool{
		"/apis/others.example.com/v1":                   true,
		"/apis/others.example.com/v1/things":            true,
		"/apis/others.example.com/v1/namespaces/n/ts/a": true,
		"/openapi/v3/apis/others.example.com/v1":        true,
		"/openapi/v3/apis/others.example.com":           false,
		"/openapi/v3/apis/others.example.com/v1/more":   false,
		"/openapi/v3/apis/apps/v1":                      false,
		"/apis/others.example.com":                      false,
		"/apis/apps/v1/deployments":                     false,
		"/api/v1/configmaps":                            false,
	} {
		if got := a.do("GET", path, ""); (got.body == here) != want {
			t.Errorf("%s: %d %s, want it passed on: %v", path, got.code, got.body, want)
		}
	}
}

// TestWatchesOfOthersEnd: a server that winds up does not wait for the watches
// that it passes on.
func TestWatchesOfOthersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := inMemory(t, func(c *apiserver.Config) {
			c.DrainTimeout = time.Hour
			c.Aggregator = &behind{serve: func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		<-s.Ready()
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			a.do("GET", "/apis/others.example.com/v1/things?watch=true", "")
		}()
		time.Sleep(2 * time.Minute) // longer than other requests may take
		select {
		case <-gone:
			t.Error("the watch ended by itself")
		default:
		}
		began := time.Now()
		cancel()
		if err := <-done; err != nil || time.Since(began) > time.Second {
			t.Errorf("ended after %v: %v", time.Since(began), err)
		}
		<-gone
	})
}

// TestRemoteHeadersGoNoFurther: what a client says of the user reaches no other server.
func TestRemoteHeadersGoNoFurther(t *testing.T) {
	var left http.Header
	server := apiservertest.Start(t, apiservertest.WithConfig(func(c *apiserver.Config) {
		c.Handlers = map[string]http.Handler{"/headers": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { left = r.Header })}
	}))
	a := &api{t, server.Client(), server.URL}
	a.want(a.do("GET", "/headers", "", "X-Remote-User: root", "x-remote-extra-a: b", "X_Remote_Group: c", "X-Kept: d"), 200, "")
	for name := range left {
		if name[0] == 'X' && name != "X-Kept" {
			t.Errorf("%s got through", name)
		}
	}
	if left.Get("X-Kept") != "d" {
		t.Errorf("left: %v", left)
	}
}
