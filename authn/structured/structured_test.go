package structured_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/oidc"
	"github.com/planekit/planekit/authn/structured"
)

const header = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"

// one is a configuration of one issuer, with what comes below jwt[0].
func one(text string) string {
	return header + "jwt:\n- " + strings.TrimPrefix(indent(text, "  "), "  ")
}

// fine is an issuer that can be used.
const fine = "issuer: {url: https://op.example.com, audiences: [us]}\n"

// named is that, with a name for its users.
const named = fine + "claimMappings: {username: {claim: sub, prefix: ''}}\n"

func TestParse(t *testing.T) {
	for _, text := range []string{
		header, header + "jwt: []\nanonymous: {enabled: true, conditions: [{path: /livez}]}", one(named),
		strings.Replace(one(named), "/v1", "/v1beta1", 1), strings.Replace(one(named), "/v1", "/v1alpha1", 1),
		one("issuer: {url: https://op.example.com, discoveryURL: https://elsewhere/x, audiences: [us, them], audienceMatchPolicy: MatchAny}\nclaimMappings: {username: {expression: claims.sub}}"),
	} {
		s, err := structured.Parse([]byte(text), "https://kubernetes.default.svc")
		if err != nil {
			t.Errorf("Parse(%q): %v", text, err)
		}
		if len(s.Issuers) > 0 {
			if _, err := oidc.New(oidc.Config{Issuers: s.Issuers}); err != nil {
				t.Errorf("New with the issuers of %q: %v", text, err)
			}
		}
	}
	s, err := structured.Parse([]byte(header + "anonymous: {enabled: true, conditions: [{path: /livez}, {path: /readyz}]}"))
	if err != nil || s.Anonymous == nil || !s.Anonymous.Enabled || fmt.Sprint(s.Anonymous.Paths) != "[/livez /readyz]" {
		t.Errorf("Parse has the anonymous settings %+v, %v, want enabled with [/livez /readyz]", s.Anonymous, err)
	}
}

