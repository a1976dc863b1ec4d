package impersonation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
)

// question formats a check: the verb, the resource with its group, and the name with its namespace.
func question(a authz.Attributes) string {
	text := a.Verb + " " + a.Group + "/" + a.Resource
	if a.Subresource != "" {
		text += "/" + a.Subresource
	}
	if a.Namespace != "" {
		a.Name = a.Namespace + "/" + a.Name
	}
	return text + " " + a.Name
}

// decide runs Decide for a list of pods. Checks that begin with one of the rights are allowed; asked has all checks.
func decide(p *User, requestor *user.Info, rights ...string) (as *user.Info, constraint string, asked []string, err error) {
	request := authz.Attributes{User: requestor, Verb: "list", Version: "v1", Resource: "pods", Namespace: "team"}
	as, constraint, err = p.Decide(request, Checks{
		Allowed: func(a authz.Attributes) error {
			q := question(a)
			asked = append(asked, q)
			if slices.ContainsFunc(rights, func(r string) bool { return strings.HasPrefix(q, r) }) {
				return nil
			}
			return errors.New("not " + q)
		},
		Refused: func(a authz.Attributes, reason string) error { return fmt.Errorf("not %s: %s", question(a), reason) },
	})
	return as, constraint, asked, err
}

// agent is a service account in a pod of node-1.
var agent = &user.Info{Name: "system:serviceaccount:kube-system:agent", Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"node-1"}}}

// TestDecide compares the checks, in their order, and the impersonated user.
func TestDecide(t *testing.T) {
	admin := &user.Info{Name: "admin"}
	const here = "team/"
	for _, test := range []struct {
		name       string
		user       *User
		requestor  *user.Info
		rights     []string
		asked      []string
		constraint string
		groups     []string
		err        string
	}{
		{name: "by the verb that always was", user: &User{Name: "jane", UID: "7", Groups: []string{"a", "b"}, Extra: map[string][]string{"scopes": {"x", "y"}}}, requestor: admin,
			rights: []string{"impersonate "}, groups: []string{"a", "b", user.Authenticated},
			asked: []string{"impersonate-on:user-info:list /pods " + here, "impersonate /users jane", "impersonate authentication.k8s.io/uids 7", "impersonate /groups a", "impersonate /groups b",
				"impersonate authentication.k8s.io/userextras/scopes x", "impersonate authentication.k8s.io/userextras/scopes y"}},
		{name: "to list pods alone", user: &User{Name: "jane", Groups: []string{"a"}}, requestor: admin,
			rights: []string{"impersonate-on:user-info:list /pods", "impersonate:user-info"}, constraint: "impersonate:user-info", groups: []string{"a", user.Authenticated},
			asked: []string{"impersonate-on:user-info:list /pods " + here, "impersonate:user-info authentication.k8s.io/users jane", "impersonate:user-info authentication.k8s.io/groups a"}},
		{name: "many groups by one question", user: &User{Name: "jane", Groups: []string{"a", "b", "c", "d"}}, requestor: admin,
			rights: []string{"impersonate-on:", "impersonate:"}, constraint: "impersonate:user-info", groups: []string{"a", "b", "c", "d", user.Authenticated},
			asked: []string{"impersonate-on:user-info:list /pods " + here, "impersonate:user-info authentication.k8s.io/users jane", "impersonate:user-info authentication.k8s.io/groups *"}},
		{name: "many groups, each allowed", user: &User{Name: "jane", Groups: []string{"a", "b", "c", "d"}}, requestor: admin,
			rights: []string{"impersonate-on:", "impersonate:user-info authentication.k8s.io/users", "impersonate:user-info authentication.k8s.io/groups a", "impersonate:user-info authentication.k8s.io/groups b",
				"impersonate:user-info authentication.k8s.io/groups c", "impersonate:user-info authentication.k8s.io/groups d"}, constraint: "impersonate:user-info", groups: []string{"a", "b", "c", "d", user.Authenticated},
			asked: []string{"impersonate-on:user-info:list /pods " + here, "impersonate:user-info authentication.k8s.io/users jane", "impersonate:user-info authentication.k8s.io/groups *",
				"impersonate:user-info authentication.k8s.io/groups a", "impersonate:user-info authentication.k8s.io/groups b", "impersonate:user-info authentication.k8s.io/groups c", "impersonate:user-info authentication.k8s.io/groups d"}},
		{name: "a service account", user: &User{Name: "system:serviceaccount:team:bot"}, requestor: admin,
			rights: []string{"impersonate-on:serviceaccount:", "impersonate:serviceaccount /", "impersonate:serviceaccount authentication.k8s.io/serviceaccounts team/bot"}, constraint: "impersonate:serviceaccount",
			groups: []string{user.ServiceAccounts, user.ServiceAccounts + ":team", user.Authenticated},
			asked:  []string{"impersonate-on:serviceaccount:list /pods " + here, "impersonate:serviceaccount authentication.k8s.io/serviceaccounts team/bot"}},
		{name: "a service account with groups", user: &User{Name: "system:serviceaccount:team:bot", Groups: []string{"a"}}, requestor: admin,
			rights: []string{"impersonate"}, groups: []string{"a", user.Authenticated}, asked: []string{"impersonate /serviceaccounts team/bot", "impersonate /groups a"}},
		{name: "no service account", user: &User{Name: "system:serviceaccount:team:Bot"}, requestor: admin,
			rights: []string{"impersonate "}, groups: []string{user.Authenticated}, asked: []string{"impersonate-on:user-info:list /pods " + here, "impersonate /users system:serviceaccount:team:Bot"}},
		{name: "a node", user: &User{Name: "system:node:node-2"}, requestor: agent,
			rights: []string{"impersonate-on:arbitrary-node:", "impersonate:arbitrary-node authentication.k8s.io/nodes node-2"}, constraint: "impersonate:arbitrary-node", groups: []string{user.Nodes, user.Authenticated},
			asked: []string{"impersonate-on:arbitrary-node:list /pods " + here, "impersonate:arbitrary-node authentication.k8s.io/nodes node-2"}},
		{name: "the own node", user: &User{Name: "system:node:node-1"}, requestor: agent,
			rights: []string{"impersonate-on:associated-node:", "impersonate:associated-node authentication.k8s.io/nodes *"}, constraint: "impersonate:associated-node", groups: []string{user.Nodes, user.Authenticated},
			asked: []string{"impersonate-on:associated-node:list /pods " + here, "impersonate:associated-node authentication.k8s.io/nodes *"}},
		{name: "another node than the own", user: &User{Name: "system:node:node-2"}, requestor: agent, rights: []string{"impersonate-on:associated-node:", "impersonate:associated-node"},
			err:   "not impersonate-on:arbitrary-node:list /pods " + here,
			asked: []string{"impersonate-on:arbitrary-node:list /pods " + here, "impersonate /users system:node:node-2"}},
		{name: "the verb is not allowed", user: &User{Name: "jane"}, requestor: admin, rights: []string{"impersonate-on:user-info:get", "impersonate:user-info"},
			err: "not impersonate-on:user-info:list /pods " + here, asked: []string{"impersonate-on:user-info:list /pods " + here, "impersonate /users jane"}},
		{name: "nobody", user: &User{Name: user.Anonymous}, requestor: admin, rights: []string{"impersonate "}, groups: []string{user.Unauthenticated},
			asked: []string{"impersonate-on:user-info:list /pods " + here, "impersonate /users system:anonymous"}},
	} {
		as, constraint, asked, err := decide(test.user, test.requestor, test.rights...)
		if !slices.Equal(asked, test.asked) {
			t.Errorf("%s: asked\n%s\nwant\n%s", test.name, strings.Join(asked, "\n"), strings.Join(test.asked, "\n"))
		}
		if err != nil || test.err != "" {
			if as != nil || fmt.Sprint(err) != test.err {
				t.Errorf("%s: Decide = %v, %v, want the error %q", test.name, as, err, test.err)
			}
			continue
		}
		if as.Name != test.user.Name || as.UID != test.user.UID || !slices.Equal(as.Groups, test.groups) || constraint != test.constraint {
			t.Errorf("%s: Decide = %+v, %q, want groups %q, %q", test.name, as, constraint, test.groups, test.constraint)
		}
	}
}

