package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/abac"
	nodeauthz "github.com/planekit/planekit/authz/node"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/authz/webhook"
)

// judge is who decides, and the parts that must run for it. They follow local
// copies, so they are started when those are.
type judge struct {
	authz.Authorizer
	// roles is RBAC, which others than authorization ask too; it runs even where
	// requests are not decided by it.
	roles  *rbac.Authorizer
	starts []func(*stack)
}

// newJudge asks the authorizers of --authorization-mode in order, after the one
// group that is above them.
func (c *cluster) newJudge() (*judge, error) {
	roles, err := rbac.New(rbac.Config{
		Roles:               c.copies.roles,
		RoleBindings:        c.copies.roleBindings,
		ClusterRoles:        c.copies.clusterRoles,
		ClusterRoleBindings: c.copies.clusterRoleBindings,
		Log:                 c.log.WithName("rbac"),
	})
	if err != nil {
		return nil, err
	}
	j := &judge{roles: roles}
	j.run("RBAC", roles.Run)
	chain := authz.Chain{authz.Superusers(user.Masters)}
	for _, mode := range c.options.access.modes {
		next, err := c.authorizerOf(mode, j)
		if err != nil {
			return nil, err
		}
		chain = append(chain, next)
	}
	j.Authorizer = chain
	return j, nil
}

func (c *cluster) authorizerOf(mode string, j *judge) (authz.Authorizer, error) {
	o := c.options.access
	switch mode {
	case modeNode:
		nodes, err := nodeauthz.New(nodeauthz.Config{
			Pods: c.copies.pods, Volumes: c.copies.volumes, Attachments: c.copies.attachments,
			Rest: rbac.Rules(rbac.NodeRules()),
		})
		j.run("node authorizer", nodes.Run)
		return nodes, err
	case modeRBAC:
		return j.roles, nil
	case modeABAC:
		return readPolicies(o.policyFile)
	case modeWebhook:
		return c.askAbout(o)
	case modeAllow:
		return authz.InsecureAlwaysAllow(), nil
	}
	return authz.AlwaysDeny(), nil
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
	c.stack.closing("access webhook", func() error { asked.Close(); return nil })
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

func (j *judge) run(name string, part func(context.Context) error) {
	j.starts = append(j.starts, func(s *stack) { s.start(name, part) })
}

// start starts the parts, and returns once RBAC decides.
func (j *judge) start(ctx context.Context, s *stack) error {
	for _, start := range j.starts {
		start(s)
	}
	return s.await(ctx, j.roles.Synced())
}

// bootstrapPolicy is the policy that the cluster begins with. Its controllers act
// as one user. Without a node authorizer nodes have what their role says. The API
// server may do everything at the kubelets.
func (o accessOptions) bootstrapPolicy() rbac.Policy {
	p := rbac.Bootstrap{ControllersAsOne: true, NodesByRole: !slices.Contains(o.modes, modeNode)}.Policy()
	p.ClusterRoleBindings = append(p.ClusterRoleBindings, kubeletClientBinding())
	return p
}
