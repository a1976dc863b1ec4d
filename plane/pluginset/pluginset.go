// Package pluginset holds the table of the admission plugins that a control plane
// has built in, and joins those that are wanted to its caches.
//
//	set, err := pluginset.New(pluginset.Config{Client: api, Caches: caches, Authorizers: authorizers})
//	set.Configure(&serverConfig)
//	// once the server answers:
//	err = set.Start(ctx, stack)
//
// Package admission/plugins decides which plugins are on and in which order; they
// read caches, and the API where a cache does not know an object yet. Start returns
// when the webhooks and policies that are registered are known: what is written before that could
// pass them by. A plugin of the program's own is a line in Config.More.
//
// Two checks are no plugins in Kubernetes and cannot be switched off: that no
// user grants by RBAC what they do not have, and the warnings about fields that nothing
// here acts on.
package pluginset

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/alwayspullimages"
	"github.com/planekit/planekit/admission/certificates"
	"github.com/planekit/planekit/admission/claims"
	"github.com/planekit/planekit/admission/defaulttolerations"
	"github.com/planekit/planekit/admission/escalation"
	"github.com/planekit/planekit/admission/eventratelimit"
	"github.com/planekit/planekit/admission/ingressclass"
	"github.com/planekit/planekit/admission/initializers"
	"github.com/planekit/planekit/admission/lifecycle"
	"github.com/planekit/planekit/admission/limitranger"
	"github.com/planekit/planekit/admission/noderestriction"
	"github.com/planekit/planekit/admission/plugins"
	"github.com/planekit/planekit/admission/podresize"
	"github.com/planekit/planekit/admission/podsecurity"
	"github.com/planekit/planekit/admission/policy"
	"github.com/planekit/planekit/admission/priority"
	"github.com/planekit/planekit/admission/resourcequota"
	"github.com/planekit/planekit/admission/runtimeclass"
	"github.com/planekit/planekit/admission/securitycontext"
	"github.com/planekit/planekit/admission/serviceaccount"
	"github.com/planekit/planekit/admission/trustbundle"
	"github.com/planekit/planekit/admission/unsupported"
	"github.com/planekit/planekit/admission/webhook"
	"github.com/planekit/planekit/admission/webhook/matchcel"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/events"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/kinds/kind"
	"github.com/planekit/planekit/plane/authorizers"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/plane/stack"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Config describes the plugins. The first three fields must be set.
type Config struct {
	// Client reads what a cache does not have, and may do everything.
	Client      *client.Client
	Caches      *caches.Caches
	Authorizers *authorizers.Set
	Options
	// Log is silent when zero.
	Log logr.Logger
}

// Options choose and tune the plugins. The zero Options are Kubernetes' defaults and
// NodeRestriction.
type Options struct {
	// Enable lists the plugins to run in addition to the default ones; nil means NodeRestriction.
	// Disable lists those not to run.
	Enable, Disable []string
	// Configuration configures the plugins that need it. See [plugins.Parse].
	Configuration plugins.Configuration
	// More are further plugins, such as the program's own.
	More []plugins.Plugin
	// NotReady and Unreachable are how many seconds pods stay on a node that is not
	// ready or cannot be reached, unless they say. Nil is 300.
	NotReady, Unreachable *int64
	// Unsupported are the fields to warn about because nothing acts on them. Nil means
	// [unsupported.Table]; a program that acts on some of them leaves their rows out.
	Unsupported []unsupported.Row
	// PodSecurity receives what Pod Security admission decides.
	PodSecurity podsecurity.Metrics
	// Metrics receives the durations of plugins, and Webhooks, if not nil, the calls of webhooks.
	Metrics  plugins.Metrics
	Webhooks func(webhook.Call)
}

// A Set is the plugins of one control plane.
type Set struct {
	admission.Chain
	config Config
	// initializers are nil unless they are enabled.
	initializers *initializers.Plugin
	// hooks are nil unless webhooks of either kind are enabled; conditions checks theirs.
	hooks      *webhook.Plugin
	conditions admission.Validator
	// policies and mutations are nil unless they are enabled.
	policies  *policy.Plugin
	mutations *policy.Mutator
	parts     []part
}

type part struct {
	name string
	run  func(context.Context) error
}

