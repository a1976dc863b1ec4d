package serviceaccount_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/serviceaccount"
)

// Whatever is wrong with a token, the client gets 401 and learns nothing more; and
// what was good is refused as soon as what it is bound to is gone.
func TestFaultsAre401(t *testing.T) {
	w := newWorld(t)
	id, err := serviceaccount.KeyID(w.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	g := grant()
	g.Pod = ref("web-0", "p1")
	bound := w.sign(t, g)
	es, own := jwt.SigningMethodES256, map[string]any{"kid": id}
	server := authn.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the token goes further")
		}
	}), authn.Chain{w.authenticator})
	status := func(token string) int {
		recorder := httptest.NewRecorder()
		server.ServeHTTP(recorder, bearing(token))
		if recorder.Code == http.StatusUnauthorized && !strings.Contains(recorder.Body.String(), `"message":"Unauthorized"`) {
			t.Errorf("told more than it should be: %s", recorder.Body)
		}
		return recorder.Code
	}
	for name, token := range map[string]string{
		"alg none":       w.forge(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, own, nil),
		"unknown kid":    w.forge(t, es, w.key, map[string]any{"kid": "other"}, nil),
		"future nbf":     w.forge(t, es, w.key, own, map[string]any{"nbf": time.Now().Add(2 * time.Minute).Unix()}),
		"wrong audience": w.forge(t, es, w.key, own, map[string]any{"aud": []string{"vault"}}),
		"expired":        w.forge(t, es, w.key, own, map[string]any{"exp": time.Now().Add(-2 * time.Minute).Unix()}),
	} {
		if code := status(token); code != http.StatusUnauthorized {
			t.Errorf("%s: the token gets %d, want 401", name, code)
		}
	}
	for name, all := range map[string]living{"pod": w.pods, "service account": w.accounts} {
		if code := status(bound); code != http.StatusOK {
			t.Errorf("%s alive: %d", name, code)
		}
		kept := maps.Clone(all)
		clear(all)
		if code := status(bound); code != http.StatusUnauthorized {
			t.Errorf("%s deleted: %d", name, code)
		}
		maps.Copy(all, kept)
	}
}
