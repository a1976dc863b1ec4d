package kube

import (
	"github.com/planekit/planekit/apiserver"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validatingWebhooks() apiserver.Resource {
	type config = admissionv1.ValidatingWebhookConfiguration
	view := func(c *config) []webhook {
		out := make([]webhook, len(c.Webhooks))
		for i := range c.Webhooks {
			out[i] = validatingView(&c.Webhooks[i])
		}
		return out
	}
	return apiserver.Resource{
		Group:    admissionv1.GroupName,
		Version:  "v1",
		Kind:     "ValidatingWebhookConfiguration",
		Plural:   "validatingwebhookconfigurations",
		New:      func() runtime.Object { return &config{} },
		NewList:  func() runtime.Object { return &admissionv1.ValidatingWebhookConfigurationList{} },
		Strategy: webhookStrategy(func(c *config) any { return c.Webhooks }, view).erase(),
		Columns: []apiserver.Column{
			number("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration", func(c *config) int64 { return int64(len(c.Webhooks)) }),
			age[*config](),
		},
	}
}

func mutatingWebhooks() apiserver.Resource {
	type config = admissionv1.MutatingWebhookConfiguration
	view := func(c *config) []webhook {
		out := make([]webhook, len(c.Webhooks))
		for i := range c.Webhooks {
			out[i] = mutatingView(&c.Webhooks[i])
		}
		return out
	}
	return apiserver.Resource{
		Group:    admissionv1.GroupName,
		Version:  "v1",
		Kind:     "MutatingWebhookConfiguration",
		Plural:   "mutatingwebhookconfigurations",
		New:      func() runtime.Object { return &config{} },
		NewList:  func() runtime.Object { return &admissionv1.MutatingWebhookConfigurationList{} },
		Strategy: webhookStrategy(func(c *config) any { return c.Webhooks }, view).erase(),
		Columns: []apiserver.Column{
			number("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration", func(c *config) int64 { return int64(len(c.Webhooks)) }),
			age[*config](),
		},
	}
}

// webhook is what webhooks of both kinds have: a way to read it and to write
// it. reinvocation is nil for one that does not mutate.
type webhook struct {
	name                              string
	client                            *admissionv1.WebhookClientConfig
	rules                             []admissionv1.RuleWithOperations
	failurePolicy                     **admissionv1.FailurePolicyType
	matchPolicy                       **admissionv1.MatchPolicyType
	namespaceSelector, objectSelector **metav1.LabelSelector
	sideEffects                       *admissionv1.SideEffectClass
	timeout                           **int32
	versions                          []string
	conditions                        []admissionv1.MatchCondition
	reinvocation                      **admissionv1.ReinvocationPolicyType
}

func validatingView(w *admissionv1.ValidatingWebhook) webhook {
	return webhook{
		name: w.Name, client: &w.ClientConfig, rules: w.Rules, failurePolicy: &w.FailurePolicy, matchPolicy: &w.MatchPolicy,
		namespaceSelector: &w.NamespaceSelector, objectSelector: &w.ObjectSelector, sideEffects: w.SideEffects,
		timeout: &w.TimeoutSeconds, versions: w.AdmissionReviewVersions, conditions: w.MatchConditions,
	}
}

func mutatingView(w *admissionv1.MutatingWebhook) webhook {
	return webhook{
		name: w.Name, client: &w.ClientConfig, rules: w.Rules, failurePolicy: &w.FailurePolicy, matchPolicy: &w.MatchPolicy,
		namespaceSelector: &w.NamespaceSelector, objectSelector: &w.ObjectSelector, sideEffects: w.SideEffects,
		timeout: &w.TimeoutSeconds, versions: w.AdmissionReviewVersions, conditions: w.MatchConditions,
		reinvocation: &w.ReinvocationPolicy,
	}
}

// webhookStrategy is that of configurations, of which list returns the webhooks
// and view a view of each. It lets stay what an older server has let in, until all of its
// kind is right.
func webhookStrategy[T object](list func(T) any, view func(T) []webhook) strategy[T] {
	return strategy[T]{
		complete: func(c T) {
			for _, w := range view(c) {
				w.complete()
			}
		},
		create: func(c T) { c.SetGeneration(1) },
		update: func(c, old T) {
			c.SetGeneration(nextGeneration(old.GetGeneration(), differ(list(c), list(old))))
		},
		validate: func(c T) field.ErrorList { return validateWebhooks(view(c), webhookRules{}) },
		validateUpdate: func(c, old T) field.ErrorList {
			return validateWebhooks(view(c), rulesKeptBy(view(old)))
		},
	}
}

const (
	webhookSeconds = 10
	webhookPort    = 443
)

func (w webhook) complete() {
	setIfNil(w.failurePolicy, admissionv1.Fail)
	setIfNil(w.matchPolicy, admissionv1.Equivalent)
	setIfNil(w.namespaceSelector, metav1.LabelSelector{})
	setIfNil(w.objectSelector, metav1.LabelSelector{})
	setIfNil(w.timeout, webhookSeconds)
	if w.reinvocation != nil {
		setIfNil(w.reinvocation, admissionv1.NeverReinvocationPolicy)
	}
	if w.client.Service != nil {
		setIfNil(&w.client.Service.Port, webhookPort)
	}
	completeRules(w.rules)
}

func completeRules(rules []admissionv1.RuleWithOperations) {
	for i := range rules {
		setIfNil(&rules[i].Scope, admissionv1.AllScopes)
	}
}