// New makes the plugins. Start must be called before they decide well.
func New(c Config) (*Set, error) {
	if c.Enable == nil {
		c.Enable = []string{"NodeRestriction"}
	}
	s := &Set{config: c}
	var err error
	s.Chain, err = plugins.New(plugins.Config{
		Table: append(s.table(), c.More...), Enable: c.Enable, Disable: c.Disable, Configuration: c.Configuration, Metrics: c.Metrics,
	})
	if err != nil {
		return nil, err
	}
	if s.conditions != nil {
		s.Validators = append(s.Validators, s.conditions)
	}
	if s.policies != nil {
		s.Validators = append(s.Validators, admission.ValidatorFunc(s.policies.Check))
	}
	if s.mutations != nil {
		s.Validators = append(s.Validators, admission.ValidatorFunc(s.mutations.Check))
	}
	grants, err := s.escalation()
	if err != nil {
		return nil, err
	}
	warns, err := s.unsupported()
	s.Validators = append(s.Validators, grants, warns)
	return s, err
}

// Mutate runs the mutators, and once more if webhooks or policies have changed the object.
func (s *Set) Mutate(ctx context.Context, r *admission.Request) error {
	if s.mutations == nil {
		return s.Chain.Mutate(ctx, r)
	}
	ctx = policy.WithRounds(ctx)
	if err := s.Chain.Mutate(ctx, r); err != nil || !policy.Repeats(ctx) {
		return err
	}
	return s.Chain.Mutate(ctx, r) // there are no webhooks that would have done it
}

// table is every built-in plugin.
func (s *Set) table() []plugins.Plugin {
	plain := func(name string, plugin any) plugins.Plugin {
		return plugins.Plugin{Name: name, New: func([]byte) (any, error) { return plugin, nil }}
	}
	made := func(name string, make func() (any, error)) plugins.Plugin {
		return plugins.Plugin{Name: name, New: func([]byte) (any, error) { return make() }}
	}
	return []plugins.Plugin{
		made("NamespaceLifecycle", s.lifecycle),
		made("ServiceAccount", s.serviceAccount),
		made("LimitRanger", s.limitRanger),
		plain(securitycontext.Name, securitycontext.Plugin{}),
		made("NodeRestriction", s.nodeRestriction),
		plain(alwayspullimages.Name, alwayspullimages.Plugin{}),
		{Name: podsecurity.Name, New: s.podSecurity},
		made(priority.Name, s.priority),
		made(defaulttolerations.Name, s.tolerations),
		{Name: eventratelimit.Name, New: eventRateLimit},
		made(runtimeclass.Name, s.runtimeClass),
		made(podresize.Name, s.podResize),
		made(certificates.ApprovalName, s.certificateApproval),
		made(certificates.SigningName, s.certificateSigning),
		made(trustbundle.Name, s.trustBundles),
		plain(certificates.SubjectRestrictionName, certificates.SubjectRestriction{}),
		made(claims.DefaultClassName, s.defaultClass),
		plain(claims.ProtectionName, claims.Protection{}),
		made(ingressclass.DefaultName, s.defaultIngressClass),
		made(policy.MutatorName, s.mutatingPolicies),
		made("MutatingAdmissionWebhook", s.mutatingWebhooks),
		made("Initializers", s.waitForInitializers),
		made("ValidatingAdmissionPolicy", s.admissionPolicies),
		made("ValidatingAdmissionWebhook", s.validatingWebhooks),
		made("ResourceQuota", s.resourceQuota),
	}
}

func (s *Set) lifecycle() (any, error) {
	return lifecycle.New(lifecycle.Config{Namespaces: s.config.Caches.Namespaces, Lookup: s.namespace})
}

func (s *Set) namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	return typed.Namespaces(s.config.Client).Get(ctx, "", name)
}

func (s *Set) serviceAccount() (any, error) {
	return serviceaccount.New(serviceaccount.Config{
		Accounts: s.config.Caches.ServiceAccounts, Lookup: typed.ServiceAccounts(s.config.Client).Get,
	})
}

func (s *Set) priority() (any, error) {
	classes := typed.PriorityClasses(s.config.Client)
	return priority.New(priority.Config{
		Classes: s.config.Caches.PriorityClasses,
		Lookup: func(ctx context.Context, name string) (*schedulingv1.PriorityClass, error) {
			return classes.Get(ctx, "", name)
		},
	})
}

func (s *Set) runtimeClass() (any, error) {
	classes := typed.RuntimeClasses(s.config.Client)
	return runtimeclass.New(runtimeclass.Config{
		Classes: s.config.Caches.RuntimeClasses,
		Lookup: func(ctx context.Context, name string) (*nodev1.RuntimeClass, error) {
			return classes.Get(ctx, "", name)
		},
	})
}

func (s *Set) defaultClass() (any, error) {
	return claims.DefaultClass{Classes: s.config.Caches.StorageClasses}, nil
}

func (s *Set) defaultIngressClass() (any, error) {
	return ingressclass.Default{Classes: s.config.Caches.IngressClasses}, nil
}

