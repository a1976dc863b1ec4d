package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	"github.com/planekit/planekit/storage/storagetest"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const seating = `{"apiVersion":"v1","kind":"Seating","metadata":{"name":"new"}}`

// oneEffect are requests for stored objects called web, all of which change something.
var oneEffect = []struct{ name, method, path, body, header string }{
	{"create", "POST", configPath, configMap("new", ""), ""},
	{"create with a generated name", "POST", configPath, strings.Replace(configMap("", ""), `"name"`, `"generateName":"new-","name"`, 1), ""},
	{"create by update", "PUT", "/api/v1/namespaces/default/seatings/new", seating, ""},
	{"create by apply", "PATCH", configPath + "/new?fieldManager=m", configMap("new", ""), applyPatch},
	{"update", "PUT", configPath + "/web", configMap("web", `,"data":{"a":"b"}`), ""},
	{"JSON patch", "PATCH", configPath + "/web", `[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/one"}]`, jsonPatch},
	{"JSON patch with a test", "PATCH", configPath + "/web", `[{"op":"test","path":"/data/n","value":"1"},{"op":"replace","path":"/data/n","value":"2"}]`, jsonPatch},
	{"merge patch", "PATCH", configPath + "/web", `{"data":{"a":"b"}}`, mergePatch},
	{"strategic patch", "PATCH", configPath + "/web", `{"data":{"a":"b"}}`, strategicPatch},
	{"apply", "PATCH", configPath + "/web?fieldManager=m", configMap("web", `,"data":{"a":"b"}`), applyPatch},
	{"delete", "DELETE", deployPath + "/web", "", ""},
	{"delete with a finalizer", "DELETE", configPath + "/web", "", ""},
	{"delete with grace", "DELETE", podPath + "/web", "", ""},
	{"delete a collection", "DELETE", podPath, "", ""},
	{"last finalizer", "PATCH", configPath + "/going", `{"metadata":{"finalizers":null}}`, mergePatch},
	{"status", "PATCH", podPath + "/web/status", `{"status":{"message":"a"}}`, mergePatch},
	{"bind", "POST", podPath + "/web/binding", `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"web"},"target":{"name":"n"}}`, ""},
	{"evict", "POST", podPath + "/web/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"web"}}`, ""},
	{"scale", "PATCH", deployPath + "/web/scale", `{"spec":{"replicas":7}}`, mergePatch},
	{"take a seat", "POST", "/api/v1/namespaces/default/seatings", seating, ""},
}

// effectful serves what oneEffect uses.
func effectful() []apiserver.Resource {
	seats := seated()
	seats.Kind, seats.Plural, seats.ShortNames, seats.CreateOnUpdate = "Seating", "seatings", nil, true
	p := pods()
	p.Subresources = append(p.Subresources, apiserver.Deletion{
		Name: "eviction", Group: "policy", Version: "v1", Kind: "Eviction", New: func() runtime.Object { return &policyv1.Eviction{} },
		Delete: func(context.Context, runtime.Object, runtime.Object, apiserver.Namespace) (*metav1.DeleteOptions, error) {
			return &metav1.DeleteOptions{}, nil
		},
	})
	return []apiserver.Resource{configMaps(), p, deployments(), seats}
}

// faultyWrites loses the replies to the changes that lose selects, once armed, and counts the changes.
type faultyWrites struct {
	storage.Store
	mu sync.Mutex
	// lose, under mu, selects the changes whose reply is lost; nil selects none.
	lose    func(storage.Change) bool
	changes []storage.Change // tried, under mu
}

func (f *faultyWrites) arm(lose func(storage.Change) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lose, f.changes = lose, nil
}

func (f *faultyWrites) tried() []storage.Change {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.changes)
}

func (f *faultyWrites) Commit(ctx context.Context, c storage.Change) (storage.Record, error) {
	f.mu.Lock()
	f.changes = append(f.changes, c)
	lose := f.lose != nil && f.lose(c)
	f.mu.Unlock()
	return storagetest.LoseReply(f.Store, func(storage.Change) bool { return lose }).Commit(ctx, c)
}

// isObject reports whether c is the change of an object, and not of what it holds.
func isObject(c storage.Change) bool { return !strings.HasPrefix(string(c.Key), "/registry/held/") }

// TestOneAnswerOneEffect: a request whose change the store made without an acknowledgement is answered with
// an error of the server, and no second change follows, whether the server knows the record or reads it first.
func TestOneAnswerOneEffect(t *testing.T) {
	for _, r := range oneEffect {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/known=%v", r.name, known), func(t *testing.T) {
				store := &faultyWrites{Store: memstore.New()}
				_, a := inMemory(t, func(c *apiserver.Config) { c.Store, c.Resources = store, effectful() })
				a.create(configPath, strings.Replace(configMap("web", `,"data":{"n":"1"}`), `"name"`, `"finalizers":["example.com/zero"],"name"`, 1))
				a.create(configPath, strings.Replace(configMap("going", ""), `"name"`, `"finalizers":["example.com/zero"],"name"`, 1))
				a.want(a.do("DELETE", configPath+"/going", ""), http.StatusOK, "")
				a.create(podPath, pod("web", ""))
				a.create(deployPath, deployment("web", 1))
				if !known {
					_, a = inMemory(t, func(c *apiserver.Config) { c.Store, c.Resources = store, effectful() })
				}
				for _, path := range []string{configPath, podPath, deployPath} {
					if known { // read into the cache
						a.want(a.do("GET", path+"?resourceVersion=0", ""), http.StatusOK, "")
					}
				}
				store.arm(isObject)
				a.oneEffect(r.method, r.path, r.body, r.header, store)
			})
		}
	}
}

