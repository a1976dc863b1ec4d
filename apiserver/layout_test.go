package apiserver_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// keysUnder lists what store has under prefix.
func keysUnder(t testing.TB, store storage.Store, prefix storage.Key) []storage.Key {
	t.Helper()
	page, err := store.List(t.Context(), prefix, storage.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var keys []storage.Key
	for _, record := range page.Records {
		keys = append(keys, record.Key)
	}
	return keys
}

func TestLayout(t *testing.T) {
	for _, c := range []struct {
		name, prefix string
		layout       func(schema.GroupResource) string
		want         []storage.Key
	}{
		{"of the server", "", nil, []storage.Key{"/registry/apps/deployments/default/web", "/registry/core/configmaps/default/web"}},
		{"of one's own", "mine/", func(r schema.GroupResource) string { return "v1/" + r.Resource },
			[]storage.Key{"/mine/v1/configmaps/default/web", "/mine/v1/deployments/default/web"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := memstore.New()
			a := start(t, apiservertest.WithConfig(func(config *apiserver.Config) {
				config.Store, config.Prefix, config.Layout = store, c.prefix, c.layout
			}))
			a.create(configPath, configMap("web", ""))
			a.create(deployPath, deployment("web", 1))
			var keys []storage.Key
			for _, key := range keysUnder(t, store, "/") {
				if strings.HasSuffix(string(key), "/web") {
					keys = append(keys, key)
				}
			}
			if len(keys) != 2 || keys[0] != c.want[0] || keys[1] != c.want[1] {
				t.Errorf("%q, want %q", keys, c.want)
			}
			for _, path := range []string{configPath, deployPath} {
				a.want(a.do("GET", path+"/web", ""), 200, "")
				if got := into[corev1.ConfigMapList](t, a.want(a.do("GET", path+"?limit=1", ""), 200, "")); len(got.Items) != 1 {
					t.Errorf("%s lists %d", path, len(got.Items))
				}
				a.want(a.do("DELETE", path+"/web", ""), 200, "")
			}
		})
	}
}

// TestLayoutIsChecked: objects of two resources must not be able to meet.
func TestLayoutIsChecked(t *testing.T) {
	one := func(paths map[string]string) func(schema.GroupResource) string {
		return func(r schema.GroupResource) string {
			if path, ok := paths[r.Resource]; ok {
				return path
			}
			return r.Resource
		}
	}
	holding := func(r apiserver.Resource) apiserver.Resource {
		r.Allocation = seated().Allocation
		return r
	}
	shown := configMaps()
	shown.Group, shown.Version = "shown", "v1"
	shown.StoredAs = &apiserver.StoredForm{Version: "v1", Kind: "ConfigMap", Plural: "configmaps", New: shown.New,
		From: func(obj runtime.Object) (runtime.Object, error) { return obj.DeepCopyObject(), nil },
		To:   func(obj runtime.Object) (runtime.Object, error) { return obj.DeepCopyObject(), nil }}
	for _, c := range []struct {
		name   string
		paths  map[string]string
		more   []apiserver.Resource
		wanted string
	}{
		{"apart", nil, nil, ""},
		{"a name begins with another", map[string]string{"pods": "thing", "configmaps": "things"}, nil, ""},
		{"stored alike", nil, []apiserver.Resource{shown}, ""},
		{"one root", map[string]string{"pods": "things", "configmaps": "things"}, nil, "configmaps and pods would both be stored under /registry/things/"},
		{"a root in a root", map[string]string{"pods": "a", "configmaps": "a/b/c"}, nil, "configmaps would be stored under /registry/a/b/c/, which is inside /registry/a/ of pods"},
		{"a root among what is held", map[string]string{"pods": "held/core/configmaps/pods"}, []apiserver.Resource{holding(configMaps())}, "of what configmaps hold"},
		{"a root around what is held", map[string]string{"pods": "held"}, []apiserver.Resource{holding(configMaps())}, "what configmaps hold would be stored under"},
		{"what is held", map[string]string{"pods": "held/core/configmaps"}, []apiserver.Resource{holding(configMaps())}, "would both be stored under"},
		{"nowhere", map[string]string{"pods": ""}, nil, "no path of named segments"},
		{"a slash in front", map[string]string{"pods": "/pods"}, nil, "no path of named segments"},
		{"a slash behind", map[string]string{"pods": "pods/"}, nil, "no path of named segments"},
		{"an empty segment", map[string]string{"pods": "a//pods"}, nil, "no path of named segments"},
		{"dots", map[string]string{"pods": "../pods"}, nil, "no path of named segments"},
	} {
		t.Run(c.name, func(t *testing.T) {
			served := []apiserver.Resource{configMaps(), pods(), namespaces()}
			if len(c.more) == 1 && c.more[0].Allocation != nil {
				served = served[1:]
			}
			_, err := apiserver.New(apiserver.Config{
				Store: memstore.New(), Resources: append(served, c.more...), Layout: one(c.paths),
				Authenticator: authn.Chain{}, Authorizer: authz.Chain{},
			})
			switch {
			case c.wanted == "" && err != nil:
				t.Error(err)
			case c.wanted != "" && (err == nil || !strings.Contains(err.Error(), c.wanted)):
				t.Errorf("%v, want %q", err, c.wanted)
			}
		})
	}
}

// TestAdoption: what objects hold that another program has stored is not given to
// others, though nothing is recorded of it.
func TestAdoption(t *testing.T) {
	store := memstore.New()
	house(t, store).create(configPath, withSeat("first", "0"))
	for _, key := range keysUnder(t, store, "/registry/held/") {
		record, err := store.Get(t.Context(), key, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Commit(t.Context(), storage.Change{Op: storage.Delete, Key: key, Previous: record.Revision}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Commit(t.Context(), storage.Change{Key: "/registry/core/configmaps/default/garbage", Value: []byte("?")}); err != nil {
		t.Fatal(err)
	}

	broken := &unlistable{Store: store}
	a := house(t, broken)
	broken.yes.Store(true)
	a.want(a.do("POST", configPath, withSeat("second", "0")), 504, "")
	broken.yes.Store(false)
	a.want(a.do("POST", configPath, withSeat("second", "0")), 400, "taken")
	a.create(configPath, withSeat("second", ""))
	if seat := a.seat("second"); seat == "0" {
		t.Error("second sits on first")
	}
	a.want(a.do("DELETE", configPath+"/first", ""), 200, "")
	a.create(configPath, withSeat("third", "0"))
}

// unlistable fails to list while yes says so.
type unlistable struct {
	storage.Store
	yes atomic.Bool
}

func (u *unlistable) List(ctx context.Context, prefix storage.Key, o storage.ListOptions) (storage.Page, error) {
	if u.yes.Load() {
		return storage.Page{}, context.DeadlineExceeded
	}
	return u.Store.List(ctx, prefix, o)
}
