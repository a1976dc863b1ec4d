package plugins

import "slices"

// Order returns the names of Kubernetes' plugins in the order in which they run. It includes former
// plugins that planekit has: SecurityContextDeny and Initializers in their old places, and
// InitialResources after LimitRanger, whose defaults precede estimates.
func Order() []string { return slices.Clone(order) }

// DefaultOn returns the plugins of [Order] that are on by default, as in Kubernetes.
func DefaultOn() []string { return slices.Clone(defaultOn) }

// firstOfLast is the first plugin that must come after all plugins outside [Order]: policies,
// webhooks, and quota, which must count what is stored.
const firstOfLast = "MutatingAdmissionPolicy"

// order is AllOrderedPlugins of Kubernetes 1.36
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
