package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
)

// waits lets every object of a resource wait for the named initializers.
type waits map[string][]string

func (w waits) Pending(_ context.Context, in *admission.Request) ([]string, error) {
	return w[in.Resource.Resource], nil
}

var twoInitializers = waits{"pods": {"one.example.com", "two.example.com"}, "configmaps": {"one.example.com"}, "namespaces": {"one.example.com"}}

// initializing is a server in memory over store, where those in the group
// "initializers" have every verb and all others have all but initialize.
func initializing(t *testing.T, store storage.Store) (*apiserver.Server, *api, *api) {
	t.Helper()
	s, jane := inMemory(t, func(c *apiserver.Config) {
		c.Store, c.Initializers = store, twoInitializers
		c.Authorizer = authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
			if a.Verb == "initialize" && !a.User.In("initializers") {
				return authz.NoOpinion, "", nil
			}
			return authz.Allow, "", nil
		})
	})
	robot := &api{t, &http.Client{Transport: s.Transport(&user.Info{Name: "robot", Groups: []string{"initializers"}})}, "http://memory"}
	return s, jane, robot
}

const include = "?includeUninitialized=true"

// begin creates an object and does not wait for its initializers.
func (a *api) begin(path, body string) answer {
	a.t.Helper()
	return a.want(a.do("POST", path+include, body), 201, "")
}

// pendingIn are the initializers that an object shows, "-" where it has no field.
func pendingIn(t testing.TB, body string) string {
	t.Helper()
	var obj struct {
		Metadata struct {
			Initializers *struct{ Pending []struct{ Name string } }
		}
	}
	if err := json.Unmarshal([]byte(body), &obj); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if obj.Metadata.Initializers == nil {
		return "-"
	}
	var names []string
	for _, one := range obj.Metadata.Initializers.Pending {
		names = append(names, strings.TrimSuffix(one.Name, ".example.com"))
	}
	return strings.Join(names, " ")
}

// next takes the first pending initializer off by a patch.
func next(names ...string) string {
	pending := make([]map[string]string, 0)
	for _, name := range names {
		pending = append(pending, map[string]string{"name": name + ".example.com"})
	}
	text, _ := json.Marshal(map[string]any{"metadata": map[string]any{"initializers": map[string]any{"pending": pending}}})
	return string(text)
}

func TestInitializersInTurn(t *testing.T) {
	store := memstore.New()
	_, jane, robot := initializing(t, store)
	made := jane.begin(podPath, pod("p", ""))
	if got := pendingIn(t, made.body); got != "one two" {
		t.Fatalf("pending %q", got)
	}
	at := podPath + "/p"
	for _, c := range []struct {
		as     *api
		patch  string
		code   int
		says   string
		remain string
	}{
		{jane, next("two"), 403, `pods "p" is forbidden: update to uninitialized resource denied: User "jane" cannot initialize resource "pods" in API group "" in the namespace "default"`, "one two"},
		{jane, `{"metadata":{"labels":{"a":"b"}}}`, 403, "update to uninitialized resource denied", "one two"},
		{robot, next("one"), 422, "only the first pending initializer may be removed", "one two"},
		{robot, next(), 422, "only the first pending initializer may be removed", "one two"},
		{robot, `{"metadata":{"initializers":null}}`, 422, "only the first pending initializer may be removed", "one two"},
		{robot, next("one", "two", "three"), 422, "only the first", "one two"},
		{robot, `{"metadata":{"initializers":{"result":{"status":"Success"}}}}`, 422, "status must be 'Failure'", "one two"},
		{robot, `{"metadata":{"initializers":{"result":{"status":"Failure","code":4000}}}}`, 422, "must be that of an HTTP error", "one two"},
		{robot, `{"metadata":{"initializers":7}}`, 400, "", "one two"},
		{robot, `{"metadata":{"labels":{"a":"b"}}}`, 200, "", "one two"},
		{robot, next("two"), 200, "", "two"},
		{robot, `{"metadata":{"initializers":null}}`, 200, "", "-"},
		{robot, next("one"), 422, "field is immutable once initialization has completed", "-"},
		{jane, `{"metadata":{"initializers":{"pending":[]}}}`, 200, "", "-"},
		{jane, `{"metadata":{"labels":{"a":"c"}}}`, 200, "", "-"},
	} {
		got := c.as.want(c.as.do("PATCH", at, c.patch, mergePatch), c.code, c.says)
		if c.code == 200 && pendingIn(t, got.body) != c.remain {
			t.Errorf("%s: answered with %s", c.patch, got.body)
		}
		if left := pendingIn(t, robot.want(robot.do("GET", at+include, ""), 200, "").body); left != c.remain {
			t.Fatalf("after %s %q is pending, not %q", c.patch, left, c.remain)
		}
	}
	if text := jane.do("GET", at, "").body; strings.Contains(text, "initializers") {
		t.Errorf("left over: %s", text)
	}
}