// TestNever tries users that the constrained modes refuse with all rights.
func TestNever(t *testing.T) {
	for _, test := range []struct {
		user   User
		reason string
	}{
		{User{Groups: []string{"a", user.Masters}}, "impersonating the system:masters group is not allowed"},
		{User{Groups: []string{""}}, "impersonating the empty string group is not allowed"},
		{User{Extra: map[string][]string{"": {"x"}}}, "impersonating the empty string key in extra is not allowed"},
		{User{Extra: map[string][]string{"example.com/a": {""}}}, "impersonating the empty string value in extra is not allowed"},
		{User{Extra: map[string][]string{"example.com/a": nil}}, "impersonating empty values in extra is not allowed"},
		{User{Extra: map[string][]string{"example.com/A": {"x"}}}, "impersonating a non-lowercase key in extra is not allowed"},
		{User{Extra: map[string][]string{"scopes": {"x"}}}, "impersonating an invalid key in extra is not allowed"},
	} {
		test.user.Name = "jane"
		_, _, _, err := decide(&test.user, &user.Info{Name: "admin"}, "impersonate-on:", "impersonate:")
		if err == nil || !strings.Contains(err.Error(), test.reason) {
			t.Errorf("%+v: Decide = %v, want %q", test.user, err, test.reason)
		}
		before := slices.Clone(test.user.Groups)
		as, constraint, _, err := decide(&test.user, &user.Info{Name: "admin"}, "impersonate")
		if err != nil || constraint != "" || !slices.Contains(as.Groups, user.Authenticated) {
			t.Errorf("%+v with the right to impersonate: Decide = %+v, %q, %v, want the user", test.user, as, constraint, err)
		}
		if !slices.Equal(test.user.Groups, before) {
			t.Errorf("%+v: the groups of the headers were %q", test.user, before)
		}
	}
}
