package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/admission/initialresources"
	"github.com/planekit/planekit/plane/authorizers"
	"github.com/spf13/pflag"
)

// accessOptions are the flags that say who may come in and do what. They have
// the names and meanings of kube-apiserver's.
type accessOptions struct {
	clientCA, tokenFile, basicFile string
	anonymous, bootstrapTokens     bool
	oidc                           oidcOptions
	authenticationConfig           string
	tokenWebhook                   string
	tokenWebhookTTL                time.Duration
	proxy                          proxyOptions
	accountTokens                  accountTokenOptions

	modes                       []string
	policyFile, accessWebhook   string
	allowedTTL, notAllowedTTL   time.Duration
	enabled, disabled           []string
	admissionConfig             string
	notReadyFor, unreachableFor int64
	estimates                   estimateOptions
	// given tells whether the command line has a flag that begins so.
	given func(prefix string) bool
}

// estimateOptions say how InitialResources estimates.
type estimateOptions struct {
	percentile    int
	namespaceOnly bool
	every         time.Duration
}

// oidcOptions say who the OpenID Connect issuer is.
type oidcOptions struct {
	issuer, client                string
	usernameClaim, usernamePrefix string
	groupsClaim, groupsPrefix     string
	required                      map[string]string
	algorithms                    []string
	ca                            string
}

// accountTokenOptions say how long the tokens of service accounts hold.
type accountTokenOptions struct {
	extend  bool
	longest time.Duration
}

// proxyOptions say which front proxies are believed beside the cluster's own.
type proxyOptions struct {
	ca                                   string
	names, users, uids, groups, prefixes []string
}

func (o *accessOptions) add(flags *pflag.FlagSet) {
	flags.StringVar(&o.clientCA, "client-ca-file", "", "authorities of client certificates beside the cluster's own; followed when it changes")
	flags.StringVar(&o.tokenFile, "token-auth-file", "", "CSV file of further bearer tokens: token,user,uid,\"group1,group2\"")
	flags.StringVar(&o.basicFile, "basic-auth-file", "", "CSV file of passwords: password,user,uid,\"group1,group2\"")
	flags.BoolVar(&o.anonymous, "anonymous-auth", true, "requests without credentials are those of system:anonymous")
	flags.BoolVar(&o.bootstrapTokens, "enable-bootstrap-token-auth", false, "believe bootstrap tokens, secrets in kube-system")
	flags.StringVar(&o.tokenWebhook, "authentication-token-webhook-config-file", "", "kubeconfig of a service that reviews tokens")
	flags.DurationVar(&o.tokenWebhookTTL, "authentication-token-webhook-cache-ttl", 2*time.Minute, "how long its answers are remembered")
	o.oidc.add(flags)
	flags.StringVar(&o.authenticationConfig, "authentication-config", "", "OpenID Connect issuers, and for which paths nobody needs credentials: an AuthenticationConfiguration of apiserver.config.k8s.io/v1; followed when it changes")
	o.given = func(prefix string) (any bool) {
		flags.Visit(func(f *pflag.Flag) { any = any || strings.HasPrefix(f.Name, prefix) })
		return any
	}
	o.proxy.add(flags)
	o.accountTokens.add(flags)
	flags.StringSliceVar(&o.modes, "authorization-mode", []string{authorizers.Node, authorizers.RBAC}, "who decides, in order: "+strings.Join(authorizers.Modes(), ", "))
	flags.StringVar(&o.policyFile, "authorization-policy-file", "", "policies for --authorization-mode=ABAC, a JSON object a line")
	flags.StringVar(&o.accessWebhook, "authorization-webhook-config-file", "", "kubeconfig of the service for --authorization-mode=Webhook")
	flags.DurationVar(&o.allowedTTL, "authorization-webhook-cache-authorized-ttl", 5*time.Minute, "how long it is remembered that something is allowed")
	flags.DurationVar(&o.notAllowedTTL, "authorization-webhook-cache-unauthorized-ttl", 30*time.Second, "how long it is remembered that something is not")
	flags.StringSliceVar(&o.enabled, "enable-admission-plugins", []string{"NodeRestriction"}, "plugins to run beside those that run by default")
	flags.StringSliceVar(&o.disabled, "disable-admission-plugins", nil, "plugins not to run")
	flags.StringVar(&o.admissionConfig, "admission-control-config-file", "", "configuration of admission plugins: an AdmissionConfiguration of apiserver.config.k8s.io/v1")
	o.estimates.add(flags)
	flags.Int64Var(&o.notReadyFor, "default-not-ready-toleration-seconds", 300, "how long pods stay on a node that is not ready, unless they say")
	flags.Int64Var(&o.unreachableFor, "default-unreachable-toleration-seconds", 300, "how long pods stay on a node that cannot be reached, unless they say")
}

