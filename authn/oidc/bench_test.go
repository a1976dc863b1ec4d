package oidc_test

import (
	"crypto/elliptic"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

func BenchmarkAuthenticate(b *testing.B) {
	op, key := newIssuer(), ecKey(b, elliptic.P256())
	op.keys = []map[string]any{jwk(b, "1", key.Public()), jwk(b, "2", rsaKey().Public())}
	config := op.config()
	config.Algorithms, config.GroupsClaim = []string{"ES256", "RS256"}, "groups"
	a := start(b, config)
	groups := map[string]any{"groups": []string{"a", "b", "c", "d"}}
	for name, token := range map[string]string{
		"ES256":    sign(b, jwt.SigningMethodES256, key, map[string]any{"kid": "1"}, groups),
		"RS256":    sign(b, jwt.SigningMethodRS256, rsaKey(), map[string]any{"kid": "2"}, groups),
		"not-mine": sign(b, jwt.SigningMethodES256, key, map[string]any{"kid": "1"}, map[string]any{"iss": "https://elsewhere"}),
	} {
		b.Run("token="+name, func(b *testing.B) {
			b.ReportAllocs()
			r := bearing(token)
			for b.Loop() {
				if _, known, _ := a.Authenticate(r); known == (name == "not-mine") {
					b.Fatal(known)
				}
			}
		})
	}
}
