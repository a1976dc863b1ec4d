package authz

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/planekit/planekit/authn/user"
)

// Rules lists the permissions of a user as far as they are known in advance. Patterns such as "*"
// have the meaning that the authorizer of the rules gives them.
type Rules struct {
	Resources []ResourceRule
	Paths     []PathRule
	// Incomplete means that decisions may allow more or less than the rules.
	Incomplete bool
}

// A ResourceRule allows verbs on resources of groups. If Names is not empty, it applies only to
// objects with these names.
type ResourceRule struct{ Verbs, Groups, Resources, Names []string }

// A PathRule allows verbs on URL paths.
type PathRule struct{ Verbs, Paths []string }

// A Lister is an [Authorizer] that can list the permissions of a user. Decisions do not need it: it
// informs users in advance.
type Lister interface {
	// RulesFor returns the permissions of u in namespace, including cluster-wide ones. With an
	// error it returns the rules that were found. The rules may be shared and must not be changed.
	RulesFor(ctx context.Context, u *user.Info, namespace string) (Rules, error)
}

// ErrNoRules means that an authorizer is not a [Lister].
var ErrNoRules = errors.New("authorizer does not support user rule resolution")

// RulesFor returns the permissions of u in namespace according to a. If a is not a [Lister], it
// returns incomplete rules and [ErrNoRules].
func RulesFor(ctx context.Context, a Authorizer, u *user.Info, namespace string) (Rules, error) {
	lister, ok := a.(Lister)
	if !ok {
		return Rules{Incomplete: true}, fmt.Errorf("%T: %w", a, ErrNoRules)
	}
	return lister.RulesFor(ctx, u, namespace)
}

// RulesFor returns the rules of all authorizers of c, without duplicates. They are incomplete if
// those of any authorizer are.
func (c Chain) RulesFor(ctx context.Context, u *user.Info, namespace string) (Rules, error) {
	var all Rules
	var broken []error
	resources, paths := byHash{}, byHash{}
	for _, authorizer := range c {
		rules, err := RulesFor(ctx, authorizer, u, namespace)
		if err != nil {
			broken = append(broken, err)
		}
		all.Incomplete = all.Incomplete || rules.Incomplete
		for _, rule := range rules.Resources {
			if hash := hashOf(rule.Verbs, rule.Groups, rule.Resources, rule.Names); !resources.holds(hash, func(i int) bool { return rule.equal(all.Resources[i]) }) {
				resources[hash] = append(resources[hash], len(all.Resources))
				all.Resources = append(all.Resources, rule)
			}
		}
		for _, rule := range rules.Paths {
			if hash := hashOf(rule.Verbs, rule.Paths); !paths.holds(hash, func(i int) bool { return rule.equal(all.Paths[i]) }) {
				paths[hash] = append(paths[hash], len(all.Paths))
				all.Paths = append(all.Paths, rule)
			}
		}
	}
	return all, errors.Join(broken...)
}

// byHash holds the indexes of rules by their hash, since a user may have many rules.
type byHash map[uint64][]int

func (b byHash) holds(hash uint64, equal func(int) bool) bool {
	return slices.ContainsFunc(b[hash], equal)
}

var seed = maphash.MakeSeed()

func hashOf(lists ...[]string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, words := range lists {
		maphash.WriteComparable(&h, len(words))
		for _, word := range words {
			maphash.WriteComparable(&h, word)
		}
	}
	return h.Sum64()
}

func (r ResourceRule) equal(o ResourceRule) bool {
	return slices.Equal(r.Verbs, o.Verbs) && slices.Equal(r.Groups, o.Groups) &&
		slices.Equal(r.Resources, o.Resources) && slices.Equal(r.Names, o.Names)
}

func (r PathRule) equal(o PathRule) bool {
	return slices.Equal(r.Verbs, o.Verbs) && slices.Equal(r.Paths, o.Paths)
}
