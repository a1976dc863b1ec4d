// Package abac decides by a file of policies, one JSON object a line
// (https://kubernetes.io/docs/reference/access-authn-authz/abac/), which
// kube-apiserver calls --authorization-policy-file.
//
//	policies, err := abac.Parse(file)
//	may := authz.Chain{authz.Superusers(user.Masters), abac.New(policies)}
//
// A policy names whom it is for and what it allows:
//
//	{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy",
//	 "spec": {"user": "bob", "namespace": "projects", "resource": "pods", "readonly": true}}
//
// A property that is not set does not stand for "*": a policy without a
// namespace is for what lies in none, one without user and group is for nobody.
// Only the lines of before v1beta1, without apiVersion, mean everything by what
// they leave out.
//
// Policies only grant: the answers are Allow and NoOpinion. There are no verbs
// in them, only reading (get, list, watch) and everything; subresources and
// object names do not count. They are indexed by user and group and by what they
// allow: how many there are does not matter to a decision. They do not change;
// to change them, make another Authorizer.
package abac

import (
	"context"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
)

// Policy allows somebody something. All that is set must fit.
type Policy struct {
	// User is whom the policy is for, Group a group that the user must be in. One
	// of them must be set. "*" as either is every authenticated user, and the
	// other then does not count.
	User, Group string
	// ReadOnly allows get, list and watch alone. Otherwise everything is allowed.
	ReadOnly bool
	// APIGroup, Namespace and Resource are of requests for resources. "*" is all
	// of them; an empty APIGroup is the core group, an empty Namespace is what
	// lies in none and what goes across all.
	APIGroup, Namespace, Resource string
	// Path is of requests that are not for a resource, exactly, or, with a "*" at
	// its end, as a prefix.
	Path string
}

// Authorizer is an authz.Authorizer and authz.Lister.
type Authorizer struct {
	policies []Policy // in order, for RulesFor
	subjects map[subject]*grants
}

// New returns an authorizer by policies.
func New(policies []Policy) *Authorizer {
	a := &Authorizer{policies: make([]Policy, len(policies)), subjects: map[subject]*grants{}}
	for i, p := range policies {
		if p.User == "*" || p.Group == "*" {
			p.User, p.Group = "", user.Authenticated
		}
		a.policies[i] = p
		a.index(p)
	}
	return a
}

// noPolicy is Kubernetes' reason.
const noPolicy = "No policy matched."

// Authorize looks for a policy that allows what at describes.
func (a *Authorizer) Authorize(_ context.Context, at authz.Attributes) (authz.Decision, string, error) {
	if u := at.User; u != nil && a.allowed(u, &at) {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, noPolicy, nil
}

func (a *Authorizer) allowed(u *user.Info, at *authz.Attributes) bool {
	if u.Name != "" && a.subjects[subject{user: u.Name}].allow(at) {
		return true
	}
	for _, group := range u.Groups {
		if group == "" {
			continue
		}
		if a.subjects[subject{group: group}].allow(at) {
			return true
		}
		if u.Name != "" && a.subjects[subject{u.Name, group}].allow(at) {
			return true
		}
	}
	return false
}

// RulesFor returns the rules of all policies for u that count in namespace, and
// those for paths.
func (a *Authorizer) RulesFor(_ context.Context, u *user.Info, namespace string) (authz.Rules, error) {
	var rules authz.Rules
	for _, p := range a.policies {
		if !p.isFor(u) {
			continue
		}
		verbs := []string{"*"}
		if p.ReadOnly {
			verbs = []string{"get", "list", "watch"}
		}
		if p.Resource != "" && (p.Namespace == "*" || p.Namespace == namespace) {
			rules.Resources = append(rules.Resources, authz.ResourceRule{
				Verbs: verbs, Groups: []string{p.APIGroup}, Resources: []string{p.Resource},
			})
		}
		if p.Path != "" {
			rules.Paths = append(rules.Paths, authz.PathRule{Verbs: verbs, Paths: []string{p.Path}})
		}
	}
	return rules, nil
}

func (p *Policy) isFor(u *user.Info) bool {
	if u == nil || (p.User == "" && p.Group == "") {
		return false
	}
	return (p.User == "" || p.User == u.Name) && (p.Group == "" || u.In(p.Group))
}
