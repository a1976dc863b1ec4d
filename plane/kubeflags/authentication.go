package kubeflags

import (
	"errors"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/authorizers"
	"github.com/planekit/planekit/plane/stack"
)

// extendedLife is the lifetime of tokens with --service-account-extend-token-expiration, as in
// kube-apiserver.
const extendedLife = 365 * 24 * time.Hour

// authentication holds the flags that choose authenticators.
type authentication struct {
	clientCA, tokenFile, basicFile string
	anonymous, bootstrapTokens     bool
	oidc                           oidcFlags
	configFile                     string
	webhook                        string
	webhookTTL                     time.Duration
	proxy                          proxyFlags

	// The flags of service account tokens.
	extendTokens bool
	maxLife      time.Duration
}

// oidcFlags describe an OpenID Connect issuer.
type oidcFlags struct {
	issuer, client                string
	usernameClaim, usernamePrefix string
	groupsClaim, groupsPrefix     string
	required                      map[string]string
	algorithms                    []string
	ca                            string
}

// proxyFlags describe the front proxies that are trusted beside the control plane's own.
type proxyFlags struct {
	ca                                   string
	names, users, uids, groups, prefixes []string
}

func (a *authentication) add(flags *pflag.FlagSet) {
	flags.StringVar(&a.clientCA, "client-ca-file", "", "authorities of client certificates that are trusted beside the cluster's own; read again when it changes")
	flags.StringVar(&a.tokenFile, "token-auth-file", "", "CSV file of further bearer tokens: token,user,uid,\"group1,group2\"")
	flags.StringVar(&a.basicFile, "basic-auth-file", "", "CSV file of passwords: password,user,uid,\"group1,group2\"")
	flags.BoolVar(&a.anonymous, "anonymous-auth", true, "accept requests without credentials, as those of system:anonymous")
	flags.BoolVar(&a.bootstrapTokens, "enable-bootstrap-token-auth", false, "accept bootstrap tokens, which are secrets in kube-system")
	flags.StringVar(&a.webhook, "authentication-token-webhook-config-file", "", "kubeconfig of a service that reviews tokens")
	flags.DurationVar(&a.webhookTTL, "authentication-token-webhook-cache-ttl", 2*time.Minute, "how long answers of that service are cached")
	flags.StringVar(&a.configFile, "authentication-config", "", "OpenID Connect issuers, and the paths that need no credentials: an AuthenticationConfiguration of apiserver.config.k8s.io/v1; read again when it changes")
	flags.BoolVar(&a.extendTokens, "service-account-extend-token-expiration", true, "let the tokens of pods expire only after a year, for programs that read them once; the use of a token beyond its normal life is audited")
	flags.DurationVar(&a.maxLife, "service-account-max-token-expiration", 0, "maximum lifetime of tokens that are not extended; 0 means no maximum")
	a.oidc.add(flags)
	a.proxy.add(flags)
}

func (o *oidcFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&o.issuer, "oidc-issuer-url", "", "URL of an OpenID Connect issuer whose ID tokens are accepted")
	flags.StringVar(&o.client, "oidc-client-id", "", "audience that the tokens must have")
	flags.StringVar(&o.usernameClaim, "oidc-username-claim", "sub", "claim with the user's name")
	flags.StringVar(&o.usernamePrefix, "oidc-username-prefix", "", "prefix of the user's name (default: the issuer and #, unless the claim is email); - means none")
	flags.StringVar(&o.groupsClaim, "oidc-groups-claim", "", "claim with the user's groups")
	flags.StringVar(&o.groupsPrefix, "oidc-groups-prefix", "", "prefix of each group")
	flags.StringToStringVar(&o.required, "oidc-required-claim", nil, "claims that tokens must have: key=value")
	flags.StringSliceVar(&o.algorithms, "oidc-signing-algs", []string{"RS256"}, "accepted signature algorithms")
	flags.StringVar(&o.ca, "oidc-ca-file", "", "authorities of the issuer's certificate (default: those of the system)")
}

func (p *proxyFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&p.ca, "requestheader-client-ca-file", "", "authorities of front proxies that are trusted beside the cluster's own")
	flags.StringSliceVar(&p.names, "requestheader-allowed-names", nil, "common names of those proxies; required with them")
	flags.StringSliceVar(&p.users, "requestheader-username-headers", []string{"X-Remote-User"}, "headers with the user's name")
	flags.StringSliceVar(&p.uids, "requestheader-uid-headers", []string{"X-Remote-Uid"}, "headers with the user's UID")
	flags.StringSliceVar(&p.groups, "requestheader-group-headers", []string{"X-Remote-Group"}, "headers with the user's groups")
	flags.StringSliceVar(&p.prefixes, "requestheader-extra-headers-prefix", []string{"X-Remote-Extra-"}, "prefixes of headers with the user's extra fields")
}

func (a *authentication) check(o *Options) error {
	switch {
	case a.configFile != "" && o.given("oidc-"):
		return errors.New("--authentication-config and the --oidc-* flags are mutually exclusive")
	case (a.oidc.issuer == "") != (a.oidc.client == ""):
		return errors.New("--oidc-issuer-url and --oidc-client-id go together")
	case (a.proxy.ca == "") != (len(a.proxy.names) == 0):
		return errors.New("--requestheader-client-ca-file and --requestheader-allowed-names go together")
	case a.maxLife != 0 && (a.maxLife < time.Hour || a.maxLife > 1<<32*time.Second):
		return errors.New("--service-account-max-token-expiration must be at least an hour and at most 2^32 seconds")
	case a.anonymous && a.configFile == "" && slices.Contains(o.authorization.modes, authorizers.AlwaysAllow):
		return errors.New("--anonymous-auth=false is needed with --authorization-mode=AlwaysAllow: whoever reaches the server could do everything")
	}
	return nil
}

// applyAuthentication lets the control plane make its authenticators from the flags. The
// Authenticators of config keep their place after service account tokens.
func (o *Options) applyAuthentication(config *plane.Config, s *stack.Stack) error {
	a := &o.authentication
	own, log := config.Authenticators, config.Log.WithName("authentication")
	config.NewAuthenticator = func(p *plane.Plane) (authn.Authenticator, error) {
		b := &chainBuilder{options: o, plane: p, own: own, log: log, stack: s}
		return b.build()
	}
	config.OmitClientCAs = a.clientCA != "" || a.proxy.ca != ""
	config.MaxTokenExpiration = a.maxLife
	if a.extendTokens {
		config.ExtendTokens = extendedLife
	}
	return nil
}