// TestInitializeByEveryPatch takes initializers off in every way there is.
func TestInitializeByEveryPatch(t *testing.T) {
	for _, c := range []struct{ name, method, first, last, media string }{
		{"merge", "PATCH", next("two"), next(), mergePatch},
		{"JSON", "PATCH", `[{"op":"test","path":"/metadata/initializers/pending/0/name","value":"one.example.com"},{"op":"remove","path":"/metadata/initializers/pending/0"}]`,
			`[{"op":"remove","path":"/metadata/initializers"}]`, jsonPatch},
		{"strategic", "PATCH", `{"metadata":{"initializers":{"pending":[{"$patch":"delete","name":"one.example.com"}]}}}`,
			`{"metadata":{"initializers":null}}`, strategicPatch},
		{"strategic replace", "PATCH", `{"metadata":{"initializers":{"pending":[{"name":"two.example.com"},{"$patch":"replace"}]}}}`,
			`{"metadata":{"initializers":{"pending":[{"$patch":"replace"}]}}}`, strategicPatch},
		{"update", "PUT", pod("p", `,"initializers":{"pending":[{"name":"two.example.com"}]}`), pod("p", `,"initializers":{"pending":[]}`), "Content-Type: application/json"},
		{"YAML", "PUT", "{apiVersion: v1, kind: Pod, metadata: {name: p, initializers: {pending: [{name: two.example.com}]}}, spec: {containers: [{name: c, image: nginx}]}}",
			"{apiVersion: v1, kind: Pod, metadata: {name: p, initializers: null}, spec: {containers: [{name: c, image: nginx}]}}", "Content-Type: application/yaml"},
		{"apply", "PATCH", pod("p", `,"initializers":{"pending":[{"name":"two.example.com"}]}`), pod("p", `,"initializers":{}`), "Content-Type: application/apply-patch+yaml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, jane, robot := initializing(t, memstore.New())
			jane.begin(podPath, pod("p", ""))
			at := podPath + "/p?fieldValidation=Strict"
			if strings.Contains(c.media, "apply") {
				at += "&fieldManager=x&force=true"
			}
			if got := pendingIn(t, robot.want(robot.do(c.method, at, c.first, c.media), 200, "").body); got != "two" {
				t.Errorf("first left %q", got)
			}
			jane.want(jane.do("GET", podPath+"/p", ""), 404, `pods "p" not found`)
			if got := pendingIn(t, robot.want(robot.do(c.method, at, c.last, c.media), 200, "").body); got != "-" {
				t.Errorf("last left %q", got)
			}
			jane.want(jane.do("GET", podPath+"/p", ""), 200, "")
		})
	}
}

// TestDroppedFieldIsNoInitialization sends back what a client without the field
// has made of an object.
func TestDroppedFieldIsNoInitialization(t *testing.T) {
	_, jane, robot := initializing(t, memstore.New())
	jane.begin(podPath, pod("p", ""))
	got := robot.do("GET", podPath+"/p"+include, "")
	typed := into[corev1.Pod](t, got)
	typed.Spec.Containers = append(typed.Spec.Containers, corev1.Container{Name: "sidecar", Image: "proxy"})
	text, err := json.Marshal(typed)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "initializers") {
		t.Fatal("the type has the field")
	}
	after := robot.want(robot.do("PUT", podPath+"/p", string(text)), 200, "")
	if pendingIn(t, after.body) != "one two" || len(into[corev1.Pod](t, after).Spec.Containers) != 2 {
		t.Errorf("it became %s", after.body)
	}
	robot.want(robot.do("PUT", podPath+"/p", string(text)), 409, "the object has been modified")
}

