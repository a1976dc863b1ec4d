package abac_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/abac"
)

func Example() {
	policies, err := abac.Parse(strings.NewReader(`
# Bob reads the pods of his project.
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "bob", "namespace": "projects", "resource": "pods", "readonly": true}}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	may := abac.New(policies)
	bob := &user.Info{Name: "bob"}
	for _, verb := range []string{"list", "delete"} {
		decision, reason, _ := may.Authorize(context.Background(), authz.Attributes{User: bob, Verb: verb, Namespace: "projects", Resource: "pods"})
		fmt.Printf("%s: %v %q\n", verb, decision, reason)
	}
	// Output:
	// list: allow ""
	// delete: no opinion "No policy matched."
}

var (
	alice     = &user.Info{Name: "alice", Groups: []string{"dev", user.Authenticated}}
	anonymous = &user.Info{Name: user.Anonymous, Groups: []string{user.Unauthenticated}}
)

func TestDecisions(t *testing.T) {
	const head = `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":`
	pod := authz.Attributes{User: alice, Verb: "create", Namespace: "n", Resource: "pods"}
	read := authz.Attributes{User: alice, Verb: "watch", Namespace: "n", Resource: "pods"}
	node := authz.Attributes{User: alice, Verb: "get", Resource: "nodes"}
	deployment := authz.Attributes{User: alice, Verb: "update", Group: "apps", Namespace: "n", Resource: "deployments", Subresource: "scale"}
	path := authz.Attributes{User: alice, Verb: "get", Path: "/healthz/etcd"}
	stranger := authz.Attributes{User: anonymous, Verb: "get", Namespace: "n", Resource: "pods"}
	nobody := authz.Attributes{Verb: "get", Namespace: "n", Resource: "pods"}
	asked := map[string]authz.Attributes{
		"pod": pod, "read": read, "node": node, "deployment": deployment, "path": path, "stranger": stranger, "nobody": nobody,
	}
	for line, allowed := range map[string]string{
		head + `{"user":"alice","namespace":"n","resource":"pods"}}`:                                 "pod read",
		head + `{"user":"alice","namespace":"n","resource":"pods","readonly":true}}`:                 "read",
		head + `{"user":"bob","namespace":"*","resource":"*","apiGroup":"*","nonResourcePath":"*"}}`: "",
		head + `{"user":"alice","group":"dev","namespace":"n","resource":"pods"}}`:                   "pod read",
		head + `{"user":"alice","group":"ops","namespace":"n","resource":"pods"}}`:                   "",
		head + `{"user":"bob","group":"dev","namespace":"n","resource":"pods"}}`:                     "",
		head + `{"group":"dev","namespace":"*","resource":"*","apiGroup":"*"}}`:                      "pod read node deployment",
		head + `{"group":"dev","namespace":"*","resource":"*"}}`:                                     "pod read node",
		head + `{"group":"dev","resource":"*","apiGroup":"*"}}`:                                      "node",
		head + `{"group":"dev","namespace":"*","apiGroup":"*"}}`:                                     "",
		head + `{"namespace":"*","resource":"*","apiGroup":"*","nonResourcePath":"*"}}`:              "",
		head + `{}}`: "",
		head + `{"user":"*","namespace":"*","resource":"*","apiGroup":"*","nonResourcePath":"*"}}`: "pod read node deployment path",
		head + `{"user":"bob","group":"*","namespace":"n","resource":"pods"}}`:                     "pod read",
		head + `{"group":"system:authenticated","namespace":"n","resource":"pods"}}`:               "pod read",
		head + `{"group":"system:unauthenticated","namespace":"n","resource":"pods"}}`:             "stranger",
		head + `{"user":"alice","nonResourcePath":"/healthz/*"}}`:                                  "path",
		head + `{"user":"alice","nonResourcePath":"/healthz*"}}`:                                   "path",
		head + `{"user":"alice","nonResourcePath":"/healthz/etcd/*"}}`:                             "",
		head + `{"user":"alice","nonResourcePath":"/healthz"}}`:                                    "",
		head + `{"user":"alice","nonResourcePath":"/healthz/etcd","readonly":true}}`:               "path",
		`{}`:                                  "pod read node deployment path",
		`{"readonly":true}`:                   "read node path",
		`{"user":"alice"}`:                    "pod read node deployment path",
		`{"user":"*","group":"ops"}`:          "pod read node deployment path",
		`{"user":"alice","namespace":"n"}`:    "pod read deployment",
		`{"user":"alice","resource":"pods"}`:  "pod read",
		`{"group":"dev","namespace":"other"}`: "",
		`{"apiVersion":"abac.authorization.kubernetes.io/v0","kind":"Policy","user":"alice","resource":"nodes"}`: "node",
	} {
		policies, err := abac.Parse(strings.NewReader(line))
		if err != nil {
			t.Errorf("Parse(%q): %v", line, err)
			continue
		}
		may := abac.New(policies)
		for name, at := range asked {
			want, reason := authz.NoOpinion, "No policy matched."
			if strings.Contains(" "+allowed+" ", " "+name+" ") {
				want, reason = authz.Allow, ""
			}
			if got, said, err := may.Authorize(t.Context(), at); got != want || said != reason || err != nil {
				t.Errorf("%s: %s: %v %q %v, want %v", line, name, got, said, err, want)
			}
		}
	}
}

func TestRulesFor(t *testing.T) {
	may := abac.New([]abac.Policy{
		{User: "alice", Namespace: "n", Resource: "pods", ReadOnly: true},
		{Group: "dev", APIGroup: "apps", Namespace: "*", Resource: "*"},
		{User: "*", Path: "/version"},
		{User: "alice", Resource: "nodes"},
		{User: "alice", Group: "ops", Namespace: "n", Resource: "secrets"},
		{User: "bob", Namespace: "n", Resource: "secrets"},
		{Namespace: "n", Resource: "secrets"},
	})
	pods := authz.ResourceRule{Verbs: []string{"get", "list", "watch"}, Groups: []string{""}, Resources: []string{"pods"}}
	apps := authz.ResourceRule{Verbs: []string{"*"}, Groups: []string{"apps"}, Resources: []string{"*"}}
	nodes := authz.ResourceRule{Verbs: []string{"*"}, Groups: []string{""}, Resources: []string{"nodes"}}
	version := []authz.PathRule{{Verbs: []string{"*"}, Paths: []string{"/version"}}}
	for _, test := range []struct {
		user      *user.Info
		namespace string
		want      authz.Rules
	}{
		{alice, "n", authz.Rules{Resources: []authz.ResourceRule{pods, apps}, Paths: version}},
		{alice, "other", authz.Rules{Resources: []authz.ResourceRule{apps}, Paths: version}},
		{alice, "", authz.Rules{Resources: []authz.ResourceRule{apps, nodes}, Paths: version}},
		{anonymous, "n", authz.Rules{}},
		{nil, "n", authz.Rules{}},
	} {
		got, err := authz.RulesFor(t.Context(), may, test.user, test.namespace)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%+v in %q: %+v, %v", test.user, test.namespace, got, err)
		}
	}
}

// TestModel compares the index with reading all policies, one after the other.
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	allowed := 0
	for range 300 {
		policies := make([]abac.Policy, r.IntN(12))
		for i := range policies {
			policies[i] = abac.Policy{
				User: pick("", "", "a", "b", "*"), Group: pick("", "", "x", "y", user.Authenticated, "*"), ReadOnly: r.IntN(2) == 0,
				APIGroup: pick("", "apps", "*"), Namespace: pick("", "n", "m", "*"), Resource: pick("", "pods", "nodes", "*"),
				Path: pick("", "/", "/a", "/a/*", "/a*", "*", "**", "/a/b"),
			}
		}
		may := abac.New(policies)
		for range 300 {
			at := authz.Attributes{Verb: pick("get", "list", "watch", "create", "GET", ""), User: &user.Info{
				Name: pick("", "a", "b", "*"), Groups: []string{pick("", "x", "y"), pick("y", user.Authenticated, "*")},
			}}
			if r.IntN(3) == 0 {
				at.Path = pick("", "/", "/a", "/a/", "/a/b", "/ab", "*")
			} else {
				at.Group, at.Namespace, at.Resource = pick("", "apps", "*"), pick("", "n", "m", "*"), pick("pods", "nodes", "*")
			}
			got, _, _ := may.Authorize(t.Context(), at)
			if want := anyMatches(policies, at); (got == authz.Allow) != want {
				t.Fatalf("seed %d: %+v by %+v: %+v, want %v", seed, at, at.User, policies, want)
			}
			if got == authz.Allow {
				allowed++
			}
		}
	}
	if allowed < 1000 {
		t.Errorf("only %d requests were allowed: they say little", allowed)
	}
}