// TestParseRefuses: errors name their field and say what kube-apiserver says.
func TestParseRefuses(t *testing.T) {
	username := func(text string) string { return one(fine + "claimMappings: {username: " + text + "}") }
	issuer := func(text string) string {
		return one("issuer: {" + text + "}\nclaimMappings: {username: {claim: sub, prefix: ''}}")
	}
	rules := func(text string) string { return one(named + "claimValidationRules: " + text) }
	mapped := func(text string) string {
		return one(fine + "claimMappings: {username: {claim: sub, prefix: ''}, " + text + "}")
	}
	for _, test := range []struct{ text, want string }{
		{"", "empty config data"},
		{"{", "did not find expected"},
		{"apiVersion: v1\nkind: Pod", `no AuthenticationConfiguration of apiserver.config.k8s.io/v1, apiserver.config.k8s.io/v1beta1, apiserver.config.k8s.io/v1alpha1: apiVersion "v1", kind "Pod"`},
		{header + "jwts: []", `strict decoding error: unknown field "jwts"`},
		{header + "JWT: []", `unknown field "JWT"`},
		{issuer("url: https://a, audience: [x]"), `unknown field "jwt[0].issuer.audience"`},
		{header + "jwt: []\njwt: []", `already set in map`},
		{header + "jwt: {}", "cannot unmarshal object"},
		{issuer("audiences: [x]"), "jwt[0].issuer.url: Required value"},
		{issuer("url: 'http://a', audiences: [x]"), `jwt[0].issuer.url: Invalid value: "http://a": URL scheme must be https`},
		{issuer("url: 'https://u:secret@a', audiences: [x]"), `jwt[0].issuer.url: Invalid value: "https://u:xxxxx@a": URL must not contain a username or password`},
		{issuer("url: 'https://a?b', audiences: [x]"), "URL must not contain a query"},
		{issuer("url: 'https://a#b', audiences: [x]"), "URL must not contain a fragment"},
		{issuer("url: 'https://%zz', audiences: [x]"), `jwt[0].issuer.url: Invalid value: "<omitted>": the URL cannot be read`},
		{issuer("url: 'https://kubernetes.default.svc', audiences: [x]"), "URL must not overlap with disallowed issuers: [https://kubernetes.default.svc]"},
		{issuer("url: https://a, discoveryURL: https://a/, audiences: [x]"), "jwt[0].issuer.discoveryURL: Invalid value: \"https://a/\": discoveryURL must be different from URL"},
		{issuer("url: https://a, discoveryURL: 'http://b', audiences: [x]"), "jwt[0].issuer.discoveryURL"},
		{issuer("url: https://a"), "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required"},
		{issuer("url: https://a, audiences: ['']"), "jwt[0].issuer.audiences[0]: Required value"},
		{issuer("url: https://a, audiences: [x, x], audienceMatchPolicy: MatchAny"), `jwt[0].issuer.audiences[1]: Duplicate value: "x"`},
		{issuer("url: https://a, audiences: [x, z]"), `jwt[0].issuer.audienceMatchPolicy: Invalid value: "": audienceMatchPolicy must be MatchAny for multiple audiences`},
		{issuer("url: https://a, audiences: [x], audienceMatchPolicy: MatchAll"), "audienceMatchPolicy must be empty or MatchAny for single audience"},
		{issuer("url: https://a, audiences: [x], certificateAuthority: none"), `jwt[0].issuer.certificateAuthority: Invalid value: "<omitted>": data does not contain any valid RSA or ECDSA certificates`},
		{issuer("url: https://a, audiences: [x], egressSelectorType: cluster"), "jwt[0].issuer.egressSelectorType: Forbidden"},
		{one(named) + "- " + strings.TrimPrefix(indent(named, "  "), "  "), `jwt[1].issuer.url: Duplicate value: "https://op.example.com"`},
		{header + "jwt:\n" + strings.Repeat("- "+strings.TrimPrefix(indent(named, "  "), "  "), 65), "jwt: Too many: 65: must have at most 64 items"},
		{header + "anonymous: {enabled: false, conditions: [{path: /livez}]}", "anonymous.conditions: Invalid value"},
		{one(fine), "jwt[0].claimMappings.username: Required value: claim or expression is required"},
		{username("{claim: sub}"), "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing"},
		{username("{claim: sub, expression: claims.sub}"), "jwt[0].claimMappings.username: Invalid value: \"\": claim and expression can't both be set"},
		{username("{expression: claims.sub, prefix: x}"), "jwt[0].claimMappings.username.prefix: Invalid value: \"x\": may not be specified when expression is set"},
		{username("{expression: 'claims.sub +'}"), "jwt[0].claimMappings.username.expression: Invalid value: \"claims.sub +\": compilation failed: ERROR: <input>:1:13: Syntax error"},
		{username("{expression: user.username}"), "undeclared reference to 'user'"},
		{username("{expression: 'authorizer.group(\"\")'}"), "undeclared reference to 'authorizer'"},
		{username("{expression: claims.email}"), "jwt[0].claimMappings.username.expression: Invalid value: \"claims.email\": claims.email_verified must be used in"},
		{username("{expression: 'claims.?email.orValue(\"x\")'}"), "claims.email_verified must be used in"},
		{mapped("groups: {claim: g}"), "jwt[0].claimMappings.groups.prefix: Required value"},
		{mapped("uid: {claim: a, expression: claims.b}"), "jwt[0].claimMappings.uid: Invalid value"},
		{mapped("uid: {expression: '('}"), "jwt[0].claimMappings.uid.expression: Invalid value"},
		{mapped("extra: [{key: foo, valueExpression: claims.a}]"), `jwt[0].claimMappings.extra[0].key: Invalid value: "foo": must be a domain-prefixed path (such as "acme.io/foo")`},
		{mapped("extra: [{key: a.io/Foo, valueExpression: claims.a}]"), "must be lowercase"},
		{mapped("extra: [{key: a.k8s.io/foo, valueExpression: claims.a}]"), "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"},
		{mapped("extra: [{key: kubernetes.io/foo, valueExpression: claims.a}]"), "reserved"},
		{mapped("extra: [{key: a.io/foo, valueExpression: claims.a}, {key: a.io/foo, valueExpression: claims.a}]"), "jwt[0].claimMappings.extra[1].key: Duplicate value"},
		{mapped("extra: [{key: a.io/foo}]"), "jwt[0].claimMappings.extra[0].valueExpression: Required value"},
		{rules("[{}]"), "jwt[0].claimValidationRules[0]: Required value: claim or expression is required"},
		{rules("[{claim: a, expression: 'true'}]"), "claim and expression can't both be set"},
		{rules("[{claim: a, message: m}]"), "jwt[0].claimValidationRules[0].message: Invalid value"},
		{rules("[{claim: a}, {claim: a}]"), "jwt[0].claimValidationRules[1].claim: Duplicate value"},
		{rules("[{expression: 'true', requiredValue: v}]"), "jwt[0].claimValidationRules[0].requiredValue: Invalid value"},
		{rules("[{expression: 'true'}, {expression: 'true'}]"), "jwt[0].claimValidationRules[1].expression: Duplicate value"},
		{rules("[{expression: claims.admin}]"), "jwt[0].claimValidationRules[0].expression: Invalid value: \"claims.admin\": must evaluate to bool"},
		{one(named + "userValidationRules: [{expression: ''}]"), "jwt[0].userValidationRules[0].expression: Required value"},
		{one(named + "userValidationRules: [{expression: user.name != ''}]"), "undefined field 'name'"},
		{one(named + "userValidationRules: [{expression: 'user.username'}]"), "must evaluate to bool"},
		{one(named + "userValidationRules: [{expression: 'true'}, {expression: 'true'}]"), "jwt[0].userValidationRules[1].expression: Duplicate value"},
	} {
		_, err := structured.Parse([]byte(test.text), "https://kubernetes.default.svc")
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\n%v\nwant %s", test.text, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("a password in %v", err)
		}
	}
}

