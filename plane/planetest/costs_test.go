package planetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/internal/used"
	"github.com/planekit/planekit/plane/planetest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var (
	costs     = flag.Bool("costs", false, "search all kinds for bodies that cost too much")
	costsOnly = flag.String("costs-only", "", "only search requests whose description contains this")
	costPairs = flag.Int("costs-pairs", 150, "how many pairs and triples of lists of a kind are searched")
	costSeed  = flag.Uint64("costs-seed", 1, "seed of the choice of pairs")
)

// The sizes of the bodies of the search, in bytes: the limit is 3 MiB.
var costSizes = []int{100 << 10, 700 << 10, 2800 << 10}

// What a request may cost, as SECURITY.md promises. A small body may allocate what it keeps several times.
const (
	mostTime   = time.Second * used.Slowdown
	mostMemory = 20
	smallBody  = 48 << 20
)

// bench sends the requests of the search to a whole control plane as the administrator of a cluster or
// of one namespace, by RBAC.
type bench struct {
	t         *testing.T
	plane     *planetest.Plane
	root, ann *client.Client
	// served are the subresources by the path of their group and version.
	served map[string][]metav1.APIResource
}

// examples returns the example of each kind, with which the tests of its validation begin.
func examples(t *testing.T) map[string]map[string]any {
	files, err := filepath.Glob("../../apiserver/kube/*/testdata/validation/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob() = %v, %v, want the examples of all kinds", files, err)
	}
	all := map[string]map[string]any{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(data), "\n#")
		var object map[string]any
		if err := yaml.Unmarshal([]byte(first), &object); err != nil {
			t.Fatalf("Unmarshal() of the first document of %s: %v", file, err)
		}
		group := filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(file))))
		all[group+"/"+strings.TrimSuffix(filepath.Base(file), ".yaml")] = object
	}
	return all
}

// send sends one request and returns how much processor time and memory it took. The controllers and
// the client in the process count too.
func (b *bench) send(who *client.Client, method, path string, query url.Values, media, body string) (took time.Duration, allocated int, code int) {
	ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
	defer cancel()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := used.Processor()
	_, err := who.Do(ctx, client.Request{Method: method, Path: path, Query: query, Body: []byte(body), ContentType: media})
	took = used.Processor() - began
	runtime.ReadMemStats(&after)
	var status apierrors.APIStatus
	switch {
	case err == nil:
		code = http.StatusOK
	case errors.As(err, &status):
		code = int(status.Status().Code)
	}
	return took, int(after.TotalAlloc - before.TotalAlloc), code
}

// A costly request is one whose body can be made in any size.
type costly struct {
	name         string
	who          *client.Client
	method, path string
	query        url.Values
	media        string
	body         func(size int) string
}

// measure sends c with bodies that grow, and fails where one costs too much.
func (b *bench) measure(c costly, sizes ...int) {
	if !strings.Contains(c.name, *costsOnly) {
		return
	}
	var line strings.Builder
	var longest time.Duration
	shorter, dearest := 0, 0.0
	for _, size := range sizes {
		body := c.body(size)
		if len(body) > 3<<20 || len(body) <= shorter {
			break
		}
		took, allocated, code := b.send(c.who, c.method, c.path, c.query, c.media, body)
		// A body that is n times as long takes no more than about n times as long.
		grows := func() bool {
			return dearest > 0 && took > 200*time.Millisecond && float64(took) > 2*dearest*float64(len(body))
		}
		for range 3 { // again, since the machine does other things too
			if took <= mostTime/2 && !grows() {
				break
			}
			again, _, _ := b.send(c.who, c.method, c.path, c.query, c.media, body)
			took = min(took, again)
		}
		fmt.Fprintf(&line, " %dkB:%dms,%dMB,%d", len(body)>>10, took.Milliseconds(), allocated>>20, code)
		each := float64(took) / float64(len(body))
		if grows() {
			b.t.Errorf("%s: a byte of a body of %d bytes takes %.0f ns, and at most %.0f ns of a shorter one, want time that grows with the size", c.name, len(body), each, dearest)
		}
		longest, shorter = max(longest, took), len(body)
		if took > 5*time.Millisecond { // less is more noise than work
			dearest = max(dearest, each)
		}
		if took > mostTime {
			b.t.Errorf("%s: a body of %d bytes takes %v of processor time and is answered %d, want at most %v", c.name, len(body), took, code, mostTime)
			break
		}
		if code == 0 || code >= 500 {
			b.t.Errorf("%s: a body of %d bytes is answered %d", c.name, len(body), code)
		}
		// What is allocated is known from the request that was sent, and what is in use only from another one.
		if most := mostMemory*len(body) + smallBody; used.Slowdown == 1 && allocated > most { // the race detector needs memory of its own
			peak := used.Peak(func() { b.send(c.who, c.method, c.path, c.query, c.media, body) })
			if peak > most || allocated > 5*most {
				b.t.Errorf("%s: a body of %d bytes takes %d MB, allocates %d MB and is answered %d, want at most %d MB", c.name, len(body), peak>>20, allocated>>20, code, most>>20)
				break
			}
		}
	}
	if longest > 200*time.Millisecond || testing.Verbose() && *costsOnly != "" {
		b.t.Logf("%s:%s", c.name, line.String())
	}
}

