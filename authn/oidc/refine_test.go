package oidc_test

import (
	"context"
	"crypto/elliptic"
	"encoding/json"
	"errors"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/planekit/planekit/authn/user"
)

// TestRefine: it completes the user, and has the last word.
func TestRefine(t *testing.T) {
	op, key := newIssuer(), ecKey(t, elliptic.P256())
	op.keys = []map[string]any{jwk(t, "1", key.Public())}
	config := op.config()
	config.Algorithms = []string{"ES256"}
	config.GroupsClaim, config.UsernamePrefix = "groups", "-"
	config.Refine = func(_ context.Context, claims map[string]json.RawMessage, u *user.Info) error {
		if string(claims["sub"]) == `"mallory"` {
			return errors.New("not mallory")
		}
		if u.Name != "" || len(u.Extra["authentication.kubernetes.io/credential-id"]) != 1 {
			t.Errorf("refined %+v", u)
		}
		if raw, ok := claims["nick"]; ok {
			return json.Unmarshal(raw, &u.Name)
		}
		return nil
	}
	a := start(t, config)
	token := func(change map[string]any) string {
		change["jti"], change["groups"] = "t1", []string{"devs"}
		return sign(t, jwt.SigningMethodES256, key, map[string]any{"kid": "1"}, change)
	}
	u, known, err := a.Authenticate(bearing(token(map[string]any{"nick": "jay"})))
	if err != nil || !known || u.Name != "jay" || len(u.Groups) != 1 {
		t.Errorf("Authenticate = %+v, %v, %v, want jay with one group", u, known, err)
	}
	want(t, a, "refused", token(map[string]any{"sub": "mallory"}), "not mallory")
	want(t, a, "no name", token(map[string]any{}), "the user has no name")
	want(t, a, "over", token(map[string]any{"nick": "jay", "exp": 1}), "the token is over")
	config.UsernameClaim = "sub"
	config.Refine = func(context.Context, map[string]json.RawMessage, *user.Info) error { return nil }
	a = start(t, config)
	if u, _, err := a.Authenticate(bearing(token(map[string]any{}))); err != nil || u.Name != "-jane" {
		t.Errorf("Authenticate = %+v, %v, want -jane", u, err)
	}
}
