package authz

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/planekit/planekit/authn/user"
)

// Rules are what somebody may do, as far as that can be said beforehand. "*" and
// the other patterns mean what they mean to the authorizer the rules are from.
type Rules struct {
	Resources []ResourceRule
	Paths     []PathRule
	// Incomplete says that more may be allowed than the rules say, or less.
	Incomplete bool
}

// A ResourceRule allows verbs on resources of groups, and, if Names is not
// empty, only on objects with these names.
type ResourceRule struct{ Verbs, Groups, Resources, Names []string }

// A PathRule allows verbs on URL paths.
type PathRule struct{ Verbs, Paths []string }

// A Lister is an [Authorizer] which can say what a user may do. Decisions do not
// need it: it is for people, who ask before they try.
type Lister interface {
	// RulesFor returns what u may do in namespace, cluster-wide rules included.
	// With an error come the rules that were found nevertheless. The rules may
	// be shared and must not be changed.
	RulesFor(ctx context.Context, u *user.Info, namespace string) (Rules, error)
}

// ErrNoRules says that an authorizer decides, and is no [Lister].
var ErrNoRules = errors.New("authorizer does not support user rule resolution")

// RulesFor returns what a lets u do in namespace. If a is no [Lister], that is
// nothing known, with [ErrNoRules].
func RulesFor(ctx context.Context, a Authorizer, u *user.Info, namespace string) (Rules, error) {
	lister, ok := a.(Lister)
	if !ok {
		return Rules{Incomplete: true}, fmt.Errorf("%T: %w", a, ErrNoRules)
	}
	return lister.RulesFor(ctx, u, namespace)
}

// RulesFor returns the rules of all authorizers of c, each rule once. They are
// incomplete where those of one are.
func (c Chain) RulesFor(ctx context.Context, u *user.Info, namespace string) (Rules, error) {
	var all Rules
	var broken []error
	for _, authorizer := range c {
		rules, err := RulesFor(ctx, authorizer, u, namespace)
		if err != nil {
			broken = append(broken, err)
		}
		all.Incomplete = all.Incomplete || rules.Incomplete
		for _, rule := range rules.Resources {
			if !slices.ContainsFunc(all.Resources, rule.equal) {
				all.Resources = append(all.Resources, rule)
			}
		}
		for _, rule := range rules.Paths {
			if !slices.ContainsFunc(all.Paths, rule.equal) {
				all.Paths = append(all.Paths, rule)
			}
		}
	}
	return all, errors.Join(broken...)
}

func (r ResourceRule) equal(o ResourceRule) bool {
	return slices.Equal(r.Verbs, o.Verbs) && slices.Equal(r.Groups, o.Groups) &&
		slices.Equal(r.Resources, o.Resources) && slices.Equal(r.Names, o.Names)
}

func (r PathRule) equal(o PathRule) bool {
	return slices.Equal(r.Verbs, o.Verbs) && slices.Equal(r.Paths, o.Paths)
}
