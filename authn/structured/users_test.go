package structured_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/authn/structured"
)

// follow runs an authenticator until the test ends.
func follow(t testing.TB, c structured.Config) (a *structured.Authenticator, stop func()) {
	t.Helper()
	a, err := structured.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return a, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func read(text string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(text), nil }
}

// who returns the answer of an authenticator for a token: name, UID, groups and extra, or an error,
// which must not contain a part of the token.
func who(t testing.TB, a *structured.Authenticator, token string) string {
	t.Helper()
	u, known, err := a.Authenticate(bearing(token))
	switch {
	case err != nil:
		for part := range strings.SplitSeq(token, ".") {
			if strings.Contains(err.Error(), part) {
				t.Errorf("the token is in %v", err)
			}
		}
		return err.Error()
	case !known:
		return "not mine"
	}
	return fmt.Sprintf("%s %s %v %v", u.Name, u.UID, u.Groups, u.Extra)
}

// eventually asks until the answer is want, which takes as long as the issuers'
// keys take to be found.
func eventually(t testing.TB, a *structured.Authenticator, token, want string) {
	t.Helper()
	got := ""
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		if got = who(t, a, token); got == want {
			return
		}
		select {
		case <-t.Context().Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatalf("%s, want %s", got, want)
}

// TestTwoIssuers: two real issuers over TLS, each with its own authority, and users
// made by claims of the one and expressions of the other.
func TestTwoIssuers(t *testing.T) {
	staff, guests := serve(t), serve(t)
	text := header + "jwt:\n" +
		"- issuer:\n    url: " + staff.url + "\n    audiences: [us]\n    certificateAuthority: |\n" + indent(staff.ca, "      ") +
		"  claimMappings: {username: {claim: sub, prefix: 'staff:'}, groups: {claim: groups, prefix: 'staff:'}, uid: {claim: id}}\n" +
		"  claimValidationRules: [{claim: hd, requiredValue: example.com}]\n" +
		"- issuer:\n    url: " + guests.url + "\n    audiences: [us, them]\n    audienceMatchPolicy: MatchAny\n    certificateAuthority: |\n" + indent(guests.ca, "      ") +
		"  claimMappings:\n    username: {expression: '\"guest:\" + claims.sub'}\n    groups: {expression: 'claims.roles.split(\",\")'}\n" +
		"    extra: [{key: example.com/host, valueExpression: claims.host}]\n" +
		"  userValidationRules: [{expression: \"!user.username.contains('root')\", message: 'no roots'}]\n"
	a, stop := follow(t, structured.Config{Read: read(text)})
	defer stop()
	jane := map[string]any{"sub": "jane", "groups": []string{"devs"}, "id": "17", "hd": "example.com", "jti": "t1"}
	eventually(t, a, staff.sign(t, jane), "staff:jane 17 [staff:devs] map[authentication.kubernetes.io/credential-id:[JTI=t1]]")
	joe := map[string]any{"sub": "joe", "roles": "a,,b", "host": "mars", "aud": "them"}
	eventually(t, a, guests.sign(t, joe), "guest:joe  [a b] map[example.com/host:[mars]]")

	for name, test := range map[string]struct{ token, want string }{
		"another's key":      {(&issuer{url: staff.url, key: guests.key}).sign(t, jane), "oidc: the token is not signed with a known key, and the issuer cannot be asked again now: the credential could not be checked"},
		"an issuer of none":  {(&issuer{url: "https://else", key: guests.key}).sign(t, jane), "not mine"},
		"audience of others": {staff.sign(t, map[string]any{"sub": "jane", "aud": "them"}), "oidc: the token is for another audience"},
		"a claim is missing": {staff.sign(t, map[string]any{"sub": "jane", "id": "17"}), `oidc: the required claim "hd" is missing or has another value`},
		"a user's rule":      {guests.sign(t, map[string]any{"sub": "root", "roles": "", "host": ""}), "oidc: error evaluating user info validation rule: validation expression '!user.username.contains('root')' failed: no roots"},
	} {
		if got := who(t, a, test.token); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestExpressions: what expressions make of claims.
func TestExpressions(t *testing.T) {
	op := newIssuer(t, "https://op.example.com")
	for _, test := range []struct {
		name, text string
		claims     map[string]any
		want       string
	}{
		{"name of numbers", "username: {expression: claims.n}", map[string]any{"n": 7}, "oidc: error evaluating username claim expression: expression must return a string"},
		{"empty name", "username: {expression: claims.n}", map[string]any{"n": ""}, "oidc: empty username via CEL expression is not allowed"},
		{"no claim", "username: {expression: claims.n}", nil, "oidc: error evaluating username claim expression: expression 'claims.n' resulted in error: no such key"},
		{"nested", "username: {expression: 'claims.a.b[1].c'}", map[string]any{"a": map[string]any{"b": []any{1, map[string]any{"c": "x"}}}}, "x  [] map[]"},
		{"escaped", "username: {expression: 'claims.a__dot__b.c__dash__d[0].__namespace__'}", map[string]any{"a.b": map[string]any{"c-d": []any{map[string]any{"namespace": "x"}}}}, "x  [] map[]"},
		{"indexed", "username: {expression: 'claims[\"a.b/c\"]'}", map[string]any{"a.b/c": "x"}, "x  [] map[]"},
		{"has", "username: {expression: 'has(claims.a__dot__b) && !has(claims.b) ? claims.a__dot__b : \"y\"'}", map[string]any{"a.b": "x"}, "x  [] map[]"},
		{"escaped within a loop", "username: {expression: 'dyn(claims.l).filter(e, e.a__dot__b == \"x\")[0].n'}", map[string]any{"l": []any{map[string]any{"a.b": "y", "n": "1"}, map[string]any{"a.b": "x", "n": "2"}}}, "2  [] map[]"},
		{"optional", "username: {expression: 'claims.?a.?b.orValue(\"x\")'}", map[string]any{"a": map[string]any{}}, "x  [] map[]"},
		{"library", "username: {expression: 'url(claims.a).getHost()'}", map[string]any{"a": "https://x/y"}, "x  [] map[]"},
		{"groups of nothing", "username: {expression: '\"x\"'}, groups: {expression: claims.g}", map[string]any{"g": nil}, "x  [] map[]"},
		{"one group", "username: {expression: '\"x\"'}, groups: {expression: claims.g}", map[string]any{"g": "a"}, "x  [a] map[]"},
		{"groups that are empty", "username: {expression: '\"x\"'}, groups: {expression: claims.g}", map[string]any{"g": []any{"", "a", ""}}, "x  [a] map[]"},
		{"groups of numbers", "username: {expression: '\"x\"'}, groups: {expression: claims.g}", map[string]any{"g": []any{"a", 1}}, "oidc: error evaluating group claim expression: expression must return a string or a list of strings"},
		{"groups that are mapped", "username: {expression: '\"x\"'}, groups: {expression: 'dyn(claims.g).map(g, \"p:\" + g)'}", map[string]any{"g": []any{"a", "b"}}, "x  [p:a p:b] map[]"},
		{"uid", "username: {expression: '\"x\"'}, uid: {expression: 'string(claims.n)'}", map[string]any{"n": 7}, "x 7 [] map[]"},
		{"extra that is empty", "username: {expression: '\"x\"'}, extra: [{key: a.io/b, valueExpression: claims.e}]", map[string]any{"e": ""}, "x  [] map[]"},
		{"extra", "username: {expression: '\"x\"'}, extra: [{key: a.io/b, valueExpression: claims.e}]", map[string]any{"e": []any{"1", "2"}}, "x  [] map[a.io/b:[1 2]]"},
		{"prefix that is a hyphen", "username: {claim: sub, prefix: '-'}", map[string]any{"sub": "x"}, "-x  [] map[]"},
		{"too dear", "username: {expression: 'string(dyn(claims.l).all(a, dyn(claims.l).all(b, dyn(claims.l).all(c, a + b + c < 0.0)))) + \"x\"'}", map[string]any{"l": make([]int, 300)},
			"oidc: error evaluating username claim expression: expression 'string(dyn(claims.l).all(a, dyn(claims.l).all(b, dyn(claims.l).all(c, a + b + c < 0.0)))) + \"x\"' resulted in error: operation cancelled: actual cost limit exceeded"},
	} {
		if test.name == "too dear" { // all of them equal, so that it goes on to the end
			test.text = strings.ReplaceAll(test.text, "< 0.0", "== 0.0")
			test.want = strings.ReplaceAll(test.want, "< 0.0", "== 0.0")
		}
		text := header + "jwt:\n- issuer: {url: https://op.example.com, audiences: [us]}\n  claimMappings: {" + test.text + "}\n"
		a, stop := follow(t, structured.Config{Read: read(text), Transport: network{"op.example.com": op}})
		token := op.sign(t, test.claims)
		eventuallyNot(t, a, token, "oidc: the keys of the issuer have not been found yet: the credential could not be checked")
		if got := who(t, a, token); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
		stop()
	}
}

func eventuallyNot(t testing.TB, a *structured.Authenticator, token, not string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); who(t, a, token) == not; {
		if time.Now().After(deadline) {
			t.Fatal(not)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(time.Millisecond):
		}
	}
}

// TestClaimRules: all must be true.
func TestClaimRules(t *testing.T) {
	op := newIssuer(t, "https://op.example.com")
	text := one(named + "claimValidationRules: [{expression: 'claims.exp - claims.nbf <= 86400', message: too long}, {expression: claims.ok == true}]")
	a, stop := follow(t, structured.Config{Read: read(text), Transport: network{"op.example.com": op}})
	defer stop()
	now := time.Now().Unix()
	good := map[string]any{"sub": "x", "nbf": now, "ok": true}
	eventually(t, a, op.sign(t, good), "x  [] map[]")
	for want, claims := range map[string]map[string]any{
		"oidc: error evaluating claim validation expression: validation expression 'claims.exp - claims.nbf <= 86400' failed: too long":    {"sub": "x", "nbf": now - 90000, "ok": true},
		"oidc: error evaluating claim validation expression: expression 'claims.exp - claims.nbf <= 86400' resulted in error: no such key": {"sub": "x", "ok": true},
		"oidc: error evaluating claim validation expression: validation expression 'claims.ok == true' failed: ":                           {"sub": "x", "nbf": now, "ok": "true"},
	} {
		if got := who(t, a, op.sign(t, claims)); got != want {
			t.Errorf("%v: %s, want %s", claims, got, want)
		}
	}
}