// TestEmailMayBeTheName: wherever it is looked at, as kube-apiserver has it.
func TestEmailMayBeTheName(t *testing.T) {
	const by = "claimMappings:\n  username: {expression: 'claims.email'}\n"
	for _, text := range []string{
		fine + "claimMappings: {username: {expression: 'claims.email_verified ? claims.email : claims.sub'}}",
		fine + by + "claimValidationRules: [{expression: 'claims.?email_verified.orValue(true) == true'}]",
		fine + by + "  extra: [{key: a.io/v, valueExpression: 'string(claims.email_verified)'}]",
		fine + "claimMappings: {username: {claim: email, prefix: ''}}",
	} {
		if _, err := structured.Parse([]byte(one(text))); err != nil {
			t.Errorf("Parse(%q): %v", one(text), err)
		}
	}
}

func Example() {
	config, err := structured.Parse([]byte(`
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: https://accounts.example.com, audiences: [kubernetes]}
  claimMappings:
    username: {expression: '"staff:" + claims.sub'}
    groups: {claim: groups, prefix: 'staff:'}
  userValidationRules:
  - {expression: "!user.username.startsWith('system:')", message: 'system: is reserved'}
anonymous:
  enabled: true
  conditions: [{path: /livez}]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	people, err := oidc.New(oidc.Config{Issuers: config.Issuers})
	fmt.Println(len(authn.Chain{people}), config.Anonymous.Paths, err)
	_, err = structured.Parse([]byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymus: {}"))
	fmt.Println(err)
	// Output:
	// 1 [/livez] <nil>
	// strict decoding error: unknown field "anonymus"
}

// FuzzParse reads anything, and what it takes package oidc takes too.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{header, one(named), one(fine), one(named + "userValidationRules: [{expression: 'true'}]"),
		one(fine + "claimMappings: {username: {expression: claims.email}, extra: [{key: a.io/b, valueExpression: claims.x}]}"), "{", "- a", header + "anonymous: {enabled: true}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := structured.Parse([]byte(text), "https://kubernetes.default.svc")
		if err != nil || len(s.Issuers) == 0 {
			return
		}
		if _, err := oidc.New(oidc.Config{Issuers: s.Issuers}); err != nil {
			t.Errorf("New with the issuers of %q: %v", text, err)
		}
	})
}
