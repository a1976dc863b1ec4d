package authz_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
)

// listed is an authorizer of fixed rules.
type listed struct {
	authz.Authorizer
	rules authz.Rules
	err   error
}

func (l listed) RulesFor(context.Context, *user.Info, string) (authz.Rules, error) {
	return l.rules, l.err
}

func TestRulesFor(t *testing.T) {
	all := []string{"*"}
	everything := authz.Rules{
		Resources: []authz.ResourceRule{{Verbs: all, Groups: all, Resources: all}},
		Paths:     []authz.PathRule{{Verbs: all, Paths: all}},
	}
	pods := authz.ResourceRule{Verbs: []string{"get"}, Groups: []string{""}, Resources: []string{"pods"}}
	one := pods
	one.Names = []string{"web"}
	health := authz.PathRule{Verbs: []string{"get"}, Paths: []string{"/healthz"}}
	broken := errors.New("broken")
	root := &user.Info{Name: "root", Groups: []string{"masters"}}
	for name, test := range map[string]struct {
		asked authz.Authorizer
		user  *user.Info
		want  authz.Rules
		err   error
	}{
		"empty chain":      {asked: authz.Chain{}, user: root},
		"superuser":        {asked: authz.Superusers("masters"), user: root, want: everything},
		"no superuser":     {asked: authz.Superusers("others"), user: root},
		"nobody":           {asked: authz.Superusers("masters")},
		"superuser, twice": {asked: authz.Chain{authz.Superusers("masters"), listed{rules: everything}}, user: root, want: everything},
		"several": {
			asked: authz.Chain{
				listed{rules: authz.Rules{Resources: []authz.ResourceRule{pods}, Paths: []authz.PathRule{health}}},
				listed{rules: authz.Rules{Resources: []authz.ResourceRule{one, pods}, Paths: []authz.PathRule{health}}},
			},
			want: authz.Rules{Resources: []authz.ResourceRule{pods, one}, Paths: []authz.PathRule{health}},
		},
		"one that cannot": {
			asked: authz.Chain{answers(authz.NoOpinion, "", nil), listed{rules: authz.Rules{Paths: []authz.PathRule{health}}}},
			want:  authz.Rules{Paths: []authz.PathRule{health}, Incomplete: true}, err: authz.ErrNoRules,
		},
		"one that is broken": {
			asked: authz.Chain{listed{rules: authz.Rules{Paths: []authz.PathRule{health}, Incomplete: true}, err: broken}, listed{}},
			want:  authz.Rules{Paths: []authz.PathRule{health}, Incomplete: true}, err: broken,
		},
	} {
		got, err := authz.RulesFor(t.Context(), test.asked, test.user, "default")
		if !reflect.DeepEqual(got, test.want) || !errors.Is(err, test.err) {
			t.Errorf("%s: RulesFor = %+v, %v, want %+v, %v", name, got, err, test.want, test.err)
		}
	}
}
