package serviceaccount_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/serviceaccount"
)

// holding is a world in which the secret shop/key holds a token.
type holding struct {
	*world
	secret serviceaccount.Held
	found  bool
	err    error
}

func newHolding(t *testing.T) *holding {
	h := &holding{world: newWorld(t), found: true}
	var err error
	h.authenticator, err = serviceaccount.New(serviceaccount.Config{
		Issuers: []string{issuer}, Audiences: []string{"api", issuer}, Keys: h.keys, Accounts: h.accounts.lookup,
		Legacy: func(_ context.Context, namespace, name string) (serviceaccount.Held, bool, error) {
			if namespace != "shop" || name != "key" {
				t.Errorf("looked for %s/%s", namespace, name)
			}
			return h.secret, h.found, h.err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *holding) signLegacy(t *testing.T) string {
	t.Helper()
	token, err := h.signer.SignLegacy("shop", serviceaccount.Ref{Name: "web", UID: "a1"}, "key")
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestLegacy(t *testing.T) {
	h := newHolding(t)
	token := h.signLegacy(t)
	h.secret.Token = []byte(token)
	h.want(t, "held", token, "")
	u, known, err := h.authenticator.Authenticate(bearing(token))
	if u == nil || !known || err != nil {
		t.Fatalf("Authenticate = %v, %t, %v, want a user, true, nil", u, known, err)
	}
	if u.Name != "system:serviceaccount:shop:web" || u.UID != "a1" || u.Extra != nil ||
		!slices.Equal(u.Groups, []string{"system:serviceaccounts", "system:serviceaccounts:shop"}) {
		t.Errorf("Authenticate = %+v, want system:serviceaccount:shop:web, UID a1, the groups of service accounts and no extra", u)
	}
	if got := payload(t, token); len(got) != 6 || got["iss"] != "kubernetes/serviceaccount" || got["kubernetes.io/serviceaccount/secret.name"] != "key" {
		t.Errorf("claims %v", got)
	}
	for _, change := range []struct {
		name string
		do   func()
		want string
	}{
		{"another in its place", func() { h.secret.Token = []byte(token[:len(token)-1]) }, "holds another"},
		{"none in its place", func() { h.secret.Token = nil }, "holds another"},
		{"deleted", func() { h.secret.Token, h.secret.Deleted = []byte(token), true }, "is gone"},
		{"marked", func() { h.secret.Deleted, h.secret.Invalid = false, true }, "invalid"},
		{"no secret", func() { h.found = false }, "is gone"},
		{"nobody knows", func() { h.err = errors.New("no route") }, "no route"},
		{"held again", func() { h.err, h.found, h.secret.Invalid = nil, true, false }, ""},
		{"another account", func() { h.accounts["shop/web"] = serviceaccount.Object{UID: "a2"} }, "another of the same name"},
		{"a deleted account", func() {
			h.accounts["shop/web"] = serviceaccount.Object{UID: "a1", Deleted: time.Now().Add(-time.Hour)}
		}, "has been deleted"},
		{"no account", func() { delete(h.accounts, "shop/web") }, "is gone"},
	} {
		change.do()
		h.want(t, change.name, token, change.want)
	}
}

// A legacy token is for the API server, and not mine without Config.Legacy.
func TestLegacyFor(t *testing.T) {
	h := newHolding(t)
	token := h.signLegacy(t)
	h.secret.Token = []byte(token)
	for asked, want := range map[string]bool{"api": true, "vault": false} {
		ctx := authn.WithAudiences(t.Context(), []string{asked})
		if _, known, err := h.authenticator.Authenticate(bearing(token).WithContext(ctx)); known != want || known != (err == nil) {
			t.Errorf("for %s: %v, %v", asked, known, err)
		}
	}
	newWorld(t).want(t, "where none are believed", token, "not mine")
}

// What is signed for one kind of token does not pass for the other.
func TestLegacyForged(t *testing.T) {
	h := newHolding(t)
	good := jwt.MapClaims{
		"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:shop:web",
		"kubernetes.io/serviceaccount/namespace": "shop", "kubernetes.io/serviceaccount/secret.name": "key",
		"kubernetes.io/serviceaccount/service-account.name": "web", "kubernetes.io/serviceaccount/service-account.uid": "a1",
	}
	sign := func(change func(jwt.MapClaims)) string {
		c := jwt.MapClaims{}
		for k, v := range good {
			c[k] = v
		}
		change(c)
		token, err := jwt.NewWithClaims(jwt.SigningMethodES256, c).SignedString(h.key)
		if err != nil {
			t.Fatal(err)
		}
		h.secret.Token = []byte(token)
		return token
	}
	h.want(t, "good", sign(func(jwt.MapClaims) {}), "")
	for name := range good {
		if name != "iss" {
			h.want(t, "without "+name, sign(func(c jwt.MapClaims) { delete(c, name) }), "claims are missing")
		}
	}
	h.want(t, "of another", sign(func(c jwt.MapClaims) { c["sub"] = "system:serviceaccount:shop:root" }), "claims are missing")
	h.want(t, "in the name of the issuer", sign(func(c jwt.MapClaims) { c["iss"] = issuer }), "claims are missing")
	h.want(t, "ended", sign(func(c jwt.MapClaims) { c["exp"] = time.Now().Add(-time.Hour).Unix() }), "expired")
	h.want(t, "early", sign(func(c jwt.MapClaims) { c["nbf"] = time.Now().Add(time.Hour).Unix() }), "not valid yet")
	token := sign(func(jwt.MapClaims) {})
	parts := strings.Split(token, ".")
	h.want(t, "another signature", parts[0]+"."+parts[1]+"."+strings.Repeat("A", len(parts[2])), "signature")
	if _, err := h.signer.SignLegacy("shop", serviceaccount.Ref{Name: "web"}, "key"); err == nil {
		t.Error("an account without UID was signed for")
	}
}