// TestCosts searches each kind that is built in for lists whose lengths are multiplied: each list and
// map alone, pairs, triples, lists in lists and all together, with four kinds of items, created, applied,
// patched in four ways and put in place of stored ones, for the object and its subresources. Without -costs
// it tries few of them.
func TestCosts(t *testing.T) {
	b := newBench(t)
	all := examples(t)
	for _, r := range kube.Resources() {
		base := all[groupFolder(r.Group)+"/"+r.Plural]
		t.Run(r.Plural+"."+r.Group, func(t *testing.T) {
			b := *b
			b.t = t
			k := newCostKind(&b, r, base)
			if *costs {
				k.search()
				return
			}
			k.few()
		})
	}
}

// TestManyCostlyClients: while 50 clients send a role of 6 kB that has 27 million parts, roles with 40,000 errors, and custom
// objects whose items multiply with a default and with an enum, the server stays up, other users are served, and memory is bounded.
func TestManyCostlyClients(t *testing.T) {
	b := newBench(t, planetest.CustomResources())
	requests := slices.Concat(costlyRoles(), b.costlyObjects())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var clients sync.WaitGroup
	var answered atomic.Int64
	for i := range 50 {
		r := requests[i%len(requests)]
		clients.Go(func() {
			_, err := b.ann.Do(ctx, r)
			var status apierrors.APIStatus
			if !errors.As(err, &status) || status.Status().Code >= 500 {
				t.Errorf("POST %s %.40s... = %.300v, want a refusal", r.Path, r.Body, err)
			}
			answered.Add(1)
		})
	}
	var peak uint64
	var slowest time.Duration
	for answered.Load() < 50 && ctx.Err() == nil {
		began := time.Now()
		if _, err := b.root.Do(ctx, client.Request{Path: "/api/v1/namespaces/default"}); err != nil {
			t.Errorf("GET of another user = %v, want nil", err)
		}
		slowest = max(slowest, time.Since(began))
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		peak = max(peak, now.HeapAlloc)
	}
	clients.Wait()
	t.Logf("the slowest request of another user takes %v, and the heap grows to %d MB", slowest, peak>>20)
	if peak > 1<<30 {
		t.Errorf("the heap grows to %d MB, want at most 1024 MB", peak>>20)
	}
	if slowest > 5*time.Second {
		t.Errorf("a request of another user takes %v, want less than 5s", slowest)
	}
}

// costlyRoles are requests for a role whose lists multiply and for one with many errors.
func costlyRoles() []client.Request {
	words := func(prefix string) []string {
		var all []string
		for i := range 300 {
			all = append(all, fmt.Sprint(prefix, i))
		}
		return all
	}
	role := func(rules ...any) client.Request {
		return client.Request{
			Method: "POST", Path: "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/roles", Query: url.Values{"dryRun": {"All"}},
			Body: []byte(toJSON(map[string]any{"metadata": map[string]any{"name": "wide"}, "rules": rules})),
		}
	}
	return []client.Request{
		role(map[string]any{"apiGroups": words("g"), "resources": words("r"), "verbs": words("v")}),
		role(slices.Repeat([]any{map[string]any{}}, 20_000)...),
	}
}