// TestChosenInitializers lets creators choose, who may.
func TestChosenInitializers(t *testing.T) {
	_, jane, robot := initializing(t, memstore.New())
	own := func(text string) string { return pod("p", `,"initializers":`+text) }
	jane.want(jane.do("POST", podPath, own(`{"pending":[]}`)), 403, `create with initializers denied: User "jane" cannot initialize`)
	robot.want(robot.do("POST", podPath, own(`{"pending":[{"name":"a b"}]}`)), 422, "metadata.initializers.pending[0].name")
	robot.want(robot.do("POST", podPath, own(`{"pending":[{"name":"a.b.c"},{"name":"a.b.c"}]}`)), 422, "Duplicate value")
	robot.want(robot.do("POST", podPath, own(`{"pending":[],"result":{"status":"Failure"}}`)), 422, "may only be set by an initializer")
	made := robot.want(robot.do("POST", podPath+"?fieldValidation=Strict", own(`{"pending":[]}`)), 201, "")
	if pendingIn(t, made.body) != "-" || len(made.header["Warning"]) != 0 {
		t.Errorf("bypassed: %s %v", made.body, made.header)
	}
	robot.want(robot.do("DELETE", podPath+"/p?gracePeriodSeconds=0", ""), 200, "")
	if got := robot.begin(podPath, own(`{"pending":[{"name":"mine.example.com"}]}`)); pendingIn(t, got.body) != "mine" {
		t.Errorf("chosen: %s", got.body)
	}
	// Without the feature it is an unknown field like any other.
	_, plain := inMemory(t)
	plain.want(plain.do("POST", podPath+"?fieldValidation=Strict", own(`{"pending":[]}`)), 400, `unknown field "metadata.initializers"`)
}

// TestCreateWaits creates in the background and initializes step by step.
func TestCreateWaits(t *testing.T) {
	for _, c := range []struct {
		name, last string
		code       int
		says       string
	}{
		{"initialized", next(), 201, ""},
		{"refused", `{"metadata":{"initializers":{"result":{"status":"Failure","message":"too short","reason":"Forbidden","code":403}}}}`, 403, "too short"},
		{"deleted", "", 500, "object deleted while waiting for creation"},
		{"forgotten", "-", 504, "server has timed out waiting for the initialization of pods p"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, jane, robot := initializing(t, memstore.New())
				began, done := time.Now(), make(chan answer, 1)
				events := robot.watch(podPath + include + "&watch=true")
				ordinary := jane.watch(podPath + "?watch=true")
				go func() { done <- jane.do("POST", podPath, pod("p", `,"finalizers":["example.com/stay"]`)) }()
				events.want("ADDED/p")
				time.Sleep(time.Second)
				robot.want(robot.do("PATCH", podPath+"/p", next("two"), mergePatch), 200, "")
				events.want("MODIFIED/p")
				time.Sleep(time.Second)
				want := 2 * time.Second
				switch c.last {
				case "":
					jane.want(jane.do("DELETE", podPath+"/p", ""), 200, "")
				case "-":
					want = 30 * time.Second
				default:
					robot.want(robot.do("PATCH", podPath+"/p", c.last, mergePatch), 200, "")
				}
				got := jane.want(<-done, c.code, c.says)
				if waited := time.Since(began); waited != want {
					t.Errorf("waited %v, not %v", waited, want)
				}
				switch c.name {
				case "initialized":
					ordinary.want("ADDED/p")
					if pendingIn(t, got.body) != "-" {
						t.Errorf("shown: %s", got.body)
					}
				case "forgotten":
					robot.want(robot.do("GET", podPath+"/p"+include, ""), 200, "")
				default:
					robot.want(robot.do("GET", podPath+"/p"+include, ""), 404, "")
				}
				ordinary.close()
				events.close()
			})
		})
	}
}

