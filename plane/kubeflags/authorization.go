package kubeflags

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/abac"
	"github.com/planekit/planekit/authz/webhook"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/authorizers"
	"github.com/planekit/planekit/plane/stack"
)

// authorization holds the flags that choose authorizers.
type authorization struct {
	modes                     []string
	policyFile, webhook       string
	allowedTTL, notAllowedTTL time.Duration
}

func (a *authorization) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&a.modes, "authorization-mode", []string{authorizers.Node, authorizers.RBAC}, "authorizers to ask, in order: "+strings.Join(authorizers.Modes(), ", "))
	flags.StringVar(&a.policyFile, "authorization-policy-file", "", "policies for --authorization-mode=ABAC, one JSON object per line")
	flags.StringVar(&a.webhook, "authorization-webhook-config-file", "", "kubeconfig of the service for --authorization-mode=Webhook")
	flags.DurationVar(&a.allowedTTL, "authorization-webhook-cache-authorized-ttl", 5*time.Minute, "how long an answer of the webhook that allows a request is cached")
	flags.DurationVar(&a.notAllowedTTL, "authorization-webhook-cache-unauthorized-ttl", 30*time.Second, "how long an answer of the webhook that does not allow a request is cached")
}

func (a *authorization) check() error {
	for i, mode := range a.modes {
		if !slices.Contains(authorizers.Modes(), mode) {
			return fmt.Errorf("--authorization-mode: %q is none of %v", mode, authorizers.Modes())
		}
		if slices.Contains(a.modes[:i], mode) {
			return fmt.Errorf("--authorization-mode has %s twice", mode)
		}
	}
	if len(a.modes) == 0 {
		return errors.New("--authorization-mode must name at least one")
	}
	together := func(mode, flag, value string) error {
		if slices.Contains(a.modes, mode) != (value != "") {
			return fmt.Errorf("--authorization-mode=%s and %s go together", mode, flag)
		}
		return nil
	}
	return errors.Join(
		together(authorizers.ABAC, "--authorization-policy-file", a.policyFile),
		together(authorizers.Webhook, "--authorization-webhook-config-file", a.webhook),
	)
}

// apply sets the modes, and makes the authorizers that are configured by a file.
func (a *authorization) apply(config *plane.Config, s *stack.Stack) (err error) {
	config.Modes, config.Authorizers = a.modes, map[string]authz.Authorizer{}
	if slices.Contains(a.modes, authorizers.ABAC) {
		if config.Authorizers[authorizers.ABAC], err = readPolicies(a.policyFile); err != nil {
			return err
		}
	}
	if slices.Contains(a.modes, authorizers.Webhook) {
		config.Authorizers[authorizers.Webhook], err = a.newWebhook(s)
	}
	return err
}

func readPolicies(path string) (authz.Authorizer, error) {
	const flag = "--authorization-policy-file"
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	defer file.Close()
	policies, err := abac.Parse(file)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, path, err)
	}
	return abac.New(policies), nil
}

func (a *authorization) newWebhook(s *stack.Stack) (authz.Authorizer, error) {
	const flag = "--authorization-webhook-config-file"
	service, err := readService(flag, a.webhook)
	if err != nil {
		return nil, err
	}
	authorizer, err := webhook.New(webhook.Config{
		URL: service.Server, TLS: service.TLS, BearerToken: service.BearerToken,
		AuthorizedTTL: ttlOf(a.allowedTTL), UnauthorizedTTL: ttlOf(a.notAllowedTTL),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	s.OnStop("access webhook", func() error { authorizer.Close(); return nil })
	return authorizer, nil
}

// ttlOf translates a flag, in which 0 means no caching, for [webhook.Config], in which 0 means the
// default.
func ttlOf(ttl time.Duration) time.Duration {
	if ttl == 0 {
		return -1
	}
	return ttl
}
