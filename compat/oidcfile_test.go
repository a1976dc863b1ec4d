package compat

import (
	"context"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/review"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/structured"
	"github.com/planekit/planekit/authz"
)

// authority returns the provider's certificate as lines of a configuration.
func (p *provider) authority(t *testing.T) string {
	t.Helper()
	raw := p.certificate.Raw
	return strings.ReplaceAll(strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))), "\n", "\n      ")
}

// TestOIDCByFile uses two real providers in kube-apiserver's file, one of which makes users with
// CEL. A provider that is down does not delay the other.
func TestOIDCByFile(t *testing.T) {
	one, two := startProvider(t), startProvider(t)
	file := "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n" +
		"- issuer:\n    url: " + one.Issuer() + "\n    audiences: [" + one.ClientID + "]\n    certificateAuthority: |\n      " + one.authority(t) +
		"\n  claimMappings: {username: {claim: email, prefix: 'one:'}, groups: {claim: groups, prefix: 'one:'}}\n" +
		"- issuer:\n    url: " + two.Issuer() + "\n    audiences: [" + two.ClientID + ", another]\n    audienceMatchPolicy: MatchAny\n    certificateAuthority: |\n      " + two.authority(t) +
		"\n  claimMappings:\n    username: {expression: 'claims.email_verified ? \"two:\" + claims.email : claims.sub'}\n" +
		"    groups: {expression: 'dyn(claims.groups).filter(g, g != \"design\")'}\n" +
		"    extra: [{key: example.com/party, valueExpression: claims.azp}]\n" +
		"  userValidationRules: [{expression: \"user.extra['example.com/party'][0] != 'another'\", message: another party}]\n"
	two.up.Store(false)
	two.client.CloseIdleConnections()
	people, err := structured.New(structured.Config{Read: func() ([]byte, error) { return []byte(file), nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- people.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	anybody := authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) { return authz.Allow, "", nil })
	server := apiservertest.Start(t, apiservertest.WithAuthenticator(authn.Chain{people}), apiservertest.WithAuthorizer(anybody),
		apiservertest.WithResources(review.Resources(authn.Chain{people}, anybody)...))
	first := one.login(t, one.ClientID)
	believed(t, server, "the one that is up", first)
	u, err := whoami(t, server, first)
	if err != nil || u.Username != "one:jane.doe@example.com" || !slices.Equal(u.Groups, []string{"one:engineering", "one:design", "system:authenticated"}) {
		t.Errorf("whoami = %+v, %v, want one:jane.doe@example.com in one:engineering, one:design, system:authenticated", u, err)
	}
	two.up.Store(true)
	second := two.login(t, two.ClientID)
	believed(t, server, "the one that was down", second)
	u, err = whoami(t, server, second)
	if err != nil || u.Username != "two:jane.doe@example.com" || !slices.Equal(u.Groups, []string{"engineering", "system:authenticated"}) ||
		!slices.Equal(u.Extra["example.com/party"], []string{two.ClientID}) {
		t.Errorf("whoami = %+v, %v, want two:jane.doe@example.com in engineering, system:authenticated, of the party %s", u, err, two.ClientID)
	}
	refused(t, server, "another party's, whom a rule refuses", two.login(t, "another"))
	refused(t, server, "another party's, for another audience", one.login(t, "another"))
	refused(t, server, "over", two.expired(t))
}
