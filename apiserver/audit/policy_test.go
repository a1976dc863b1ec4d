package audit

import (
	"strings"
	"testing"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
)

func policy(t *testing.T, rules string) *Policy {
	t.Helper()
	p, err := ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n" + rules))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFirstRuleThatFitsDecides(t *testing.T) {
	joe := &user.Info{Name: "joe", Groups: []string{"dev"}}
	of := func(verb, group, resource, sub, namespace, name string) authz.Attributes {
		return authz.Attributes{User: joe, Verb: verb, Group: group, Resource: resource, Subresource: sub, Namespace: namespace, Name: name}
	}
	path := func(p string) authz.Attributes { return authz.Attributes{User: joe, Verb: "get", Path: p} }
	for _, c := range []struct {
		rule string
		a    authz.Attributes
		fits bool
	}{
		{"{}", of("get", "", "pods", "", "a", "x"), true},
		{"{users: [joe]}", path("/x"), true},
		{"{users: [jane]}", path("/x"), false},
		{"{users: [joe]}", authz.Attributes{Verb: "get"}, false}, // no user is known
		{"{userGroups: [ops, dev]}", path("/x"), true},
		{"{userGroups: [ops]}", path("/x"), false},
		{"{userGroups: [ops]}", authz.Attributes{Verb: "get"}, false},
		{"{verbs: [list]}", of("get", "", "pods", "", "", ""), false},
		{"{namespaces: [a]}", of("get", "", "pods", "", "a", ""), true},
		{"{namespaces: [a]}", of("get", "", "pods", "", "b", ""), false},
		{"{namespaces: ['']}", of("get", "", "nodes", "", "", "n"), true},
		{"{namespaces: ['']}", path("/x"), false},
		{"{resources: [{group: ''}]}", of("get", "", "pods", "log", "a", ""), true},
		{"{resources: [{group: apps}]}", of("get", "", "pods", "", "a", ""), false},
		{"{resources: [{resources: [pods]}]}", of("get", "", "pods", "", "a", ""), true},
		{"{resources: [{resources: [pods]}]}", of("get", "", "pods", "log", "a", ""), false},
		{"{resources: [{resources: [pods/log]}]}", of("get", "", "pods", "log", "a", ""), true},
		{"{resources: [{resources: ['pods/*']}]}", of("get", "", "pods", "log", "a", ""), true},
		{"{resources: [{resources: ['pods/*']}]}", of("get", "", "pods", "", "a", ""), true},
		{"{resources: [{resources: ['*/scale']}]}", of("get", "apps", "deployments", "scale", "a", ""), false},
		{"{resources: [{group: apps, resources: ['*/scale']}]}", of("get", "apps", "deployments", "scale", "a", ""), true},
		{"{resources: [{resources: ['*']}]}", of("get", "", "pods", "log", "a", ""), true},
		{"{resources: [{resources: [pods], resourceNames: [x]}]}", of("get", "", "pods", "", "a", "x"), true},
		{"{resources: [{resources: [pods], resourceNames: [x]}]}", of("get", "", "pods", "", "a", "y"), false},
		{"{nonResourceURLs: ['/healthz*']}", path("/healthz/ping"), true},
		{"{nonResourceURLs: ['/version']}", path("/version/x"), false},
		{"{nonResourceURLs: ['*']}", path("/anything"), true},
		{"{nonResourceURLs: ['*']}", of("get", "", "pods", "", "a", ""), false},
	} {
		rule := "- " + strings.Replace(strings.Replace(c.rule, "{}", "{level: Metadata}", 1), "{", "{level: Metadata, ", 1)
		rule = strings.Replace(rule, "{level: Metadata, level: Metadata}", "{level: Metadata}", 1)
		if got := policy(t, rule).judge(c.a).level == Metadata; got != c.fits {
			t.Errorf("%s fits %+v: %v", c.rule, c.a, got)
		}
	}
	p := policy(t, "- {level: None, users: [joe]}\n- {level: Request}\n")
	if got := p.judge(path("/x")).level; got != None {
		t.Errorf("second rule: %s", got)
	}
	if got := p.judge(authz.Attributes{User: &user.Info{Name: "jane"}}).level; got != Request {
		t.Errorf("jane: %s", got)
	}
}

func TestPoliciesThatAreRefused(t *testing.T) {
	const head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"
	for text, want := range map[string]string{
		"":                                  "not Policy",
		"apiVersion: v1\nkind: Policy\n":    "not Policy",
		head:                                "no rules",
		head + "rules: [{level: Some}]":     "level \"Some\"",
		head + "rules: [{levle: Metadata}]": "levle",
		head + "rules: [{level: None, omitStages: [Later]}]":                      "no stage",
		head + "omitStages: [x]\nrules: [{level: None}]":                          "no stage",
		head + "rules: [{level: None, nonResourceURLs: [x]}]":                     "must begin with /",
		head + "rules: [{level: None, nonResourceURLs: ['/a*b']}]":                "at the end only",
		head + "rules: [{level: None, nonResourceURLs: ['/a'], namespaces: [b]}]": "not both",
		head + "rules: [{level: None, resources: [{group: a/b}]}]":                "no group",
		head + "rules: [{level: None, resources: [{resourceNames: [a]}]}]":        "need resources",
		head + "rules: [{level: None}]\nrules: [{level: None}]":                   "already",
	} {
		if _, err := ParsePolicy([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzParsePolicy(f *testing.F) {
	f.Add("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, resources: [{resources: ['pods/*']}]}]", "pods", "/x")
	f.Fuzz(func(t *testing.T, text, resource, path string) {
		p, err := ParsePolicy([]byte(text))
		if err != nil {
			return
		}
		if err := p.check(); err != nil {
			t.Fatalf("accepted, then refused: %v", err)
		}
		p.judge(authz.Attributes{Resource: resource, Path: path})
	})
}
