package main

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/abac"
	"github.com/planekit/planekit/authz/webhook"
	"github.com/planekit/planekit/plane/authorizers"
)

// moreAuthorizers returns the authorizers of --authorization-mode that read a file.
func (c *cluster) moreAuthorizers() (map[string]authz.Authorizer, error) {
	o := c.options.access
	more := map[string]authz.Authorizer{}
	var err error
	if slices.Contains(o.modes, authorizers.ABAC) {
		if more[authorizers.ABAC], err = readPolicies(o.policyFile); err != nil {
			return nil, err
		}
	}
	if slices.Contains(o.modes, authorizers.Webhook) {
		more[authorizers.Webhook], err = c.askAbout(o)
	}
	return more, err
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

// askAbout asks a service about what people may do.
func (c *cluster) askAbout(o accessOptions) (authz.Authorizer, error) {
	const flag = "--authorization-webhook-config-file"
	service, err := reviewer(flag, o.accessWebhook)
	if err != nil {
		return nil, err
	}
	asked, err := webhook.New(webhook.Config{
		URL: service.Server, TLS: service.TLS, BearerToken: service.BearerToken,
		AuthorizedTTL: orNever(o.allowedTTL), UnauthorizedTTL: orNever(o.notAllowedTTL),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	c.stack.OnStop("access webhook", func() error { asked.Close(); return nil })
	return asked, nil
}

// orNever makes of a flag's zero, which remembers nothing, what the package has for
// that.
func orNever(ttl time.Duration) time.Duration {
	if ttl == 0 {
		return -1
	}
	return ttl
}
