package main

import (
	"bytes"
	"context"
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
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/authorizers"
	"github.com/planekit/planekit/plane/credentials"
	"github.com/planekit/planekit/plane/stack"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// doors are the ways into the cluster, and what keeps them up to date.
type doors struct {
	chain authn.Chain
	log   logr.Logger
	stack *stack.Stack
	// anonymous is the setting in --authentication-config; nil if it has none.
	anonymous *structured.Anonymous
}

// add adds a way whose credentials do not say for whom they are: they are for
// this server.
func (d *doors) add(a authn.Authenticator) {
	d.chain = append(d.chain, authn.MeantFor(plane.Audiences(), a))
}

// authenticator asks, in kube-apiserver's order, for a front proxy, a client
// certificate, and then for a bearer token or a password. A request with none of them is
// anonymous.
func (c *cluster) authenticator(p *plane.Plane) (authn.Authenticator, error) {
	o := c.options.access
	d := &doors{log: c.log.WithName("authentication"), stack: c.stack}
	steps := []struct {
		wanted bool
		add    func() error
	}{
		{true, func() error { return d.proxies(p, o.proxy) }},
		{true, func() error { return d.certificates(p.Credentials, o.clientCA) }},
		{true, func() error { d.chain = append(d.chain, p.Accounts); return nil }},
		{true, func() error { return d.ownTokens(c.tokens) }},
		{o.tokenFile != "", func() error { return follow(d, "--token-auth-file", o.tokenFile, tokenfile.Read) }},
		{o.basicFile != "", func() error { return follow(d, "--basic-auth-file", o.basicFile, basicauth.Read) }},
		{o.bootstrapTokens, func() error { return d.bootstrap(p) }},
		{o.oidc.issuer != "", func() error { return d.oidc(o.oidc) }},
		{o.authenticationConfig != "", func() error { return d.structured(o) }},
		{o.tokenWebhook != "", func() error { return d.webhook(o) }},
		{true, func() error { return d.admitAnonymous(o) }},
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
func (d *doors) proxies(p *plane.Plane, o proxyOptions) error {
	mine, err := p.FrontProxies()
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

func (d *doors) certificates(own *credentials.Credentials, file string) error {
	config := x509.Config{Roots: own.Authority.Pool()}
	if file != "" {
		roots, err := followRoots(d, "--client-ca-file", file, own.Authority.CertificatePEM)
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
func (d *doors) ownTokens(csv []byte) error {
	entries, err := tokenfile.Parse(bytes.NewReader(csv))
	if err != nil {
		return fmt.Errorf("tokens.csv in the data directory: %w", err)
	}
	tokens, err := tokenfile.New(entries)
	d.add(tokens)
	return err
}

// bootstrap believes the tokens with which nodes join.
func (d *doors) bootstrap(p *plane.Plane) error {
	tokens, err := bootstraptoken.New(bootstraptoken.Config{
		Secrets: func(ctx context.Context, namespace, name string) (bootstraptoken.Secret, bool, error) {
			secret, ok := p.Caches.Secrets.Get(namespace + "/" + name)
			if !ok {
				var err error
				secret, err = typed.Secrets(p.Client()).Get(ctx, namespace, name)
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
	d.stack.Start("OpenID Connect", tokens.Run)
	cached, err := tokencache.New(tokencache.Config{Authenticator: tokens})
	d.add(cached)
	return err
}

// structured believes the issuers of a file, and follows it.
func (d *doors) structured(o accessOptions) error {
	const flag = "--authentication-config"
	tokens, err := structured.New(structured.Config{
		Read:       func() ([]byte, error) { return os.ReadFile(o.authenticationConfig) },
		Disallowed: []string{plane.Issuer},
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

// admitAnonymous accepts requests without credentials as those of system:anonymous.
func (d *doors) admitAnonymous(o accessOptions) error {
	who := structured.Anonymous{Enabled: o.anonymous}
	if d.anonymous != nil {
		who = *d.anonymous
	}
	if !who.Enabled {
		return nil
	}
	if slices.Contains(o.modes, authorizers.AlwaysAllow) {
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
	asked, err := webhook.New(webhook.Config{URL: service.Server, TLS: service.TLS, BearerToken: service.BearerToken, Audiences: plane.Audiences()})
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	d.stack.OnStop("token webhook", func() error { asked.Close(); return nil })
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
	d.stack.Start(flag, value.Run)
	return value, nil
}
