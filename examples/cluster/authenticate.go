package main

import (
	"bytes"
	"context"
	"crypto/tls"
	stdx509 "crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/anonymous"
	"github.com/planekit/planekit/authn/basicauth"
	"github.com/planekit/planekit/authn/bootstraptoken"
	"github.com/planekit/planekit/authn/oidc"
	"github.com/planekit/planekit/authn/reload"
	"github.com/planekit/planekit/authn/requestheader"
	"github.com/planekit/planekit/authn/structured"
	"github.com/planekit/planekit/authn/tokencache"
	"github.com/planekit/planekit/authn/tokenfile"
	"github.com/planekit/planekit/authn/webhook"
	"github.com/planekit/planekit/authn/x509"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// audiences are who this API server is to those who issue tokens.
var audiences = []string{issuer}

// doors are the ways into the cluster, and what keeps them up to date.
type doors struct {
	chain authn.Chain
	log   logr.Logger
	stack *stack
	// anonymous is what --authentication-config says of it, if anything.
	anonymous *structured.Anonymous
}

// add adds a way whose credentials do not say for whom they are: they are for
// this server.
func (d *doors) add(a authn.Authenticator) { d.chain = append(d.chain, authn.MeantFor(audiences, a)) }

// authenticator asks, in kube-apiserver's order, for a front proxy, a client
// certificate, and then for a bearer token or a password. Who has none of them is
// anonymous.
func (c *cluster) authenticator(accounts authn.Authenticator, api *client.Client) (authn.Authenticator, error) {
	o := c.options.access
	d := &doors{log: c.log.WithName("authentication"), stack: c.stack}
	steps := []struct {
		wanted bool
		add    func() error
	}{
		{true, func() error { return d.proxies(c.credentials, o.proxy) }},
		{true, func() error { return d.certificates(c.credentials, o.clientCA) }},
		{true, func() error { d.chain = append(d.chain, accounts); return nil }},
		{true, func() error { return d.ownTokens(c.credentials) }},
		{o.tokenFile != "", func() error { return follow(d, "--token-auth-file", o.tokenFile, tokenfile.Read) }},
		{o.basicFile != "", func() error { return follow(d, "--basic-auth-file", o.basicFile, basicauth.Read) }},
		{o.bootstrapTokens, func() error { return d.bootstrap(c.copies, api) }},
		{o.oidc.issuer != "", func() error { return d.oidc(o.oidc) }},
		{o.authenticationConfig != "", func() error { return d.structured(o) }},
		{o.tokenWebhook != "", func() error { return d.webhook(o) }},
		{true, func() error { return d.nobody(o) }},
	}
	for _, step := range steps {
		if !step.wanted {
			continue
		}
		if err := step.add(); err != nil {
			return nil, err
		}
	}
	return d.chain, nil
}

// proxies believes the cluster's own front proxies, and those of the flags.
func (d *doors) proxies(own *credentials, o proxyOptions) error {
	mine, err := own.frontProxies()
	if err != nil {
		return err
	}
	d.add(mine)
	if o.ca == "" {
		return nil
	}
	roots, err := followRoots(d, "--requestheader-client-ca-file", o.ca, nil)
	if err != nil {
		return err
	}
	theirs, err := requestheader.New(requestheader.Config{
		CurrentRoots: roots.Current, AllowedNames: o.names,
		UserHeaders: o.users, UIDHeaders: o.uids, GroupHeaders: o.groups, ExtraPrefixes: o.prefixes,
	})
	d.add(theirs)
	return err
}

func (d *doors) certificates(own *credentials, file string) error {
	config := x509.Config{Roots: own.authority.Pool()}
	if file != "" {
		roots, err := followRoots(d, "--client-ca-file", file, own.authority.CertificatePEM)
		if err != nil {
			return err
		}
		config = x509.Config{CurrentRoots: roots.Current}
	}
	certificates, err := x509.New(config)
	d.add(certificates)
	return err
}

// ownTokens knows the administrator's token, in the data directory.
func (d *doors) ownTokens(own *credentials) error {
	entries, err := tokenfile.Parse(bytes.NewReader(own.tokens))
	if err != nil {
		return fmt.Errorf("tokens.csv in the data directory: %w", err)
	}
	tokens, err := tokenfile.New(entries)
	d.add(tokens)
	return err
}

// bootstrap believes the tokens with which nodes join.
func (d *doors) bootstrap(copies *copies, api *client.Client) error {
	tokens, err := bootstraptoken.New(bootstraptoken.Config{
		Secrets: func(ctx context.Context, namespace, name string) (bootstraptoken.Secret, bool, error) {
			secret, ok := copies.secrets.Get(namespace + "/" + name)
			if !ok {
				var err error
				secret, err = typed.Secrets(api).Get(ctx, namespace, name)
				if apierrors.IsNotFound(err) {
					return bootstraptoken.Secret{}, false, nil
				}
				if err != nil {
					return bootstraptoken.Secret{}, false, err
				}
			}
			return bootstraptoken.Secret{Type: string(secret.Type), Data: secret.Data, Deleted: secret.DeletionTimestamp != nil}, true, nil
		},
	})
	d.add(tokens)
	return err
}

// oidc believes the ID tokens of an issuer, each of which is verified once in ten
// seconds.
func (d *doors) oidc(o oidcOptions) error {
	issuer := oidc.Issuer{
		URL: o.issuer, ClientIDs: []string{o.client},
		UsernameClaim: o.usernameClaim, UsernamePrefix: o.usernamePrefix,
		GroupsClaim: o.groupsClaim, GroupsPrefix: o.groupsPrefix,
		RequiredClaims: o.required, Algorithms: o.algorithms,
	}
	if o.ca != "" {
		data, err := os.ReadFile(o.ca)
		if err != nil {
			return fmt.Errorf("--oidc-ca-file: %w", err)
		}
		if issuer.Roots, err = x509.ParseRoots(data); err != nil {
			return fmt.Errorf("--oidc-ca-file %s: %w", o.ca, err)
		}
	}
	tokens, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{issuer}, Log: d.log.WithName("oidc")})
	if err != nil {
		return fmt.Errorf("--oidc-issuer-url: %w", err)
	}
	return d.idTokens(tokens)
}

