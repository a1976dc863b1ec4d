package impersonation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A mode is a kind of impersonation. The constrained ones are granted for single verbs and resources, beside the
// impersonated user (https://kep.k8s.io/5284).
type mode struct {
	// name is empty for unconstrained impersonation, by the verb "impersonate" alone.
	name string
	fits func(p *User, requestor *user.Info) bool
}

// modes are tried in this order.
var modes = []mode{
	{"associated-node", func(p *User, requestor *user.Info) bool { return p.nameAlone() && ownNode(requestor, p.Name) }},
	{"arbitrary-node", func(p *User, _ *user.Info) bool { return p.nameAlone() && isNode(p.Name) }},
	{"serviceaccount", func(p *User, _ *user.Info) bool { return p.nameAlone() && isServiceAccount(p.Name) }},
	{"user-info", func(p *User, _ *user.Info) bool { return !isNode(p.Name) && !isServiceAccount(p.Name) }},
	{"", func(*User, *user.Info) bool { return true }},
}

// Checks connects a decision with the authorizer.
type Checks struct {
	// Allowed returns nil if the authorizer allows the attributes, otherwise the error of the response.
	Allowed func(authz.Attributes) error
	// Refused returns the error of a response that refuses the attributes for a reason.
	Refused func(a authz.Attributes, reason string) error
}

// Decide returns the impersonated user and, for a constrained mode, the verb that allowed it. If no mode allows the
// impersonation, the error is the first mode's. The request's attributes carry the user who sent it.
func (p *User) Decide(request authz.Attributes, checks Checks) (as *user.Info, constraint string, err error) {
	for i := range modes {
		m := &modes[i]
		if !m.fits(p, request.User) {
			continue
		}
		problem := m.allows(p, request, checks)
		if problem == nil {
			if m.name != "" {
				constraint = m.verb()
			}
			return p.complete(m), constraint, nil
		}
		if err == nil {
			err = problem
		}
	}
	return nil, "", err
}

func (m *mode) verb() string {
	if m.name == "" {
		return "impersonate"
	}
	return "impersonate:" + m.name
}

