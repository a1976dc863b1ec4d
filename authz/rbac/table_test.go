package rbac

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// contents is all that an index says, in words.
func contents(x *index) map[string]string {
	all := map[string]string{}
	for _, part := range x.grants.parts {
		for who, grants := range part {
			var words []grant
			for _, g := range grants {
				words = append(words, *g)
			}
			all[fmt.Sprint(who)] = fmt.Sprint(words)
		}
	}
	for _, part := range x.roles.parts {
		for role, rules := range part {
			all[fmt.Sprint(role)] = fmt.Sprint(rules)
		}
	}
	return all
}

// TestPublished: what decisions read never changes, whatever is built after it.
func TestPublished(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 0))
	b := newBuilder(logr.Discard())
	roles, bindings := map[string]*rbacv1.Role{}, map[string]*rbacv1.RoleBinding{}
	random := func() change {
		meta := metav1.ObjectMeta{Namespace: fmt.Sprint("ns", rnd.IntN(40)), Name: fmt.Sprint(rnd.IntN(3))}
		key := meta.Namespace + "/" + meta.Name
		if rnd.IntN(2) == 0 {
			old := roles[key]
			delete(roles, key)
			if rnd.IntN(3) == 0 {
				return roleChange(old, nil)
			}
			roles[key] = &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{paths(fmt.Sprint(rnd.IntN(5)), "/")}}
			return roleChange(old, roles[key])
		}
		old := bindings[key]
		delete(bindings, key)
		if rnd.IntN(3) == 0 {
			return roleBindingChange(old, nil)
		}
		bindings[key] = &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: fmt.Sprint(rnd.IntN(3))},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: "a"}, {Kind: "Group", Name: fmt.Sprint(rnd.IntN(3))}, {Kind: "User", Name: "a"}}}
		return roleBindingChange(old, bindings[key])
	}
	published := []*index{b.apply(nil)}
	said := []map[string]string{contents(published[0])}
	for range 300 {
		var batch []change
		for range 1 + rnd.IntN(8) {
			batch = append(batch, random())
		}
		x := b.apply(batch)
		published, said = append(published, x), append(said, contents(x))
	}
	for i, x := range published {
		if now := contents(x); !maps.Equal(now, said[i]) {
			t.Fatalf("seed %d: index %d said %v, now it says %v", seed, i, said[i], now)
		}
	}
	fresh := newBuilder(logr.Discard())
	var batch []change
	for _, r := range roles {
		batch = append(batch, roleChange(nil, r))
	}
	for _, binding := range bindings {
		batch = append(batch, roleBindingChange(nil, binding))
	}
	// Order among the bindings of a subject is that in which they came.
	if got, want := len(contents(fresh.apply(batch))), len(said[len(said)-1]); got != want {
		t.Errorf("seed %d: built anew there are %d entries, not %d", seed, got, want)
	}
}
