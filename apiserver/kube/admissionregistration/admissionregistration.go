// Package admissionregistration describes the kinds of the API group admissionregistration.k8s.io to an API server:
// how each is defaulted, validated, changed, shown in a table and selected.
//
//	config.Resources = append(config.Resources, admissionregistration.Resources()...)
//
// Webhooks and policies are checked and stored. Package admission/webhook calls the webhooks, and
// package admission/policy compiles and evaluates the policies.
package admissionregistration

import "github.com/planekit/planekit/apiserver"

// Resources returns the kinds of the group. The slice belongs to the caller.
func Resources() []apiserver.Resource {
	return []apiserver.Resource{
		ValidatingAdmissionPolicies(),
		ValidatingAdmissionPolicyBindings(),
		MutatingAdmissionPolicies(),
		MutatingAdmissionPolicyBindings(),
		MutatingWebhookConfigurations(),
		ValidatingWebhookConfigurations(),
	}
}
