package flowcontrol

import (
	"strings"
	"testing"
)

func TestClassify(t *testing.T) {
	c := newClassifier(Default(600).Schemas)
	node := Request{User: "system:node:a", Groups: []string{"system:nodes", "system:authenticated"}}
	account := func(name string) Request {
		return Request{User: "system:serviceaccount:" + name, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	}
	user := Request{User: "jane", Groups: []string{"system:authenticated"}}
	on := func(r Request, verb, group, resource, namespace string) Request {
		r.Resource, r.Subresource, _ = strings.Cut(resource, "/")
		r.Verb, r.APIGroup, r.Namespace = verb, group, namespace
		return r
	}
	at := func(r Request, verb, path string) Request { r.Verb, r.Path = verb, path; return r }
	manager := Request{User: "system:kube-controller-manager", Groups: []string{"system:authenticated"}}
	for _, test := range []struct {
		request      Request
		schema, flow string
	}{
		{on(Request{User: "root", Groups: []string{"system:masters"}}, "delete", "", "nodes", ""), "exempt", ""},
		{at(user, "get", "/healthz"), "probes", ""},
		{at(user, "get", "/livez/ping"), "probes", ""},
		{at(user, "get", "/healthzz"), "global-default", "jane"},
		{at(user, "post", "/healthz"), "global-default", "jane"},
		{on(node, "update", "coordination.k8s.io", "leases", "kube-node-lease"), "system-node-high", "system:node:a"},
		{on(node, "patch", "", "nodes/status", ""), "system-node-high", "system:node:a"},
		{on(node, "patch", "", "nodes/proxy", ""), "system-nodes", "system:node:a"},
		{on(node, "list", "coordination.k8s.io", "leases", ""), "system-nodes", "system:node:a"},
		{on(node, "get", "", "pods", "default"), "system-nodes", "system:node:a"},
		{on(manager, "update", "coordination.k8s.io", "leases", "kube-system"), "system-leader-election", "system:kube-controller-manager"},
		{on(manager, "delete", "coordination.k8s.io", "leases", "kube-system"), "kube-controller-manager", "kube-system"},
		{on(manager, "list", "", "pods", ""), "kube-controller-manager", ""},
		{on(account("kube-system:dns"), "get", "coordination.k8s.io", "leases", "x"), "system-leader-election", "system:serviceaccount:kube-system:dns"},
		{on(account("kube-system:dns"), "list", "", "pods", "x"), "kube-system-service-accounts", "x"},
		{on(account("kube-systems:dns"), "list", "", "pods", "x"), "service-accounts", "system:serviceaccount:kube-systems:dns"},
		{on(user, "list", "", "pods", "x"), "global-default", "jane"},
		{on(Request{User: "system:anonymous", Groups: []string{"system:unauthenticated"}}, "list", "", "pods", "x"), "global-default", "system:anonymous"},
		{on(Request{User: "stray"}, "list", "", "pods", "x"), "catch-all", "stray"},
	} {
		schema := c.first(&test.request)
		if flow := schema.Flow(&test.request); schema.Name != test.schema || flow != test.flow {
			t.Errorf("%+v is of %s, flow %q; want %s, %q", test.request, schema.Name, flow, test.schema, test.flow)
		}
	}
}

func TestEqualPrecedenceIsOrderedByName(t *testing.T) {
	rules := []Rule{everything(Rule{Users: []string{All}})}
	c := newClassifier([]Schema{{Name: "b", Precedence: 7, Rules: rules}, {Name: "a", Precedence: 7, Rules: rules}, {Name: CatchAllName, Precedence: 10000}})
	if got := c.first(&Request{User: "x", Path: "/"}).Name; got != "a" {
		t.Errorf("schema %s, want a", got)
	}
}

// naiveMatch is a second reading of the rules, by joined strings.
func naiveMatch(rule Rule, r Request) bool {
	in := func(list []string, x string) bool {
		all := strings.Join(list, "\x00") == All
		return all || strings.Contains("\x00"+strings.Join(list, "\x00")+"\x00", "\x00"+x+"\x00")
	}
	subject := false
	for _, u := range rule.Users {
		subject = subject || u == "*" || u == r.User
	}
	for _, g := range rule.Groups {
		for _, own := range r.Groups {
			subject = subject || own == g
		}
		subject = subject || g == "*"
	}
	for _, a := range rule.ServiceAccounts {
		prefix := "system:serviceaccount:" + a.Namespace + ":"
		subject = subject || r.User == prefix+a.Name || a.Name == "*" && strings.HasPrefix(r.User, prefix)
	}
	if r.Resource == "" {
		for _, p := range rule.Paths {
			for _, path := range p.Paths {
				prefix := strings.TrimSuffix(path, "*")
				if !strings.HasSuffix(prefix, "/") {
					prefix += "/"
				}
				if subject && in(p.Verbs, r.Verb) && (path == "*" || path == r.Path || strings.HasPrefix(r.Path, prefix)) {
					return true
				}
			}
		}
		return false
	}
	resource := r.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	for _, rr := range rule.Resources {
		scope := r.Namespace == "" && rr.ClusterScope || r.Namespace != "" && in(rr.Namespaces, r.Namespace)
		if subject && scope && in(rr.Verbs, r.Verb) && in(rr.APIGroups, r.APIGroup) && in(rr.Resources, resource) {
			return true
		}
	}
	return false
}

func FuzzClassify(f *testing.F) {
	f.Add("jane", "g", "get", "", "pods", "status", "default", "/api", "jane", "g", "a", "pods/status", "/api/*", true)
	f.Add("system:serviceaccount:ns:a", "", "list", "apps", "", "", "", "/healthz/x", "b", "*", "*", "*", "/healthz", false)
	f.Fuzz(func(t *testing.T, user, group, verb, apiGroup, resource, sub, namespace, path, ruleUser, ruleGroup, account, ruleResource, rulePath string, cluster bool) {
		for _, s := range []string{user, group, verb, apiGroup, resource, sub, namespace, path, ruleResource} {
			if strings.Contains(s, "\x00") {
				return // the second reading separates by NUL
			}
		}
		r := Request{User: user, Groups: []string{group}, Verb: verb, APIGroup: apiGroup, Resource: resource, Subresource: sub, Namespace: namespace, Path: path}
		rule := Rule{
			Users: []string{ruleUser}, Groups: []string{ruleGroup}, ServiceAccounts: []ServiceAccount{{"ns", account}},
			Resources: []ResourceRule{{Verbs: []string{"get", verb}, APIGroups: []string{All}, Resources: []string{ruleResource, "pods"}, Namespaces: []string{"default"}, ClusterScope: cluster},
				{Verbs: []string{All}, APIGroups: []string{""}, Resources: []string{ruleResource}, Namespaces: []string{All}}},
			Paths: []PathRule{{Verbs: []string{"get"}, Paths: []string{rulePath, "/readyz"}}},
		}
		schemas := []Schema{{Name: "s", Precedence: 2, Rules: []Rule{rule}}, {Name: CatchAllName, Precedence: 10000}}
		want := CatchAllName
		if naiveMatch(rule, r) {
			want = "s"
		}
		if got := newClassifier(schemas).first(&r).Name; got != want {
			t.Errorf("schema %s, want %s", got, want)
		}
	})
}

// first returns the schema of r.
func (c *classifier) first(r *Request) *Schema { return c.schemas[c.classify(r)] }
