package abac

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/abac"
	stockuser "k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	stockabac "k8s.io/kubernetes/pkg/auth/authorizer/abac"
)

var (
	decisions = flag.Int("decisions", 1_000_000, "how many decisions to compare")
	seed      = flag.Uint64("seed", rand.Uint64(), "where chance begins")
)

const perFile = 2000

// TestSameDecisions prints only disagreements. It counts allowed requests, because agreement on
// denials alone would prove little.
func TestSameDecisions(t *testing.T) {
	t.Logf("seed %d", *seed)
	c := chance{rand.New(rand.NewPCG(*seed, 0))}
	asked, allowed, resources := 0, 0, 0
	for asked < *decisions {
		file := c.file()
		stock, ours := both(t, file)
		for range perFile {
			at := c.attributes()
			want, wantReason, wantErr := stock.Authorize(t.Context(), record(at))
			got, reason, err := ours.Authorize(t.Context(), at)
			if (got == authz.Allow) != (want == authorizer.DecisionAllow) || (got == authz.Deny) != (want == authorizer.DecisionDeny) ||
				reason != wantReason || err != nil || wantErr != nil {
				t.Fatalf("seed %d: %+v by %+v: %v %q %v, stock %v %q %v\n%s", *seed, at, at.User, got, reason, err, want, wantReason, wantErr, file)
			}
			asked++
			if got == authz.Allow {
				allowed++
				if at.Resource != "" {
					resources++
				}
			}
		}
		for _, namespace := range []string{"", "n", "m"} {
			sameRules(t, stock, ours, c.user(), namespace)
		}
	}
	t.Logf("%d decisions, %d allowed, of them %d for resources", asked, allowed, resources)
	if paths := allowed - resources; resources < asked/50 || paths < asked/50 || allowed > asked*3/4 {
		t.Errorf("of %d decisions %d paths and %d resources were allowed: the comparison says little", asked, paths, resources)
	}
}

// both loads the same file into the stock authorizer and ours.
func both(t testing.TB, file []byte) (stockabac.PolicyList, *abac.Authorizer) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policies")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	stock, err := stockabac.NewFromFile(path)
	if err != nil {
		t.Fatalf("stock: %v\n%s", err, file)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	policies, err := abac.Parse(bytes.NewReader(file))
	if err != nil {
		t.Fatalf("abac.Parse: %v\n%s", err, file)
	}
	if len(policies) != len(stock) {
		t.Fatalf("%d policies, stock %d\n%s", len(policies), len(stock), file)
	}
	return stock, abac.New(policies)
}

// sameRules compares the rules for resources. For paths, the stock authorizer omits policies for
// another namespace, although its decisions do not depend on the namespace: ours must have at least
// the stock rules.
func sameRules(t *testing.T, stock stockabac.PolicyList, ours *abac.Authorizer, u *user.Info, namespace string) {
	t.Helper()
	resources, paths, incomplete, err := stock.RulesFor(t.Context(), stockUser(u), namespace)
	if err != nil || incomplete {
		t.Fatal(incomplete, err)
	}
	got, err := ours.RulesFor(t.Context(), u, namespace)
	if err != nil || got.Incomplete || len(got.Resources) != len(resources) {
		t.Fatalf("seed %d: %+v, %v, stock has %d rules for resources", *seed, got, err, len(resources))
	}
	for i, want := range resources {
		rule := got.Resources[i]
		if !reflect.DeepEqual([][]string{rule.Verbs, rule.Groups, rule.Resources, rule.Names},
			[][]string{want.GetVerbs(), want.GetAPIGroups(), want.GetResources(), want.GetResourceNames()}) {
			t.Fatalf("seed %d: rule %d: %+v, stock %+v", *seed, i, rule, want)
		}
	}
	rest := got.Paths
	for _, want := range paths {
		for len(rest) > 0 && !(reflect.DeepEqual(rest[0].Verbs, want.GetVerbs()) && reflect.DeepEqual(rest[0].Paths, want.GetNonResourceURLs())) {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			t.Fatalf("seed %d: %+v lack stock's %+v", *seed, got.Paths, want)
		}
		rest = rest[1:]
	}
}

