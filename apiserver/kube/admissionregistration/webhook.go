package admissionregistration

import (
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/kinds"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidatingWebhookConfigurations returns the resource of the kind ValidatingWebhookConfiguration.
func ValidatingWebhookConfigurations() apiserver.Resource {
	type config = admissionv1.ValidatingWebhookConfiguration
	view := func(c *config) []webhook {
		out := make([]webhook, len(c.Webhooks))
		for i := range c.Webhooks {
			out[i] = validatingView(&c.Webhooks[i])
		}
		return out
	}
	return apiserver.For(kinds.ValidatingWebhookConfigurations, apiserver.Resource{
		Conditional: true,
		Strategy:    webhookStrategy(func(c *config) any { return c.Webhooks }, view).Erase(),
		Columns: []apiserver.Column{
			column.Number("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration", func(c *config) int64 { return int64(len(c.Webhooks)) }),
			column.Age[*config](),
		},
	})
}

// MutatingWebhookConfigurations returns the resource of the kind MutatingWebhookConfiguration.
func MutatingWebhookConfigurations() apiserver.Resource {
	type config = admissionv1.MutatingWebhookConfiguration
	view := func(c *config) []webhook {
		out := make([]webhook, len(c.Webhooks))
		for i := range c.Webhooks {
			out[i] = mutatingView(&c.Webhooks[i])
		}
		return out
	}
	return apiserver.For(kinds.MutatingWebhookConfigurations, apiserver.Resource{
		Conditional: true,
		Strategy:    webhookStrategy(func(c *config) any { return c.Webhooks }, view).Erase(),
		Columns: []apiserver.Column{
			column.Number("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration", func(c *config) int64 { return int64(len(c.Webhooks)) }),
			column.Age[*config](),
		},
	})
}

// A webhook has the fields that webhooks of both kinds share, to be read and written through
// pointers. reinvocation is nil for a webhook that does not mutate.
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

// webhookStrategy returns the strategy of a type of configuration. list returns the webhooks
// of a configuration and view a view of each. An update may break a rule that the old
// object breaks already, because an older server may have accepted the object.
func webhookStrategy[T column.Object](list func(T) any, view func(T) []webhook) define.Strategy[T] {
	return define.Strategy[T]{
		Default: func(c T) {
			for _, w := range view(c) {
				w.complete()
			}
		},
		Create: func(c T) { c.SetGeneration(1) },
		Update: func(c, old T) {
			c.SetGeneration(define.NextGeneration(old.GetGeneration(), define.Differ(list(c), list(old))))
		},
		Validate: func(c T) field.ErrorList { return validateWebhooks(view(c), webhookRules{}) },
		ValidateUpdate: func(c, old T) field.ErrorList {
			return validateWebhooks(view(c), rulesKeptBy(view(old)))
		},
	}
}

const (
	webhookSeconds = 10
	webhookPort    = 443
)

func (w webhook) complete() {
	optional.SetIfNil(w.failurePolicy, admissionv1.Fail)
	optional.SetIfNil(w.matchPolicy, admissionv1.Equivalent)
	optional.SetIfNil(w.namespaceSelector, metav1.LabelSelector{})
	optional.SetIfNil(w.objectSelector, metav1.LabelSelector{})
	optional.SetIfNil(w.timeout, webhookSeconds)
	if w.reinvocation != nil {
		optional.SetIfNil(w.reinvocation, admissionv1.NeverReinvocationPolicy)
	}
	if w.client.Service != nil {
		optional.SetIfNil(&w.client.Service.Port, webhookPort)
	}
	completeRules(w.rules)
}

func completeRules(rules []admissionv1.RuleWithOperations) {
	for i := range rules {
		optional.SetIfNil(&rules[i].Scope, admissionv1.AllScopes)
	}
}
