// Package abac authorizes by a file of policies with one JSON object per line
// (https://kubernetes.io/docs/reference/access-authn-authz/abac/), like kube-apiserver's
// --authorization-policy-file.
//
//	policies, err := abac.Parse(file)
//	may := authz.Chain{authz.Superusers(user.Masters), abac.New(policies)}
//
// A policy names a subject and what it may do:
//
//	{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy",
//	 "spec": {"user": "bob", "namespace": "projects", "resource": "pods", "readonly": true}}
//
// An unset property does not mean "*": a policy without a namespace applies to requests without
// one, and a policy without user and group applies to no user. Only lines of the format before
// v1beta1, without apiVersion, treat unset properties as "*".
//
// Policies only grant: the answers are Allow and NoOpinion. They distinguish reading (get, list,
// watch) from everything; subresources and object names are ignored. Policies are indexed by
// subject and by what they allow, so that the cost of a decision does not depend on their number.
// They are immutable; to change them, create another Authorizer.
package abac

import (
	"context"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
)

// Policy grants permissions to a subject. A request must match all fields.
type Policy struct {
	// User is the user of the policy, Group a group that the user must be in. One of them is
	// required. "*" as either means every authenticated user; the other is then ignored.
	User, Group string
	// ReadOnly restricts the policy to get, list and watch.
	ReadOnly bool
	// APIGroup, Namespace and Resource match requests for resources. "*" matches all. An empty
	// APIGroup is the core group. An empty Namespace matches cluster-scoped resources and requests
	// across all namespaces.
	APIGroup, Namespace, Resource string
	// Path matches other requests exactly or, with a "*" at its end, by prefix.
	Path string
}

// Authorizer is an authz.Authorizer and authz.Lister.
type Authorizer struct {
	policies []Policy // in order, for RulesFor
	subjects map[subject]*grants
}

// New returns an authorizer for policies.
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

// Authorize looks for a policy that allows the request.
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

// RulesFor returns the rules of all policies for u that apply to namespace, and those for paths.
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
