package kubeflags

import (
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
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/authorizers"
	"github.com/planekit/planekit/plane/stack"
)

// chainBuilder builds the chain of authenticators, and starts what reads their files again.
type chainBuilder struct {
	options *Options
	plane   *plane.Plane
	own     []authn.Authenticator // of the program
	log     logr.Logger
	stack   *stack.Stack

	chain authn.Chain
	// anonymous is the setting in --authentication-config; nil if it has none.
	anonymous *structured.Anonymous
}

// build returns the chain in kube-apiserver's order: front proxies, client certificates, and then
// bearer tokens and passwords. A request without any credentials is anonymous.
func (b *chainBuilder) build() (authn.Authenticator, error) {
	a := &b.options.authentication
	for _, step := range []struct {
		wanted bool
		add    func() error
	}{
		{true, b.addProxies},
		{true, b.addCertificates},
		{true, b.addOwn},
		{a.tokenFile != "", func() error { return addFile(b, "--token-auth-file", a.tokenFile, tokenfile.Read) }},
		{a.basicFile != "", func() error { return addFile(b, "--basic-auth-file", a.basicFile, basicauth.Read) }},
		{a.bootstrapTokens, b.addBootstrapTokens},
		{a.oidc.issuer != "", b.addIssuer},
		{a.configFile != "", b.addConfigFile},
		{a.webhook != "", b.addWebhook},
		{true, b.addAnonymous},
	} {
		if !step.wanted {
			continue
		}
		if err := step.add(); err != nil {
			return nil, err
		}
	}
	return b.chain, nil
}

// add adds an authenticator whose credentials do not name an audience: they are for this server.
func (b *chainBuilder) add(a authn.Authenticator) {
	b.chain = append(b.chain, authn.MeantFor(b.plane.Audiences(), a))
}

// addProxies adds the control plane's own front proxies and those of the flags.
func (b *chainBuilder) addProxies() error {
	own, err := b.plane.Credentials.FrontProxies()
	if err != nil {
		return err
	}
	b.add(own)
	f := b.options.authentication.proxy
	if f.ca == "" {
		return nil
	}
	roots, err := watchRoots(b, "--requestheader-client-ca-file", f.ca, nil)
	if err != nil {
		return err
	}
	others, err := requestheader.New(requestheader.Config{
		CurrentRoots: roots.Current, AllowedNames: f.names,
		UserHeaders: f.users, UIDHeaders: f.uids, GroupHeaders: f.groups, ExtraPrefixes: f.prefixes,
	})
	b.add(others)
	return err
}

func (b *chainBuilder) addCertificates() error {
	authority := b.plane.Credentials.Authority
	config := x509.Config{Roots: authority.Pool()}
	if file := b.options.authentication.clientCA; file != "" {
		roots, err := watchRoots(b, "--client-ca-file", file, authority.CertificatePEM)
		if err != nil {
			return err
		}
		config = x509.Config{CurrentRoots: roots.Current}
	}
	certificates, err := x509.New(config)
	b.add(certificates)
	return err
}

// addOwn adds service account tokens and the authenticators of the program.
func (b *chainBuilder) addOwn() error {
	b.chain = append(b.chain, b.plane.Accounts)
	for _, a := range b.own {
		b.add(a)
	}
	return nil
}

// addBootstrapTokens adds the tokens with which nodes join.
func (b *chainBuilder) addBootstrapTokens() error {
	tokens, err := b.plane.JoiningNodes()
	b.add(tokens)
	return err
}

// addIssuer adds the ID tokens of the issuer of the flags.
func (b *chainBuilder) addIssuer() error {
	f := b.options.authentication.oidc
	issuer := oidc.Issuer{
		URL: f.issuer, ClientIDs: []string{f.client},
		UsernameClaim: f.usernameClaim, UsernamePrefix: f.usernamePrefix,
		GroupsClaim: f.groupsClaim, GroupsPrefix: f.groupsPrefix,
		RequiredClaims: f.required, Algorithms: f.algorithms,
	}
	if f.ca != "" {
		data, err := os.ReadFile(f.ca)
		if err != nil {
			return fmt.Errorf("--oidc-ca-file: %w", err)
		}
		if issuer.Roots, err = x509.ParseRoots(data); err != nil {
			return fmt.Errorf("--oidc-ca-file %s: %w", f.ca, err)
		}
	}
	tokens, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{issuer}, Log: b.log.WithName("oidc")})
	if err != nil {
		return fmt.Errorf("--oidc-issuer-url: %w", err)
	}
	return b.addIDTokens(tokens)
}