// TestSameLines tests selected lines. Ours must refuse all lines that the stock parser refuses, and
// additionally the marked ones.
func TestSameLines(t *testing.T) {
	const v1beta1 = `"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy"`
	for line, stricter := range map[string]bool{
		`{}`:                          false,
		`{"user":null}`:               false,
		`{"user":"*"}`:                false,
		`  {"user":"a"}` + "\t":       false,
		"{" + v1beta1 + "}":           false,
		"{" + v1beta1 + `,"spec":{}}`: false,
		`{"apiVersion":"abac.authorization.kubernetes.io/v0","kind":"Policy","user":"a"}`: false,
		`{"user":1}`:                          false,
		`{"user":"a"`:                         false,
		`["user"]`:                            false,
		`{"readonly":"yes"}`:                  false,
		`{"apiVersion":"v1","kind":"Pod"}`:    false,
		"{" + v1beta1 + `,"spec":{"user":1}}`: false,
		"{" + v1beta1 + `,"spec":7}`:          false,
		`{"kind":"Policy","user":"a"}`:        false,
		`{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","user":"a"}`: false,
		`{} {}`: false,
		`{"apiVersion":"abac.authorization.kubernetes.io/v2","kind":"Policy"}`: false,

		`user: a`:                        true, // YAML
		`{user: a}`:                      false,
		`{"usr":"a"}`:                    true, // allows everything to every user
		`{"spec":{"user":"a"}}`:          true, // the same
		`{"User":"a"}`:                   true, // the same
		`{"user":"a","user":"b"}`:        true,
		`{"user":"a","apiGroup":"apps"}`: true,
		"{" + v1beta1 + `,"spec":{"readOnly":true}}`: true,
		"{" + v1beta1 + `,"user":"a"}`:               true,
	} {
		path := filepath.Join(t.TempDir(), "policies")
		if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		_, stockErr := stockabac.NewFromFile(path)
		_, err := abac.Parse(strings.NewReader(line))
		if (err != nil) != (stockErr != nil) != stricter || (stricter && err == nil) {
			t.Errorf("%s: %v, stock: %v", line, err, stockErr)
		}
	}
}

// chance chooses from few words, so that requests match policies.
type chance struct{ *rand.Rand }

func (c chance) of(words ...string) string { return words[c.IntN(len(words))] }

func (c chance) user() *user.Info {
	u := &user.Info{Name: c.of("alice", "bob", "carol", user.Anonymous, "", "*")}
	for range c.IntN(4) {
		u.Groups = append(u.Groups, c.of("dev", "ops", user.Authenticated, user.Unauthenticated, "", "*"))
	}
	return u
}

func (c chance) attributes() authz.Attributes {
	at := authz.Attributes{User: c.user(), Verb: c.of("get", "list", "watch", "create", "update", "delete", "GET", "*", "")}
	if c.IntN(50) == 0 {
		at.User = nil
	}
	if c.IntN(3) == 0 {
		at.Path = c.of("", "/", "/a", "/a/", "/a/b", "/a/b/c", "/ab", "/healthz", "*", "/a*")
		return at
	}
	at.Group, at.Version = c.of("", "apps", "batch", "*"), "v1"
	at.Namespace = c.of("", "n", "m", "o", "*")
	at.Resource, at.Subresource, at.Name = c.of("pods", "nodes", "secrets", "*"), c.of("", "", "status"), c.of("", "x")
	return at
}

// file returns a policy file with lines of both versions, comments and blank lines.
func (c chance) file() []byte {
	var file bytes.Buffer
	for range 1 + c.IntN(12) {
		switch c.IntN(10) {
		case 0:
			file.WriteString(c.of("", "  ", "# comment", "  #{}", "\t\r"))
		case 1, 2:
			file.Write(c.line(map[string]any{}, "user", "group", "readonly", "namespace", "resource"))
		case 3:
			file.Write(c.line(map[string]any{"apiVersion": "abac.authorization.kubernetes.io/v0", "kind": "Policy"}, "user", "group", "readonly", "namespace", "resource"))
		default:
			spec := c.line(map[string]any{}, "user", "group", "readonly", "apiGroup", "namespace", "resource", "nonResourcePath")
			file.WriteString(`{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":` + string(spec) + "}")
		}
		file.WriteString("\n")
	}
	return file.Bytes()
}

// line returns a JSON object with some of the fields.
func (c chance) line(object map[string]any, fields ...string) []byte {
	for _, field := range fields {
		if c.IntN(3) == 0 {
			continue
		}
		object[field] = map[string]any{
			"user": c.of("alice", "bob", "carol", "", "*", user.Anonymous), "group": c.of("dev", "ops", "", "*", user.Authenticated, user.Unauthenticated),
			"readonly": c.IntN(2) == 0, "apiGroup": c.of("", "apps", "*"), "namespace": c.of("", "n", "m", "*"),
			"resource":        c.of("", "pods", "nodes", "*"),
			"nonResourcePath": c.of("", "/", "/a", "/a/*", "/a*", "/a/b", "*", "**", "/a/**", "/a*b"),
		}[field]
	}
	data, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return data
}

func stockUser(u *user.Info) stockuser.Info {
	if u == nil {
		return nil
	}
	return &stockuser.DefaultInfo{Name: u.Name, UID: u.UID, Groups: u.Groups}
}

func record(at authz.Attributes) authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: stockUser(at.User), Verb: at.Verb, APIGroup: at.Group, APIVersion: at.Version, Resource: at.Resource, Subresource: at.Subresource,
		Namespace: at.Namespace, Name: at.Name, Path: at.Path, ResourceRequest: at.Resource != "",
	}
}