// idTokens runs and adds an authenticator of ID tokens.
func (d *doors) idTokens(tokens interface {
	authn.Authenticator
	Run(context.Context) error
}) error {
	d.stack.start("OpenID Connect", tokens.Run)
	cached, err := tokencache.New(tokencache.Config{Authenticator: tokens})
	d.add(cached)
	return err
}

// structured believes the issuers of a file, and follows it.
func (d *doors) structured(o accessOptions) error {
	const flag = "--authentication-config"
	tokens, err := structured.New(structured.Config{
		Read:       func() ([]byte, error) { return os.ReadFile(o.authenticationConfig) },
		Disallowed: []string{issuer},
		Log:        d.log.WithName("oidc"),
	})
	if err != nil {
		return fmt.Errorf("%s %s: %w", flag, o.authenticationConfig, err)
	}
	d.anonymous = tokens.Anonymous()
	if d.anonymous != nil && o.given("anonymous-auth") {
		return fmt.Errorf("%s %s: anonymous: --anonymous-auth cannot be set when the file has this field", flag, o.authenticationConfig)
	}
	return d.idTokens(tokens)
}

// nobody lets requests without credentials in as those of system:anonymous.
func (d *doors) nobody(o accessOptions) error {
	who := structured.Anonymous{Enabled: o.anonymous}
	if d.anonymous != nil {
		who = *d.anonymous
	}
	if !who.Enabled {
		return nil
	}
	if slices.Contains(o.modes, modeAllow) {
		return errors.New("anonymous requests must not be enabled with --authorization-mode=AlwaysAllow: whoever reaches the server could do everything")
	}
	d.chain = append(d.chain, anonymous.Authenticator{Paths: who.Paths})
	return nil
}

// webhook asks a service about tokens.
func (d *doors) webhook(o accessOptions) error {
	const flag = "--authentication-token-webhook-config-file"
	service, err := reviewer(flag, o.tokenWebhook)
	if err != nil {
		return err
	}
	asked, err := webhook.New(webhook.Config{URL: service.Server, TLS: service.TLS, BearerToken: service.BearerToken, Audiences: audiences})
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	d.stack.closing("token webhook", func() error { asked.Close(); return nil })
	cached, err := tokencache.New(tokencache.Config{Authenticator: asked, SuccessTTL: o.tokenWebhookTTL, FailureTTL: o.tokenWebhookTTL})
	d.chain = append(d.chain, cached)
	return err
}

// reviewer reads the kubeconfig of a service that is asked.
func reviewer(flag, file string) (client.Config, error) {
	config, err := kubeconfig.Load(file)
	if err != nil {
		return client.Config{}, fmt.Errorf("%s: %w", flag, err)
	}
	service, _, err := config.Client("")
	if err != nil {
		return client.Config{}, fmt.Errorf("%s: %w", flag, err)
	}
	return service, nil
}

// follow adds an authenticator that is read from a file and follows it.
func follow[T authn.Authenticator](d *doors, flag, file string, parse func([]byte) (T, error)) error {
	value, err := followFile(d, flag, file, parse)
	if err == nil {
		d.add(reload.Authenticator(value))
	}
	return err
}

// followRoots follows a file of authorities, to which more are added.
func followRoots(d *doors, flag, file string, more []byte) (*reload.Value[*stdx509.CertPool], error) {
	return followFile(d, flag, file, func(data []byte) (*stdx509.CertPool, error) {
		roots, err := x509.ParseRoots(data)
		if err == nil {
			roots.AppendCertsFromPEM(more)
		}
		return roots, err
	})
}

func followFile[T any](d *doors, flag, file string, parse func([]byte) (T, error)) (*reload.Value[T], error) {
	value, err := reload.New(reload.Config[T]{
		Read:   func() ([]byte, error) { return os.ReadFile(file) },
		Parse:  parse,
		Failed: func(err error) { d.log.Error(err, "the file cannot be used; what it said before stays", "flag", flag) },
	})
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, file, err)
	}
	d.stack.start(flag, value.Run)
	return value, nil
}

// tls is for the API server. Clients may show a certificate and are believed
// only by an authenticator, which verifies it.
func (c *cluster) tls() *tls.Config {
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{c.credentials.serving.TLS()},
		ClientAuth:   tls.RequestClientCert,
	}
	// A client that is told which authorities are believed shows no certificate of
	// another. Those of files may change.
	if o := c.options.access; o.clientCA == "" && o.proxy.ca == "" {
		config.ClientCAs = c.credentials.authority.Pool()
		config.ClientCAs.AddCert(c.credentials.frontProxy.Certificate)
	}
	return config
}