// costlyObjects installs two definitions and returns requests for objects of them whose items multiply with their schema.
func (b *bench) costlyObjects() (all []client.Request) {
	var enum []string
	for i := range 3000 {
		enum = append(enum, fmt.Sprint("value-", i))
	}
	for name, kind := range map[string]struct {
		items map[string]any
		spec  []any
	}{
		"defaults": {
			map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "string", "default": strings.Repeat("x", 50_000)}}},
			slices.Repeat([]any{map[string]any{}}, 19_000),
		},
		"enums": {map[string]any{"type": "string", "enum": enum}, slices.Repeat([]any{"x"}, 3000)},
	} {
		schema := map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "array", "items": kind.items}}}
		b.must("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", map[string]any{
			"metadata": map[string]any{"name": name + ".example.com"},
			"spec": map[string]any{
				"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": name, "kind": strings.ToUpper(name)},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": schema}}},
			},
		})
		all = append(all, client.Request{
			Method: "POST", Path: "/apis/example.com/v1/namespaces/shop/" + name, Query: url.Values{"dryRun": {"All"}},
			Body: []byte(toJSON(map[string]any{"apiVersion": "example.com/v1", "kind": strings.ToUpper(name), "metadata": map[string]any{"name": "x"}, "spec": kind.spec})),
		})
	}
	b.must("/apis/rbac.authorization.k8s.io/v1/clusterroles", map[string]any{
		"metadata": map[string]any{"name": "examples", "labels": map[string]any{"rbac.authorization.k8s.io/aggregate-to-admin": "true"}},
		"rules":    []any{map[string]any{"apiGroups": []string{"example.com"}, "resources": []string{"*"}, "verbs": []string{"*"}}},
	})
	for _, r := range all {
		planetest.Eventually(b.t, func() error {
			_, err := b.ann.Do(b.t.Context(), client.Request{Path: r.Path})
			return err
		})
	}
	return all
}

// create creates an object as the administrator.
func (b *bench) create(path string, object any) error {
	_, err := b.root.Do(b.t.Context(), client.Request{Method: "POST", Path: path, Body: []byte(toJSON(object))})
	return err
}

// must is create for an object that the test needs.
func (b *bench) must(path string, object any) {
	b.t.Helper()
	if err := b.create(path, object); err != nil {
		b.t.Fatalf("POST %s = %v, want nil", path, err)
	}
}

func groupFolder(group string) string {
	first, _, _ := strings.Cut(group, ".")
	switch first {
	case "":
		return "core"
	case "rbac":
		return "rbac"
	}
	return first
}

func newBench(t *testing.T, options ...planetest.Option) *bench {
	p := planetest.Start(t, append(options, planetest.WithoutNetwork())...)
	b := &bench{t: t, plane: p, root: p.As("root"), ann: p.As("ann")}
	for _, o := range [][2]string{
		{"/api/v1/namespaces", `{"metadata":{"name":"shop"}}`},
		{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"root"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"User","name":"root","apiGroup":"rbac.authorization.k8s.io"}]}`},
		{"/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings", `{"metadata":{"name":"ann"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"admin"},"subjects":[{"kind":"User","name":"ann","apiGroup":"rbac.authorization.k8s.io"}]}`},
	} {
		planetest.Eventually(t, func() error {
			_, err := p.Client().Do(t.Context(), client.Request{Method: "POST", Path: o[0], Body: []byte(o[1])})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
	}
	planetest.Eventually(t, func() error {
		_, err := b.root.Do(t.Context(), client.Request{Path: "/api/v1/nodes"})
		return err
	})
	b.discover()
	return b
}

// discover reads the subresources from the server.
func (b *bench) discover() {
	b.served = map[string][]metav1.APIResource{}
	for _, r := range kube.Resources() {
		path := rootOf(r)
		if b.served[path] != nil {
			continue
		}
		answer, err := b.root.Do(b.t.Context(), client.Request{Path: path})
		var list metav1.APIResourceList
		if err != nil || json.Unmarshal(answer.Body, &list) != nil || len(list.APIResources) == 0 {
			b.t.Fatalf("GET %s = %.300s, %v, want the resources of the version", path, answer.Body, err)
		}
		b.served[path] = list.APIResources
	}
}

// rootOf is the path of the group and version of a resource.
func rootOf(r apiserver.Resource) string {
	if r.Group == "" {
		return "/api/" + r.Version
	}
	return "/apis/" + r.Group + "/" + r.Version
}