// allows returns nil if the requestor may impersonate the user and, in a constrained mode, send this request as it.
func (m *mode) allows(p *User, request authz.Attributes, checks Checks) error {
	requestor := request.User
	if m.name == "associated-node" {
		// That the node is its own is known here. The rights are the same on every node.
		requestor = &user.Info{Name: requestor.Name, UID: requestor.UID, Groups: requestor.Groups, Extra: map[string][]string{
			"authentication.kubernetes.io/associated-node-keys": slices.Sorted(maps.Keys(requestor.Extra))}}
	}
	if m.name != "" {
		request.User, request.Verb = requestor, "impersonate-on:"+m.name+":"+request.Verb
		if err := checks.Allowed(request); err != nil {
			return err
		}
		if reason, a := m.never(p, requestor); reason != "" {
			return checks.Refused(a, reason)
		}
	}
	for _, r := range m.rights(p, requestor) {
		if m.name != "" && len(r.each) >= many && checks.Allowed(r.all) == nil {
			continue
		}
		for _, a := range r.each {
			if err := checks.Allowed(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// many is the number of names from which on one check for all of them precedes the checks of each.
const many = 4

// right is one requirement: the requestor must be allowed all, or each of the attributes.
type right struct {
	all  authz.Attributes
	each []authz.Attributes
}

// rights returns the requirements for impersonating the user.
func (m *mode) rights(p *User, requestor *user.Info) []right {
	own := authz.Attributes{User: requestor, Verb: m.verb(), Group: "authentication.k8s.io", Version: "v1"}
	of := func(group, resource, subresource, name string) authz.Attributes {
		a := own
		a.Group, a.Resource, a.Subresource, a.Name = group, resource, subresource, name
		return a
	}
	people := own.Group
	if m.name == "" {
		people = "" // they are of the core group there
	}
	one := of(people, "users", "", p.Name)
	if namespace, name, ok := serviceAccount(p.Name); ok {
		one.Resource, one.Namespace, one.Name = "serviceaccounts", namespace, name
	} else if node, ok := nodeName(p.Name); ok && m.name != "" {
		one.Resource, one.Name = "nodes", node
		if m.name == "associated-node" {
			one.Name = "*"
		}
	}
	out := []right{{each: []authz.Attributes{one}}}
	if p.UID != "" {
		out = append(out, right{each: []authz.Attributes{of(own.Group, "uids", "", p.UID)}})
	}
	groups := right{all: of(people, "groups", "", "*")}
	for _, g := range p.Groups {
		groups.each = append(groups.each, of(people, "groups", "", g))
	}
	extras := right{all: of(own.Group, "userextras", "*", "*")}
	for _, key := range slices.Sorted(maps.Keys(p.Extra)) {
		for _, v := range p.Extra[key] {
			extras.each = append(extras.each, of(own.Group, "userextras", key, v))
		}
	}
	return append(out, groups, extras)
}

// never returns the reason for which the constrained modes refuse a user without a check, empty if there is none.
func (m *mode) never(p *User, requestor *user.Info) (reason string, a authz.Attributes) {
	a = authz.Attributes{User: requestor, Verb: m.verb(), Group: "authentication.k8s.io", Version: "v1", Resource: "groups"}
	if slices.Contains(p.Groups, "") {
		return "impersonating the empty string group is not allowed", a
	}
	if slices.Contains(p.Groups, user.Masters) {
		a.Name = user.Masters
		return "impersonating the system:masters group is not allowed", a
	}
	a.Resource = "userextras"
	for _, key := range slices.Sorted(maps.Keys(p.Extra)) {
		values := p.Extra[key]
		if key == "" {
			return "impersonating the empty string key in extra is not allowed", a
		}
		if err := validation.IsDomainPrefixedPath(field.NewPath("extra", "key"), key).ToAggregate(); err != nil {
			return fmt.Sprintf("impersonating an invalid key in extra is not allowed: %v", err), a
		}
		if key != strings.ToLower(key) {
			return fmt.Sprintf("impersonating a non-lowercase key in extra is not allowed: %q", key), a
		}
		if len(values) == 0 {
			return "impersonating empty values in extra is not allowed", a
		}
		if slices.Contains(values, "") {
			return "impersonating the empty string value in extra is not allowed", a
		}
	}
	return "", a
}

// complete returns the user with the groups that its name implies.
func (p *User) complete(m *mode) *user.Info {
	u := user.Info(*p)
	if namespace, _, ok := serviceAccount(u.Name); ok && len(u.Groups) == 0 {
		u.Groups = []string{user.ServiceAccounts, user.ServiceAccounts + ":" + namespace}
	}
	if m.name != "" && isNode(u.Name) {
		u.Groups = []string{user.Nodes}
	}
	switch {
	case u.Name == user.Anonymous && !u.In(user.Unauthenticated):
		u.Groups = append(u.Groups[:len(u.Groups):len(u.Groups)], user.Unauthenticated)
	case u.Name != user.Anonymous && !u.In(user.Authenticated) && !u.In(user.Unauthenticated):
		u.Groups = append(u.Groups[:len(u.Groups):len(u.Groups)], user.Authenticated)
	}
	return &u
}

// nameAlone reports whether the headers have only the name.
func (p *User) nameAlone() bool { return p.UID == "" && len(p.Groups) == 0 && len(p.Extra) == 0 }

// ownNode reports whether the requestor is a service account whose token belongs to a pod on the node.
func ownNode(requestor *user.Info, username string) bool {
	node, ok := nodeName(username)
	return ok && isServiceAccount(requestor.Name) && slices.Equal(requestor.Extra["authentication.kubernetes.io/node-name"], []string{node})
}

// nodeName returns the name of the node whose user name it is.
func nodeName(username string) (string, bool) {
	name, ok := strings.CutPrefix(username, user.NodePrefix)
	return name, ok && len(validation.IsDNS1123Subdomain(name)) == 0
}

func isNode(username string) bool {
	_, ok := nodeName(username)
	return ok
}

// serviceAccount splits the user name of a service account.
func serviceAccount(username string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(username, user.ServiceAccountPrefix)
	if !ok {
		return "", "", false
	}
	namespace, name, _ = strings.Cut(rest, ":")
	return namespace, name, len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
}

func isServiceAccount(username string) bool {
	_, _, ok := serviceAccount(username)
	return ok
}