func anyMatches(policies []abac.Policy, at authz.Attributes) bool {
	fits := func(pattern, value string) bool { return pattern == "*" || pattern == value }
	for _, p := range policies {
		u, g := p.User, p.Group
		if u == "*" || g == "*" {
			u, g = "", user.Authenticated
		}
		switch {
		case u == "" && g == "", u != "" && u != at.User.Name, g != "" && !at.User.In(g):
			continue
		case p.ReadOnly && at.Verb != "get" && at.Verb != "list" && at.Verb != "watch":
			continue
		}
		if at.Resource != "" {
			if fits(p.APIGroup, at.Group) && fits(p.Namespace, at.Namespace) && fits(p.Resource, at.Resource) {
				return true
			}
			continue
		}
		beginning := strings.TrimRight(p.Path, "*")
		if p.Path == at.Path || (beginning != p.Path && strings.HasPrefix(at.Path, beginning)) {
			return true
		}
	}
	return false
}

func BenchmarkAuthorize(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		policies := make([]abac.Policy, n)
		for i := range policies {
			policies[i] = abac.Policy{User: fmt.Sprint("user-", i%100), Namespace: fmt.Sprint("ns-", i), Resource: "pods"}
		}
		may := abac.New(policies)
		at := authz.Attributes{
			User: &user.Info{Name: "user-5", Groups: []string{"dev", user.Authenticated}}, Verb: "create", Namespace: "ns-5", Resource: "pods",
		}
		b.Run(fmt.Sprint("policies=", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d, _, _ := may.Authorize(context.Background(), at); d != authz.Allow {
					b.Fatal(d)
				}
			}
		})
	}
}

// TestAllowAllocatesNothing: the decision is in an index.
func TestAllowAllocatesNothing(t *testing.T) {
	may := abac.New([]abac.Policy{{Group: "devs", Namespace: "*", Resource: "pods"}, {User: "jane", Path: "/logs/*", ReadOnly: true}})
	for name, at := range map[string]authz.Attributes{
		"group": {User: &user.Info{Name: "joe", Groups: []string{"devs", user.Authenticated}}, Verb: "create", Namespace: "x", Resource: "pods"},
		"path":  {User: &user.Info{Name: "jane"}, Verb: "get", Path: "/logs/a"},
	} {
		var got authz.Decision
		if n := testing.AllocsPerRun(100, func() { got, _, _ = may.Authorize(context.Background(), at) }); n != 0 || got != authz.Allow {
			t.Errorf("%s: %v with %v allocations", name, got, n)
		}
	}
}
