package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/alwayspullimages"
	"github.com/planekit/planekit/admission/defaulttolerations"
	"github.com/planekit/planekit/admission/escalation"
	"github.com/planekit/planekit/admission/eventratelimit"
	"github.com/planekit/planekit/admission/initializers"
	"github.com/planekit/planekit/admission/initialresources"
	"github.com/planekit/planekit/admission/lifecycle"
	"github.com/planekit/planekit/admission/noderestriction"
	"github.com/planekit/planekit/admission/plugins"
	"github.com/planekit/planekit/admission/priority"
	"github.com/planekit/planekit/admission/securitycontext"
	"github.com/planekit/planekit/admission/serviceaccount"
	"github.com/planekit/planekit/admission/webhook"
	"github.com/planekit/planekit/admission/webhook/matchcel"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
)

// gate is what admits writes, and the parts that must run for it.
type gate struct {
	admission.Chain
	// initializers are nil unless they are enabled.
	initializers *initializers.Plugin
	// hooks are nil unless webhooks of either kind are enabled, which they are by
	// default; conditions checks theirs.
	hooks      *webhook.Plugin
	conditions admission.Validator
	starts     []func(*stack)

	cluster *cluster
	api     *client.Client
	judge   *judge
}

// newGate makes the admission plugins that the flags choose. They read local
// copies, and the store itself where a copy does not know something.
func (c *cluster) newGate(api *client.Client, j *judge) (*gate, error) {
	g := &gate{cluster: c, api: api, judge: j}
	o := c.options.access
	configuration, err := readAdmissionConfig(o.admissionConfig)
	if err != nil {
		return nil, err
	}
	g.Chain, err = plugins.New(plugins.Config{
		Table: g.table(), Enable: o.enabled, Disable: o.disabled, Configuration: configuration,
	})
	if err != nil {
		return nil, err
	}
	// These are no plugins in Kubernetes and cannot be switched off.
	if g.conditions != nil {
		g.Validators = append(g.Validators, g.conditions)
	}
	grants, err := g.escalation()
	if err != nil {
		return nil, err
	}
	warns, err := g.unsupported()
	g.Validators = append(g.Validators, grants, warns)
	return g, err
}

func readAdmissionConfig(file string) (plugins.Configuration, error) {
	if file == "" {
		return plugins.Configuration{}, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return plugins.Configuration{}, fmt.Errorf("--admission-control-config-file: %w", err)
	}
	configuration, err := plugins.Parse(data, file, os.ReadFile)
	if err != nil {
		return plugins.Configuration{}, fmt.Errorf("--admission-control-config-file %s: %w", file, err)
	}
	return configuration, nil
}

// table is every plugin that the cluster has.
func (g *gate) table() []plugins.Plugin {
	plain := func(name string, plugin any) plugins.Plugin {
		return plugins.Plugin{Name: name, New: func([]byte) (any, error) { return plugin, nil }}
	}
	made := func(name string, make func() (any, error)) plugins.Plugin {
		return plugins.Plugin{Name: name, New: func([]byte) (any, error) { return make() }}
	}
	return []plugins.Plugin{
		made("NamespaceLifecycle", g.lifecycle),
		made("ServiceAccount", g.serviceAccount),
		made("LimitRanger", g.limitRanger),
		made(initialresources.Name, g.initialResources),
		plain(securitycontext.Name, securitycontext.Plugin{}),
		made("NodeRestriction", g.nodeRestriction),
		plain(alwayspullimages.Name, alwayspullimages.Plugin{}),
		made(priority.Name, g.priority),
		made(defaulttolerations.Name, g.tolerations),
		{Name: eventratelimit.Name, New: eventRateLimit},
		made("MutatingAdmissionWebhook", g.mutatingWebhooks),
		made("Initializers", g.waitForInitializers),
		made("ValidatingAdmissionWebhook", g.validatingWebhooks),
		made("ResourceQuota", g.resourceQuota),
	}
}

func (g *gate) lifecycle() (any, error) {
	return lifecycle.New(lifecycle.Config{Namespaces: g.cluster.copies.namespaces, Lookup: g.namespace})
}

func (g *gate) namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	return typed.Namespaces(g.api).Get(ctx, "", name)
}

func (g *gate) serviceAccount() (any, error) {
	return serviceaccount.New(serviceaccount.Config{
		Accounts: g.cluster.copies.serviceAccounts, Lookup: typed.ServiceAccounts(g.api).Get,
	})
}

func (g *gate) priority() (any, error) {
	classes := typed.PriorityClasses(g.api)
	return priority.New(priority.Config{
		Classes: g.cluster.copies.priorityClasses,
		Lookup: func(ctx context.Context, name string) (*schedulingv1.PriorityClass, error) {
			return classes.Get(ctx, "", name)
		},
	})
}

