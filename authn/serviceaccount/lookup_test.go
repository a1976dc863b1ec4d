package serviceaccount_test

import (
	"context"
	"errors"
	"testing"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/serviceaccount"
)

// TestLookupFailureIsNoRefusal: a failed lookup does not count against the token and is
// distinguished from a refusal.
func TestLookupFailureIsNoRefusal(t *testing.T) {
	w := newWorld(t)
	down := errors.New("storage is down")
	fails := func(context.Context, string, string, string) (serviceaccount.Object, bool, error) {
		return serviceaccount.Object{}, false, down
	}
	g := grant()
	token := w.sign(t, g)
	g.Pod = ref("web-0", "p1")
	ofPod := w.sign(t, g)
	for name, test := range map[string]struct {
		token string
		c     serviceaccount.Config
	}{
		"account": {token, serviceaccount.Config{Accounts: fails}},
		"pod":     {ofPod, serviceaccount.Config{Accounts: w.accounts.lookup, Pods: fails}},
	} {
		c := test.c
		c.Issuers, c.Audiences, c.Keys = []string{issuer}, []string{"api"}, w.keys
		a, err := serviceaccount.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, known, err := a.Authenticate(bearing(test.token)); known || !errors.Is(err, authn.ErrUnchecked) || !errors.Is(err, down) {
			t.Errorf("%s: Authenticate = %v, %v, want false, and %v and %v in the error", name, known, err, authn.ErrUnchecked, down)
		}
	}
	delete(w.pods, "shop/web-0")
	if _, _, err := w.authenticator.Authenticate(bearing(ofPod)); err == nil || errors.Is(err, authn.ErrUnchecked) {
		t.Errorf("a pod that is gone: %v", err)
	}
}