// TestWaitingCreatesLeaveRoom has more creates wait than there are places: their
// initializer still gets one.
func TestWaitingCreatesLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, jane := inMemory(t, func(c *apiserver.Config) { c.Initializers, c.FlowControl = twoInitializers, oneSeat(t, 5) })
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() { jane.create(configPath, configMap(fmt.Sprint("c", i), "")) })
		}
		synctest.Wait()
		for i := range 5 {
			jane.want(jane.do("PATCH", fmt.Sprint(configPath, "/c", i), next(), mergePatch), 200, "")
		}
		all.Wait()
	})
}

// TestDryRunDoesNotWait: nor does anything stay.
func TestDryRunDoesNotWait(t *testing.T) {
	_, jane, robot := initializing(t, memstore.New())
	if got := jane.want(jane.do("POST", podPath+"?dryRun=All", pod("p", "")), 201, ""); pendingIn(t, got.body) != "one two" {
		t.Errorf("shown: %s", got.body)
	}
	jane.begin(podPath, pod("p", ""))
	robot.want(robot.do("PATCH", podPath+"/p?dryRun=All", next("two"), mergePatch), 200, "")
	robot.want(robot.do("PATCH", podPath+"/p?dryRun=All", `{"metadata":{"initializers":{"result":{"status":"Failure"}}}}`, mergePatch), 200, "")
	if got := robot.do("GET", podPath+"/p"+include, ""); pendingIn(t, got.body) != "one two" {
		t.Errorf("dry runs made it %s", got.body)
	}
}

// TestInitializersSurvive goes on with another server over the same store.
func TestInitializersSurvive(t *testing.T) {
	store := memstore.New()
	_, jane, robot := initializing(t, store)
	jane.begin(podPath, pod("p", ""))
	robot.want(robot.do("PATCH", podPath+"/p", next("two"), mergePatch), 200, "")
	_, jane, robot = initializing(t, store)
	jane.want(jane.do("GET", podPath+"/p", ""), 404, "")
	if got := robot.do("GET", podPath+"/p"+include, ""); pendingIn(t, got.body) != "two" {
		t.Errorf("it has %s", got.body)
	}
	robot.want(robot.do("PATCH", podPath+"/p", next(), mergePatch), 200, "")
	jane.want(jane.do("GET", podPath+"/p", ""), 200, "")
}

// TestFailedBefore: the server that stored the failure could not delete the object.
func TestFailedBefore(t *testing.T) {
	store := &halting{Store: memstore.New()}
	_, jane, robot := initializing(t, store)
	jane.begin(podPath, pod("p", ""))
	store.halted = true
	const fails = `{"metadata":{"initializers":{"result":{"status":"Failure","message":"no"}}}}`
	robot.want(robot.do("PATCH", podPath+"/p", fails, mergePatch), 500, "")
	store.halted = false
	robot.want(robot.do("PATCH", podPath+"/p", `{"metadata":{"initializers":{"result":null}}}`, mergePatch), 422, "field is immutable")
	robot.want(robot.do("PATCH", podPath+"/p", fails, mergePatch), 200, "")
	robot.want(robot.do("GET", podPath+"/p"+include, ""), 404, "")
}

// halting refuses to delete while it is halted.
type halting struct {
	storage.Store
	halted bool
}

func (h *halting) Commit(ctx context.Context, change storage.Change) (storage.Record, error) {
	if h.halted && change.Op == storage.Delete {
		return storage.Record{}, fmt.Errorf("halted")
	}
	return h.Store.Commit(ctx, change)
}

// TestUninitializedGoAtOnce: neither finalizers nor the deletion of a namespace keep
// a hidden object, and a collection is deleted with its hidden objects.
func TestUninitializedGoAtOnce(t *testing.T) {
	_, jane, robot := initializing(t, memstore.New())
	jane.begin("/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`)
	jane.want(jane.do("DELETE", "/api/v1/namespaces/n", ""), 200, "")
	robot.want(robot.do("GET", "/api/v1/namespaces/n"+include, ""), 404, "")
	jane.begin(configPath, configMap("c", ""))
	jane.want(jane.do("DELETE", configPath, ""), 200, "")
	robot.want(robot.do("GET", configPath+"/c"+include, ""), 404, "")
}
