package authorizers_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/plane/authorizers"
	"github.com/planekit/planekit/plane/caches"
)

// Jane asks to read pods of a control plane that is starting: RBAC does not know its roles yet
// and has no opinion, so an authorizer of the program's own decides.
func Example() {
	all, err := newCaches()
	if err != nil {
		fmt.Println(err)
		return
	}
	readers := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.Verb == "get" || a.Verb == "list" {
			return authz.Allow, "readers may read", nil
		}
		return authz.NoOpinion, "", nil
	})
	set, err := authorizers.New(authorizers.Config{
		Caches: all,
		Modes:  []string{authorizers.RBAC, "Readers"},
		More:   map[string]authz.Authorizer{"Readers": readers},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, verb := range []string{"get", "delete"} {
		decision, reason, err := set.Authorize(context.Background(), request("jane", verb))
		fmt.Println(verb, decision == authz.Allow, reason, err)
	}
	// Output:
	// get true readers may read <nil>
	// delete false  rbac: roles and bindings are not synced yet
}

// newCaches returns caches that are never started.
func newCaches() (*caches.Caches, error) {
	api, err := client.New(client.InProcess(client.TransportFunc(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("no server")
	})))
	if err != nil {
		return nil, err
	}
	return caches.New(api, logr.Discard())
}

func request(name, verb string, groups ...string) authz.Attributes {
	return authz.Attributes{User: &user.Info{Name: name, Groups: groups}, Verb: verb, Version: "v1", Resource: "pods", Namespace: "default"}
}

func TestModes(t *testing.T) {
	all, err := newCaches()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		modes []string
		want  authz.Decision // about jane
	}{
		{nil, authz.NoOpinion}, // Node and RBAC, which are not synced
		{[]string{authorizers.AlwaysAllow}, authz.Allow},
		{[]string{authorizers.AlwaysDeny}, authz.NoOpinion}, // so that superusers are still allowed
		{[]string{authorizers.AlwaysDeny, authorizers.AlwaysAllow}, authz.Allow},
		{[]string{authorizers.RBAC, authorizers.AlwaysAllow}, authz.Allow},
	} {
		set, err := authorizers.New(authorizers.Config{Caches: all, Modes: c.modes})
		if err != nil {
			t.Fatal(err)
		}
		if set.RBAC == nil {
			t.Errorf("%v: no RBAC for the check against escalation", c.modes)
		}
		if got, _, err := set.Authorize(t.Context(), request("jane", "get")); got != c.want || err != nil && c.modes != nil {
			t.Errorf("%v decide %v about jane: %v, want %v", c.modes, got, err, c.want)
		}
		if got, _, err := set.Authorize(t.Context(), request("root", "get", user.Masters)); got != authz.Allow || err != nil {
			t.Errorf("%v decide %v about a superuser: %v", c.modes, got, err)
		}
	}
}

func TestModesAreChecked(t *testing.T) {
	all, err := newCaches()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		modes []string
		want  string
	}{
		{[]string{}, "at least one mode"},
		{[]string{"RBAC", "Nod"}, `"Nod" is none of`},
		{[]string{"RBAC", "Node", "RBAC"}, "RBAC is named twice"},
		{[]string{authorizers.Webhook}, "mode Webhook needs an authorizer in Config.More"},
		{[]string{authorizers.ABAC}, "mode ABAC needs an authorizer in Config.More"},
	} {
		if _, err := authorizers.New(authorizers.Config{Caches: all, Modes: c.modes}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.modes, err, c.want)
		}
	}
	if err := authorizers.Check([]string{"Own"}, "Own"); err != nil {
		t.Error(err)
	}
}