func (s *Set) tolerations() (any, error) {
	return defaulttolerations.New(defaulttolerations.Config{NotReady: s.config.NotReady, Unreachable: s.config.Unreachable})
}

func (s *Set) limitRanger() (any, error) {
	return limitranger.New(limitranger.Config{
		ByNamespace: s.config.Caches.LimitRangesByNamespace, Lookup: listOf(typed.LimitRanges(s.config.Client)),
	})
}

func (s *Set) resourceQuota() (any, error) {
	quotas := typed.ResourceQuotas(s.config.Client)
	return resourcequota.New(resourcequota.Config{
		ByNamespace: s.config.Caches.QuotasByNamespace, Lookup: listOf(quotas), Writer: quotas,
	})
}

// listOf lists the objects of a namespace from the API.
func listOf[T client.Object](resource client.Resource[T]) func(context.Context, string) ([]T, error) {
	return func(ctx context.Context, namespace string) ([]T, error) {
		all, _, err := resource.List(ctx, namespace, metav1.ListOptions{})
		return all, err
	}
}

// nodeRestriction lets a node write only what is its own.
func (s *Set) nodeRestriction() (any, error) {
	all, api := s.config.Caches, s.config.Client
	return noderestriction.New(noderestriction.Config{
		Pods: all.Pods, LookupPod: typed.Pods(api).Get,
		Nodes: all.Nodes, LookupNode: typed.Nodes(api).Get,
		Claims: all.PersistentVolumeClaims, Volumes: all.PersistentVolumes, Authorizer: s.config.Authorizers,
	})
}

// podResize refuses resizes beyond what a node has.
func (s *Set) podResize() (any, error) {
	return podresize.New(podresize.Config{Nodes: s.config.Caches.Nodes, Lookup: typed.Nodes(s.config.Client).Get})
}

// podSecurity enforces the Pod Security Standards that namespaces select.
func (s *Set) podSecurity(config []byte) (any, error) {
	c := podsecurity.Config{
		Namespaces: s.config.Caches.Namespaces, Lookup: s.namespace,
		Pods: s.config.Caches.PodsByNamespace, Metrics: s.config.PodSecurity,
	}
	if config != nil {
		var err error
		if c.Configuration, err = podsecurity.ParseConfig(config); err != nil {
			return nil, err
		}
	}
	return podsecurity.New(c)
}

// certificateApproval refuses decisions about requests of signers for whom the user may not approve.
func (s *Set) certificateApproval() (any, error) {
	return certificates.NewApproval(certificates.Config{Authorizer: s.config.Authorizers})
}

// certificateSigning refuses certificates of signers for whom the user may not sign.
func (s *Set) certificateSigning() (any, error) {
	return certificates.NewSigning(certificates.Config{Authorizer: s.config.Authorizers})
}

// trustBundles refuses bundles of signers for whom the user may not attest.
func (s *Set) trustBundles() (any, error) {
	return trustbundle.New(trustbundle.Config{Authorizer: s.config.Authorizers})
}