// The first two are named as when kube-apiserver had the plugin.
func (o *estimateOptions) add(flags *pflag.FlagSet) {
	flags.IntVar(&o.percentile, "ir-percentile", initialresources.DefaultPercentile, "the percentile of past usage that InitialResources requests")
	flags.BoolVar(&o.namespaceOnly, "ir-namespace-only", false, "whether it looks only at what was used in the pod's namespace")
	flags.DurationVar(&o.every, "ir-sample-interval", time.Minute, "how often it asks the nodes what containers use")
}

func (o *oidcOptions) add(flags *pflag.FlagSet) {
	flags.StringVar(&o.issuer, "oidc-issuer-url", "", "URL of an OpenID Connect issuer whose ID tokens are believed")
	flags.StringVar(&o.client, "oidc-client-id", "", "for whom the tokens must be")
	flags.StringVar(&o.usernameClaim, "oidc-username-claim", "sub", "the claim that is the user's name")
	flags.StringVar(&o.usernamePrefix, "oidc-username-prefix", "", "put before it; default the issuer and #, unless the claim is email; - is nothing")
	flags.StringVar(&o.groupsClaim, "oidc-groups-claim", "", "the claim that is the user's groups")
	flags.StringVar(&o.groupsPrefix, "oidc-groups-prefix", "", "put before each of them")
	flags.StringToStringVar(&o.required, "oidc-required-claim", nil, "claims that tokens must have: key=value")
	flags.StringSliceVar(&o.algorithms, "oidc-signing-algs", []string{"RS256"}, "what tokens may be signed with")
	flags.StringVar(&o.ca, "oidc-ca-file", "", "authorities of the issuer's certificate; default the system's")
}

func (o *accountTokenOptions) add(flags *pflag.FlagSet) {
	flags.BoolVar(&o.extend, "service-account-extend-token-expiration", true, "the tokens of pods hold for a year, for programs that read them once; that one is used too long is in the audit")
	flags.DurationVar(&o.longest, "service-account-max-token-expiration", 0, "how long tokens hold at most, unless they are extended; 0 is no bound")
}

func (o *proxyOptions) add(flags *pflag.FlagSet) {
	flags.StringVar(&o.ca, "requestheader-client-ca-file", "", "authorities of front proxies, beside the cluster's own")
	flags.StringSliceVar(&o.names, "requestheader-allowed-names", nil, "common names of those proxies; required")
	flags.StringSliceVar(&o.users, "requestheader-username-headers", []string{"X-Remote-User"}, "headers of the user's name")
	flags.StringSliceVar(&o.uids, "requestheader-uid-headers", []string{"X-Remote-Uid"}, "headers of the user's UID")
	flags.StringSliceVar(&o.groups, "requestheader-group-headers", []string{"X-Remote-Group"}, "headers of the user's groups")
	flags.StringSliceVar(&o.prefixes, "requestheader-extra-headers-prefix", []string{"X-Remote-Extra-"}, "how headers of more begin")
}

// check finds flags that contradict each other.
func (o *accessOptions) check() error {
	for i, mode := range o.modes {
		if !slices.Contains(authorizers.Modes(), mode) {
			return fmt.Errorf("--authorization-mode: %q is none of %v", mode, authorizers.Modes())
		}
		if slices.Contains(o.modes[:i], mode) {
			return fmt.Errorf("--authorization-mode has %s twice", mode)
		}
	}
	together := func(mode, flag, value string) error {
		if slices.Contains(o.modes, mode) != (value != "") {
			return fmt.Errorf("--authorization-mode=%s and %s go together", mode, flag)
		}
		return nil
	}
	switch {
	case len(o.modes) == 0:
		return errors.New("--authorization-mode must name at least one")
	case o.authenticationConfig != "" && o.given("oidc-"):
		return errors.New("--authentication-config and the --oidc-* flags are mutually exclusive")
	case (o.oidc.issuer == "") != (o.oidc.client == ""):
		return errors.New("--oidc-issuer-url and --oidc-client-id go together")
	case (o.proxy.ca == "") != (len(o.proxy.names) == 0):
		return errors.New("--requestheader-client-ca-file and --requestheader-allowed-names go together")
	case o.accountTokens.longest != 0 && (o.accountTokens.longest < time.Hour || o.accountTokens.longest > 1<<32*time.Second):
		return errors.New("--service-account-max-token-expiration must be at least an hour and at most 2^32 seconds")
	case o.estimates.every < time.Second:
		return errors.New("--ir-sample-interval must be at least a second")
	case o.anonymous && o.authenticationConfig == "" && slices.Contains(o.modes, authorizers.AlwaysAllow):
		return errors.New("--anonymous-auth=false is needed with --authorization-mode=AlwaysAllow: whoever reaches the server could do everything")
	}
	return errors.Join(
		together(authorizers.ABAC, "--authorization-policy-file", o.policyFile),
		together(authorizers.Webhook, "--authorization-webhook-config-file", o.accessWebhook),
	)
}