// oneEffect sends a request whose change store does not acknowledge.
func (a *api) oneEffect(method, path, body, header string, store *faultyWrites) {
	a.t.Helper()
	var headers []string
	if header != "" {
		headers = append(headers, header)
	}
	got := a.do(method, path, body, headers...)
	if after := got.header.Get("Retry-After"); got.code != http.StatusInternalServerError || after != "" {
		a.t.Errorf("%s %s = %d %s, Retry-After %q, want 500 without Retry-After", method, path, got.code, got.body, after)
	}
	changes := slices.DeleteFunc(store.tried(), func(c storage.Change) bool { return !isObject(c) })
	if len(changes) != 1 {
		a.t.Errorf("%s %s made %d changes, want 1", method, path, len(changes))
		for _, c := range changes {
			a.t.Logf("%s %s after revision %d", c.Op, c.Key, c.Previous)
		}
	}
}

// TestUnknownOutcomeKeepsClaims: what an object that may have been stored has taken stays taken, and what one
// that was certainly not stored has taken does not.
func TestUnknownOutcomeKeepsClaims(t *testing.T) {
	store := &faultyWrites{Store: memstore.New()}
	a := house(t, store)
	store.arm(isObject)
	a.want(a.do("POST", configPath, withSeat("a", "1")), http.StatusInternalServerError, "")
	store.arm(nil)
	a.want(a.do("POST", configPath, withSeat("b", "1")), http.StatusBadRequest, "taken")
	a.want(a.do("POST", configPath, withSeat("a", "2")), http.StatusConflict, "already exists")
	a.create(configPath, withSeat("b", "2"))
	a.want(a.do("DELETE", configPath+"/a", ""), http.StatusOK, "")
	a.create(configPath, withSeat("c", "1"))
}

// TestFailureAfterTheEffect: an error of what follows the change of an object, here the deletion of one whose
// initialization has failed, does not make the server change the object again.
func TestFailureAfterTheEffect(t *testing.T) {
	store := &faultyWrites{Store: memstore.New()}
	_, jane, robot := initializing(t, store)
	jane.begin(podPath, pod("p", ""))
	robot.want(robot.do("GET", podPath+"?resourceVersion=0", ""), http.StatusOK, "") // into the cache
	store.arm(func(c storage.Change) bool { return c.Op == storage.Delete })
	const fails = `[{"op":"add","path":"/metadata/initializers/result","value":{"status":"Failure","message":"no"}},
		{"op":"add","path":"/metadata/finalizers","value":["example.com/one"]}]`
	robot.want(robot.do("PATCH", podPath+"/p", fails, jsonPatch), http.StatusInternalServerError, "")
	if changes := store.tried(); len(changes) != 2 || changes[0].Op != storage.Update || changes[1].Op != storage.Delete {
		t.Errorf("%d changes, want an update and a deletion", len(changes))
	}
	robot.want(robot.do("GET", podPath+"/p"+include, ""), http.StatusNotFound, "")
}

// TestNoEffectWithoutATable: a request whose result cannot be shown as the client asks has no effect.
func TestNoEffectWithoutATable(t *testing.T) {
	const table = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"
	for _, r := range []struct {
		method, path, body, header string
		code                       int
	}{
		{"PATCH", deployPath + "/web/scale", `[{"op":"replace","path":"/spec/replicas","value":7}]`, jsonPatch, http.StatusNotAcceptable},
		{"PATCH", configPath + "/web?includeObject=Other", `{"data":{"a":"b"}}`, mergePatch, http.StatusBadRequest},
		{"PUT", configPath + "/web?includeObject=Other", configMap("web", `,"data":{"a":"b"}`), "", http.StatusBadRequest},
		{"POST", configPath + "?includeObject=Other", configMap("new", ""), "", http.StatusBadRequest},
		{"DELETE", configPath + "?includeObject=Other", "", "", http.StatusBadRequest},
		{"DELETE", podPath + "/web?includeObject=Other", "", "", http.StatusBadRequest},
	} {
		t.Run(r.method+" "+r.path, func(t *testing.T) {
			store := &faultyWrites{Store: memstore.New()}
			_, a := inMemory(t, func(c *apiserver.Config) { c.Store = store })
			a.create(configPath, configMap("web", ""))
			a.create(podPath, pod("web", ""))
			a.create(deployPath, deployment("web", 1))
			store.arm(nil)
			headers := []string{table}
			if r.header != "" {
				headers = append(headers, r.header)
			}
			if got := a.do(r.method, r.path, r.body, headers...); got.code != r.code || len(store.tried()) > 0 {
				t.Errorf("%s %s as a table = %d %s after %d changes, want %d and none", r.method, r.path, got.code, got.body, len(store.tried()), r.code)
			}
		})
	}
}