// escalation returns the check that refuses users who grant by RBAC what they do not have.
func (s *Set) escalation() (admission.Validator, error) {
	return escalation.New(escalation.Config{
		Rights: s.config.Authorizers.RBAC, Authorizer: s.config.Authorizers,
		LookupRole: typed.Roles(s.config.Client).Get, LookupClusterRole: typed.ClusterRoles(s.config.Client).Get,
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

// mutatingWebhooks comes after all other mutators, which see again what it has
// changed.
func (s *Set) mutatingWebhooks() (any, error) {
	hooks, err := s.webhooks()
	return admission.MutatorFunc(hooks.Mutate), err
}

func (s *Set) validatingWebhooks() (any, error) {
	hooks, err := s.webhooks()
	return admission.ValidatorFunc(hooks.Validate), err
}

// webhooks is the plugin behind both names, which follows the configurations.
func (s *Set) webhooks() (*webhook.Plugin, error) {
	if s.hooks != nil {
		return s.hooks, nil
	}
	conditions, err := matchcel.New(matchcel.Config{Authorizer: s.config.Authorizers})
	if err != nil {
		return nil, err
	}
	all := s.config.Caches
	s.hooks, err = webhook.New(webhook.Config{
		Mutating: all.MutatingWebhooks, Validating: all.ValidatingWebhooks,
		Namespaces: all.Namespaces, Lookup: s.namespace,
		Compile:  conditions.Compile,
		Resolver: aggregate.ByEndpoints(all.Services, all.SlicesByService),
		Again: admission.MutatorFunc(func(ctx context.Context, r *admission.Request) error {
			return admission.Chain{Mutators: s.Mutators[:len(s.Mutators)-1]}.Mutate(ctx, r)
		}),
		Repeat: policy.Repeats,
		Called: s.config.Webhooks,
		Log:    s.config.Log.WithName("webhooks"),
	})
	if err != nil {
		return nil, err
	}
	s.conditions = webhook.CheckConditions(conditions.Check)
	s.run("webhooks", s.hooks.Run)
	return s.hooks, nil
}

// mutatingPolicies applies MutatingAdmissionPolicies.
func (s *Set) mutatingPolicies() (any, error) {
	all := s.config.Caches
	made, err := policy.NewMutator(policy.MutatorConfig{
		Policies: all.MutatingPolicies, Bindings: all.MutatingPolicyBindings,
		Namespaces: all.Namespaces, Lookup: s.namespace, Authorizer: s.config.Authorizers,
		Params: newParams(s.config.Client), Schemas: newSchemas(s.config.Client),
	})
	if err != nil {
		return nil, err
	}
	s.mutations = made
	s.run("mutating admission policies", made.Run)
	return made, nil
}

// admissionPolicies evaluates ValidatingAdmissionPolicies.
func (s *Set) admissionPolicies() (any, error) {
	all := s.config.Caches
	made, err := policy.New(policy.Config{
		Policies: all.AdmissionPolicies, Bindings: all.AdmissionPolicyBindings,
		Namespaces: all.Namespaces, Lookup: s.namespace, Authorizer: s.config.Authorizers,
		Params: newParams(s.config.Client),
	})
	if err != nil {
		return nil, err
	}
	s.policies = made
	s.run("admission policies", made.Run)
	return made, nil
}

// unsupported warns of fields that the API server stores and nothing acts on. Its
// Event objects are those of the API server.
func (s *Set) unsupported() (admission.Validator, error) {
	log := s.config.Log.WithName("unsupported")
	recorder, err := events.New(events.Config{Client: s.config.Client, Component: "apiserver", Log: log})
	if err != nil {
		return nil, err
	}
	plugin, err := unsupported.New(unsupported.Config{Table: s.config.Unsupported, Lookup: s.metadata, Event: recorder.Event, Log: log})
	if err != nil {
		return nil, err
	}
	s.run("events about fields without effect", recorder.Run)
	s.run("fields without effect", plugin.Run)
	return plugin, nil
}

// metadata reads the metadata of an object.
func (s *Set) metadata(ctx context.Context, r admission.GroupVersionResource, k admission.GroupVersionKind, namespace, name string) (metav1.Object, error) {
	return client.For(s.config.Client, kind.Define(kind.Kind[*metav1.PartialObjectMetadata]{
		Group: r.Group, Version: r.Version, Kind: k.Kind, Plural: r.Resource, Namespaced: namespace != "",
	})).Get(ctx, namespace, name)
}

// waitForInitializers makes new objects wait for initializers. The API server itself
// asks the plugin, not the chain.
func (s *Set) waitForInitializers() (any, error) {
	configurations, err := caches.Of(client.For(s.config.Client, initializers.Configurations), s.config.Log.WithName("initializers"))
	if err != nil {
		return nil, err
	}
	made, err := initializers.New(initializers.Config{Configurations: configurations})
	if err != nil {
		return nil, err
	}
	s.initializers = made
	s.run("informer of initializerconfigurations", configurations.Run)
	s.run("initializers", made.Run)
	return admission.Chain{}, nil
}

// Configure sets what the API server needs of the plugins.
func (s *Set) Configure(config *apiserver.Config) {
	config.Admission = s
	if s.initializers != nil {
		config.Initializers = s.initializers
		config.Resources = append(config.Resources, kube.InitializerConfigurations())
	}
}

func (s *Set) run(name string, run func(context.Context) error) {
	s.parts = append(s.parts, part{name, run})
}

// Start starts the plugins and their caches, and returns once they know which
// webhooks and policies there are.
func (s *Set) Start(ctx context.Context, parts *stack.Stack) error {
	all := s.config.Caches
	all.Start(parts, all.MutatingWebhooks, all.ValidatingWebhooks)
	if s.policies != nil {
		all.Start(parts, all.AdmissionPolicies, all.AdmissionPolicyBindings)
	}
	if s.mutations != nil {
		all.Start(parts, all.MutatingPolicies, all.MutatingPolicyBindings)
	}
	for _, p := range s.parts {
		parts.Start(p.name, p.run)
	}
	if s.hooks != nil {
		if err := parts.Await(ctx, s.hooks.Synced()); err != nil {
			return err
		}
	}
	if s.mutations != nil {
		if err := parts.Await(ctx, s.mutations.Synced()); err != nil {
			return err
		}
	}
	if s.policies == nil {
		return nil
	}
	return parts.Await(ctx, s.policies.Synced())
}