func (g *gate) tolerations() (any, error) {
	o := g.cluster.options.access
	return defaulttolerations.New(defaulttolerations.Config{NotReady: &o.notReadyFor, Unreachable: &o.unreachableFor})
}

// nodeRestriction lets a node write only what is its own.
func (g *gate) nodeRestriction() (any, error) {
	copies := g.cluster.copies
	return noderestriction.New(noderestriction.Config{
		Pods: copies.pods, LookupPod: typed.Pods(g.api).Get,
		Nodes: copies.nodes, LookupNode: typed.Nodes(g.api).Get,
		Claims: copies.claims, Volumes: copies.volumes, Authorizer: g.judge,
	})
}

// escalation lets nobody grant by RBAC what they do not have.
func (g *gate) escalation() (admission.Validator, error) {
	return escalation.New(escalation.Config{
		Rights: g.judge.roles, Authorizer: g.judge,
		LookupRole: typed.Roles(g.api).Get, LookupClusterRole: typed.ClusterRoles(g.api).Get,
	})
}

func eventRateLimit(config []byte) (any, error) {
	if config == nil {
		return nil, errors.New("it must be configured, by --admission-control-config-file")
	}
	limits, err := eventratelimit.ParseConfig(config)
	if err != nil {
		return nil, err
	}
	return eventratelimit.New(limits)
}

// mutatingWebhooks is asked after all other mutators, which see again what it has
// changed.
func (g *gate) mutatingWebhooks() (any, error) {
	hooks, err := g.webhooks()
	return admission.MutatorFunc(hooks.Mutate), err
}

func (g *gate) validatingWebhooks() (any, error) {
	hooks, err := g.webhooks()
	return admission.ValidatorFunc(hooks.Validate), err
}

// webhooks is the plugin behind both names, which follows the configurations.
func (g *gate) webhooks() (*webhook.Plugin, error) {
	if g.hooks != nil {
		return g.hooks, nil
	}
	conditions, err := matchcel.New(matchcel.Config{Authorizer: g.judge})
	if err != nil {
		return nil, err
	}
	copies := g.cluster.copies
	g.hooks, err = webhook.New(webhook.Config{
		Mutating: copies.mutatingWebhooks, Validating: copies.validatingWebhooks,
		Namespaces: copies.namespaces, Lookup: g.namespace,
		Compile:  conditions.Compile,
		Resolver: aggregate.ByEndpoints(copies.services, g.cluster.endpoints),
		Again: admission.MutatorFunc(func(ctx context.Context, r *admission.Request) error {
			return admission.Chain{Mutators: g.Mutators[:len(g.Mutators)-1]}.Mutate(ctx, r)
		}),
		Log: g.cluster.log.WithName("webhooks"),
	})
	if err != nil {
		return nil, err
	}
	g.conditions = webhook.CheckConditions(conditions.Check)
	g.run("webhooks", g.hooks.Run)
	return g.hooks, nil
}

// start starts the parts, and returns once they know what they act by.
func (g *gate) start(ctx context.Context, s *stack) error {
	g.cluster.copies.start(s, "mutatingwebhookconfigurations", "validatingwebhookconfigurations")
	for _, start := range g.starts {
		start(s)
	}
	if g.hooks == nil {
		return nil
	}
	return s.await(ctx, g.hooks.Synced())
}

func (g *gate) run(name string, part func(context.Context) error) {
	g.starts = append(g.starts, func(s *stack) { s.start(name, part) })
}

// initializerConfigurations is the resource that is there with the plugin.
func initializerConfigurations(api *client.Client) client.Resource[*initializers.InitializerConfiguration] {
	return client.For(api, client.Type[*initializers.InitializerConfiguration]{
		Group: initializers.GroupName, Version: initializers.Version, Kind: "InitializerConfiguration", Plural: "initializerconfigurations",
		New: func() *initializers.InitializerConfiguration { return &initializers.InitializerConfiguration{} },
	})
}

// configure tells the API server what is not asked in the chain.
func (g *gate) configure(config *apiserver.Config) {
	config.Admission = g
	if g.initializers != nil {
		config.Initializers = g.initializers
		config.Resources = append(config.Resources, kube.InitializerConfigurations())
	}
}

// waitForInitializers has new objects wait for initializers. The plugin itself is
// asked by the API server, not in the chain.
func (g *gate) waitForInitializers() (any, error) {
	configurations, err := newCache(initializerConfigurations(g.api), g.cluster.log.WithName("initializers"))
	if err != nil {
		return nil, err
	}
	made, err := initializers.New(initializers.Config{Configurations: configurations})
	if err != nil {
		return nil, err
	}
	g.initializers = made
	g.run("informer of initializerconfigurations", configurations.Run)
	g.run("initializers", made.Run)
	return admission.Chain{}, nil
}
