package plugins

import "slices"

// Order is the names that Kubernetes has for plugins, in the order in which it runs
// them; also those that it had once and that planekit has: SecurityContextDeny and
// Initializers in their old places, InitialResources after LimitRanger, whose
// defaults go before estimates.
func Order() []string { return slices.Clone(order) }

// DefaultOn is what of [Order] is on unless it is disabled, as in Kubernetes.
func DefaultOn() []string { return slices.Clone(defaultOn) }

// firstOfLast is the first of those that must come after all others: policies,
// webhooks, and quota, which counts what is really made.
const firstOfLast = "MutatingAdmissionPolicy"

// order is that of AllOrderedPlugins in Kubernetes 1.36
// (https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubeapiserver/options/plugins.go).
var order = []string{
	"AlwaysAdmit",
	"NamespaceAutoProvision",
	"NamespaceLifecycle",
	"NamespaceExists",
	"SecurityContextDeny",
	"LimitPodHardAntiAffinityTopology",
	"LimitRanger",
	"InitialResources",
	"ServiceAccount",
	"NodeRestriction",
	"TaintNodesByCondition",
	"AlwaysPullImages",
	"ImagePolicyWebhook",
	"PodSecurity",
	"PodNodeSelector",
	"Priority",
	"DefaultTolerationSeconds",
	"PodTolerationRestriction",
	"EventRateLimit",
	"ExtendedResourceToleration",
	"DefaultStorageClass",
	"StorageObjectInUseProtection",
	"PodGroupProtection",
	"OwnerReferencesPermissionEnforcement",
	"PersistentVolumeClaimResize",
	"RuntimeClass",
	"CertificateApproval",
	"CertificateSigning",
	"ClusterTrustBundleAttest",
	"CertificateSubjectRestriction",
	"DefaultIngressClass",
	"DenyServiceExternalIPs",
	"PodTopologyLabels",
	"PodGroupWorkloadExists",
	"NodeDeclaredFeatureValidator",
	"JobValidation",
	"PodResizeValidator",

	firstOfLast,
	"MutatingAdmissionWebhook",
	"Initializers",
	"ValidatingAdmissionPolicy",
	"ValidatingAdmissionWebhook",
	"ResourceQuota",
	"AlwaysDeny",
}

var defaultOn = []string{
	"NamespaceLifecycle",
	"LimitRanger",
	"ServiceAccount",
	"TaintNodesByCondition",
	"PodSecurity",
	"Priority",
	"DefaultTolerationSeconds",
	"DefaultStorageClass",
	"StorageObjectInUseProtection",
	"PodGroupProtection",
	"PersistentVolumeClaimResize",
	"RuntimeClass",
	"CertificateApproval",
	"CertificateSigning",
	"ClusterTrustBundleAttest",
	"CertificateSubjectRestriction",
	"DefaultIngressClass",
	"PodTopologyLabels",
	"PodGroupWorkloadExists",
	"NodeDeclaredFeatureValidator",
	"JobValidation",
	"PodResizeValidator",
	firstOfLast,
	"MutatingAdmissionWebhook",
	"ValidatingAdmissionPolicy",
	"ValidatingAdmissionWebhook",
	"ResourceQuota",
}