// addIDTokens runs and adds an authenticator of ID tokens. A token is verified at most once in ten
// seconds.
func (b *chainBuilder) addIDTokens(tokens interface {
	authn.Authenticator
	Run(context.Context) error
}) error {
	b.stack.Start("OpenID Connect", tokens.Run)
	cached, err := tokencache.New(tokencache.Config{Authenticator: tokens})
	b.add(cached)
	return err
}

// addConfigFile adds the issuers of a file, which is read again when it changes.
func (b *chainBuilder) addConfigFile() error {
	const flag = "--authentication-config"
	file := b.options.authentication.configFile
	tokens, err := structured.New(structured.Config{
		Read:       func() ([]byte, error) { return os.ReadFile(file) },
		Disallowed: b.plane.Audiences(),
		Log:        b.log.WithName("oidc"),
	})
	if err != nil {
		return fmt.Errorf("%s %s: %w", flag, file, err)
	}
	b.anonymous = tokens.Anonymous()
	if b.anonymous != nil && b.options.given("anonymous-auth") {
		return fmt.Errorf("%s %s: anonymous: --anonymous-auth cannot be set when the file has this field", flag, file)
	}
	return b.addIDTokens(tokens)
}

// addAnonymous accepts requests without credentials as those of system:anonymous.
func (b *chainBuilder) addAnonymous() error {
	setting := structured.Anonymous{Enabled: b.options.authentication.anonymous}
	if b.anonymous != nil {
		setting = *b.anonymous
	}
	if !setting.Enabled {
		return nil
	}
	if slices.Contains(b.options.authorization.modes, authorizers.AlwaysAllow) {
		return errors.New("anonymous requests must not be enabled with --authorization-mode=AlwaysAllow: whoever reaches the server could do everything")
	}
	b.chain = append(b.chain, anonymous.Authenticator{Paths: setting.Paths})
	return nil
}

// addWebhook adds a service that reviews tokens.
func (b *chainBuilder) addWebhook() error {
	const flag = "--authentication-token-webhook-config-file"
	a := &b.options.authentication
	service, err := readService(flag, a.webhook)
	if err != nil {
		return err
	}
	reviewer, err := webhook.New(webhook.Config{URL: service.Server, TLS: service.TLS, BearerToken: service.BearerToken, Audiences: b.plane.Audiences()})
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	b.stack.OnStop("token webhook", func() error { reviewer.Close(); return nil })
	cached, err := tokencache.New(tokencache.Config{Authenticator: reviewer, SuccessTTL: a.webhookTTL, FailureTTL: a.webhookTTL})
	b.chain = append(b.chain, cached)
	return err
}

// readService reads the kubeconfig of a webhook.
func readService(flag, file string) (client.Config, error) {
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

// addFile adds an authenticator that is read from a file, and again when the file changes.
func addFile[T authn.Authenticator](b *chainBuilder, flag, file string, parse func([]byte) (T, error)) error {
	value, err := watchFile(b, flag, file, parse)
	if err == nil {
		b.add(reload.Authenticator(value))
	}
	return err
}

// watchRoots reads a file of authorities, again when it changes, and adds more to them.
func watchRoots(b *chainBuilder, flag, file string, more []byte) (*reload.Value[*stdx509.CertPool], error) {
	return watchFile(b, flag, file, func(data []byte) (*stdx509.CertPool, error) {
		roots, err := x509.ParseRoots(data)
		if err == nil {
			roots.AppendCertsFromPEM(more)
		}
		return roots, err
	})
}

func watchFile[T any](b *chainBuilder, flag, file string, parse func([]byte) (T, error)) (*reload.Value[T], error) {
	value, err := reload.New(reload.Config[T]{
		Read:  func() ([]byte, error) { return os.ReadFile(file) },
		Parse: parse,
		Failed: func(err error) {
			b.log.Error(err, "the file cannot be used; its last content remains in use", "flag", flag)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, file, err)
	}
	b.stack.Start(flag, value.Run)
	return value, nil
}
