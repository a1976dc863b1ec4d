//lint:file-ignore SA1019 clients still send what is deprecated

package warn

import (
	"crypto/tls"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// objects has the warnings about kinds that have no pods.
var objects = map[string]Func{
	"services.":               always(ofService),
	"services./status":        always(func(s *corev1.Service) []string { return ofIngress(s.Status.LoadBalancer.Ingress, ipOfService) }),
	"endpoints.":              always(ofEndpoints),
	"nodes.":                  always(ofNode),
	"persistentvolumes.":      always(ofVolume),
	"persistentvolumeclaims.": always(ofWholeClaim),
	"resourcequotas.":         onCreate(ofQuota),
	"secrets.":                always(ofSecret),
	"serviceaccounts.":        ofServiceAccount,
	"pods./status":            always(ofPodStatus),

	"endpointslices.discovery.k8s.io":   ofSlice,
	"networkpolicies.networking.k8s.io": always(ofNetworkPolicy),
	"ingresses.networking.k8s.io":       onCreate(ofIngressClass),
	"ingresses.networking.k8s.io/status": always(func(i *networkingv1.Ingress) []string {
		return ofIngress(i.Status.LoadBalancer.Ingress, func(i networkingv1.IngressLoadBalancerIngress) string { return i.IP })
	}),
	"runtimeclasses.node.k8s.io":                                     always(ofRuntimeClass),
	"csidrivers.storage.k8s.io":                                      ofDriver,
	"csistoragecapacities.storage.k8s.io":                            always(ofCapacity),
	"storageclasses.storage.k8s.io":                                  always(ofStorageClass),
	"validatingadmissionpolicies.admissionregistration.k8s.io":       always(ofStatic[*admissionv1.ValidatingAdmissionPolicy]),
	"validatingadmissionpolicybindings.admissionregistration.k8s.io": always(ofStatic[*admissionv1.ValidatingAdmissionPolicyBinding]),
	"mutatingadmissionpolicies.admissionregistration.k8s.io":         always(ofStatic[*admissionv1.MutatingAdmissionPolicy]),
	"mutatingadmissionpolicybindings.admissionregistration.k8s.io":   always(ofStatic[*admissionv1.MutatingAdmissionPolicyBinding]),
	"validatingwebhookconfigurations.admissionregistration.k8s.io":   always(ofStatic[*admissionv1.ValidatingWebhookConfiguration]),
	"mutatingwebhookconfigurations.admissionregistration.k8s.io":     always(ofStatic[*admissionv1.MutatingWebhookConfiguration]),
}

// always warns about every new and changed object.
func always[T any](about func(T) []string) Func {
	return func(obj, _ runtime.Object) []string { return bounded(about(obj.(T))) }
}

// onCreate warns about every new object.
func onCreate[T any](about func(T) []string) Func {
	return func(obj, old runtime.Object) []string {
		if old != nil {
			return nil
		}
		return bounded(about(obj.(T)))
	}
}

// bounded returns the first warnings.
func bounded(all []string) []string { return all[:min(len(all), maxWarnings)] }

func ofService(s *corev1.Service) (all []string) {
	spec := field.NewPath("spec")
	headless := s.Spec.Type == corev1.ServiceTypeClusterIP && s.Spec.ClusterIP == corev1.ClusterIPNone
	if _, has := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]; has {
		all = append(all, fmt.Sprintf("annotation %s is deprecated, please use %s instead", corev1.DeprecatedAnnotationTopologyAwareHints, corev1.AnnotationTopologyMode))
	}
	if s.Spec.ClusterIP != "" && s.Spec.ClusterIP != corev1.ClusterIPNone {
		all = append(all, ofIPs(spec.Child("clusterIPs"), s.Spec.ClusterIPs)...)
	}
	for _, ignored := range []struct {
		is   bool
		text string
	}{
		{s.Spec.LoadBalancerIP != "", "spec.loadBalancerIP is ignored for headless services"},
		{len(s.Spec.ExternalIPs) > 0, "spec.externalIPs is ignored for headless services"},
		{s.Spec.SessionAffinity != corev1.ServiceAffinityNone, "spec.SessionAffinity is ignored for headless services"},
	} {
		if headless && ignored.is {
			all = append(all, ignored.text)
		}
	}
	all = append(all, ofIPs(spec.Child("externalIPs"), s.Spec.ExternalIPs)...)
	outside := s.Spec.Type == corev1.ServiceTypeExternalName
	if len(s.Spec.ExternalIPs) > 0 && !headless && !outside {
		all = append(all, "spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	if s.Spec.LoadBalancerIP != "" {
		all = append(all, validation.GetWarningsForIP(spec.Child("loadBalancerIP"), s.Spec.LoadBalancerIP)...)
	}
	all = append(all, ofCIDRs(spec.Child("loadBalancerSourceRanges"), s.Spec.LoadBalancerSourceRanges)...)
	if outside && len(s.Spec.ExternalIPs) > 0 {
		all = append(all, `spec.externalIPs is ignored when spec.type is "ExternalName"`)
	}
	if !outside && s.Spec.ExternalName != "" {
		all = append(all, `spec.externalName is ignored when spec.type is not "ExternalName"`)
	}
	if d := s.Spec.TrafficDistribution; d != nil && *d == corev1.ServiceTrafficDistributionPreferClose {
		all = append(all, `spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"`)
	}
	return all
}

func ofIPs(at *field.Path, values []string) (all []string) {
	for i, value := range values {
		all = append(all, validation.GetWarningsForIP(at.Index(i), value)...)
	}
	return all
}

func ofCIDRs(at *field.Path, values []string) (all []string) {
	for i, value := range values {
		all = append(all, validation.GetWarningsForCIDR(at.Index(i), value)...)
	}
	return all
}

func ipOfService(i corev1.LoadBalancerIngress) string { return i.IP }

// ofIngress warns about the addresses of a load balancer, of which Kubernetes names the entry.
func ofIngress[T any](ingress []T, ip func(T) string) (all []string) {
	for i := range ingress {
		if value := ip(ingress[i]); value != "" {
			all = append(all, validation.GetWarningsForIP(field.NewPath("status", "loadBalancer", "ingress").Index(i), value)...)
		}
	}
	return all
}

func ofPodStatus(p *corev1.Pod) (all []string) {
	for i, a := range p.Status.PodIPs {
		all = append(all, validation.GetWarningsForIP(field.NewPath("status", "podIPs").Index(i).Child("ip"), a.IP)...)
	}
	for i, a := range p.Status.HostIPs {
		all = append(all, validation.GetWarningsForIP(field.NewPath("status", "hostIPs").Index(i).Child("ip"), a.IP)...)
	}
	return all
}

func ofEndpoints(e *corev1.Endpoints) (all []string) {
	if e.Labels["endpoints.kubernetes.io/managed-by"] == "endpoint-controller" {
		return nil // which writes them in the usual form
	}
	for i := range e.Subsets {
		at := field.NewPath("subsets").Index(i)
		for _, list := range []struct {
			name string
			of   []corev1.EndpointAddress
		}{{"addresses", e.Subsets[i].Addresses}, {"notReadyAddresses", e.Subsets[i].NotReadyAddresses}} {
			for j := range list.of {
				all = append(all, validation.GetWarningsForIP(at.Child(list.name).Index(j).Child("ip"), list.of[j].IP)...)
			}
		}
	}
	return all
}

func ofSlice(obj, old runtime.Object) (all []string) {
	s := obj.(*discoveryv1.EndpointSlice)
	if old == nil && s.AddressType == discoveryv1.AddressTypeFQDN {
		all = append(all, "spec.addressType: FQDN endpoints are deprecated")
	}
	by := s.Labels[discoveryv1.LabelManagedBy]
	if by == "endpointslice-controller.k8s.io" || by == "endpointslicemirroring-controller.k8s.io" {
		return all // which write them in the usual form
	}
	for i := range s.Endpoints {
		all = append(all, ofIPs(field.NewPath("endpoints").Index(i).Child("addresses"), s.Endpoints[i].Addresses)...)
	}
	return bounded(all)
}

func ofNode(n *corev1.Node) (all []string) {
	if n.Spec.ConfigSource != nil {
		all = append(all, "spec.configSource: the feature is removed")
	}
	if n.Spec.DoNotUseExternalID != "" {
		all = append(all, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	return append(all, ofCIDRs(field.NewPath("spec", "podCIDRs"), n.Spec.PodCIDRs)...)
}

const useStorageClass = `deprecated since v1.8; use "storageClassName" attribute instead`

// oldSources are the sources of volumes that are deprecated.
var oldSources = []struct {
	field string
	is    func(*corev1.PersistentVolumeSource) bool
	text  string
}{
	{"cephfs", func(v *corev1.PersistentVolumeSource) bool { return v.CephFS != nil }, "deprecated in v1.28, non-functional in v1.31+"},
	{"photonPersistentDisk", func(v *corev1.PersistentVolumeSource) bool { return v.PhotonPersistentDisk != nil }, "deprecated in v1.11, non-functional in v1.16+"},
	{"scaleIO", func(v *corev1.PersistentVolumeSource) bool { return v.ScaleIO != nil }, "deprecated in v1.16, non-functional in v1.22+"},
	{"storageOS", func(v *corev1.PersistentVolumeSource) bool { return v.StorageOS != nil }, "deprecated in v1.22, non-functional in v1.25+"},
	{"glusterfs", func(v *corev1.PersistentVolumeSource) bool { return v.Glusterfs != nil }, "deprecated in v1.25, non-functional in v1.26+"},
	{"rbd", func(v *corev1.PersistentVolumeSource) bool { return v.RBD != nil }, "deprecated in v1.28, non-functional in v1.31+"},
}

func ofVolume(v *corev1.PersistentVolume) (all []string) {
	for _, old := range []struct{ key, text string }{
		{corev1.BetaStorageClassAnnotation, useStorageClass},
		{"volume.beta.kubernetes.io/mount-options", `deprecated since v1.31; use "mountOptions" attribute instead`},
	} {
		if _, has := v.Annotations[old.key]; has {
			all = append(all, fmt.Sprintf("metadata.annotations[%s]: %s", old.key, old.text))
		}
	}
	if v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		all = append(all, "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.")
	}
	if a := v.Spec.NodeAffinity; a != nil && a.Required != nil {
		for i := range a.Required.NodeSelectorTerms {
			at := field.NewPath("spec", "nodeAffinity", "required", "nodeSelectorTerms").Index(i)
			all = append(all, ofTerm(at, a.Required.NodeSelectorTerms[i].MatchExpressions)...)
		}
	}
	for _, old := range oldSources {
		if old.is(&v.Spec.PersistentVolumeSource) {
			all = append(all, "spec."+old.field+": "+old.text)
		}
	}
	return all
}

// ofTerm warns of old labels of nodes.
func ofTerm(at *field.Path, expressions []corev1.NodeSelectorRequirement) (all []string) {
	for i, e := range expressions {
		if text, old := oldNodeLabels[e.Key]; old {
			all = append(all, fmt.Sprintf("%s: %s is %s", at.Child("matchExpressions").Index(i).Child("key"), e.Key, text))
		}
	}
	return all
}

func ofWholeClaim(c *corev1.PersistentVolumeClaim) (all []string) {
	if _, has := c.Annotations[corev1.BetaStorageClassAnnotation]; has {
		all = append(all, fmt.Sprintf("metadata.annotations[%s]: %s", corev1.BetaStorageClassAnnotation, useStorageClass))
	}
	return append(all, ofClaim(field.NewPath("spec"), &c.Spec)...)
}

func ofQuota(q *corev1.ResourceQuota) (all []string) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage} {
		asked := "requests." + name
		request, ok := q.Spec.Hard[asked]
		if !ok && (name == corev1.ResourceCPU || name == corev1.ResourceMemory) {
			if request, ok = q.Spec.Hard[name]; ok {
				asked = name
			}
		}
		if limit, limited := q.Spec.Hard["limits."+name]; ok && limited && request.Cmp(limit) > 0 {
			all = append(all, fmt.Sprintf("ResourceQuota %s (%s) should be less than limits.%s (%s)", asked, request.String(), name, limit.String()))
		}
	}
	return all
}

func ofSecret(s *corev1.Secret) []string {
	if s.Type != corev1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}

func ofServiceAccount(obj, old runtime.Object) []string {
	const mountable = "kubernetes.io/enforce-mountable-secrets"
	if old != nil {
		if _, had := old.(*corev1.ServiceAccount).Annotations[mountable]; had {
			return nil
		}
	}
	if _, has := obj.(*corev1.ServiceAccount).Annotations[mountable]; !has {
		return nil
	}
	return []string{"metadata.annotations[" + mountable + "]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
}

func ofNetworkPolicy(p *networkingv1.NetworkPolicy) (all []string) {
	block := func(at *field.Path, peers []networkingv1.NetworkPolicyPeer) {
		for i := range peers {
			if b := peers[i].IPBlock; b != nil {
				at := at.Index(i).Child("ipBlock")
				all = append(all, validation.GetWarningsForCIDR(at.Child("cidr"), b.CIDR)...)
				all = append(all, ofCIDRs(at.Child("except"), b.Except)...)
			}
		}
	}
	for i := range p.Spec.Ingress {
		block(field.NewPath("spec", "ingress").Index(i).Child("from"), p.Spec.Ingress[i].From)
	}
	for i := range p.Spec.Egress {
		block(field.NewPath("spec", "egress").Index(i).Child("to"), p.Spec.Egress[i].To)
	}
	return all
}

func ofIngressClass(i *networkingv1.Ingress) []string {
	const class = "kubernetes.io/ingress.class"
	if _, has := i.Annotations[class]; has && i.Spec.IngressClassName == nil {
		return []string{fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead", class)}
	}
	return nil
}

func ofRuntimeClass(c *nodev1.RuntimeClass) (all []string) {
	if c.Scheduling == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(c.Scheduling.NodeSelector)) {
		if text, old := oldNodeLabels[key]; old {
			all = append(all, "scheduling.nodeSelector: "+text)
		}
	}
	return all
}

func ofDriver(obj, old runtime.Object) []string {
	d := obj.(*storagev1.CSIDriver)
	if len(d.Spec.TokenRequests) == 0 || d.Spec.ServiceAccountTokenInSecrets != nil ||
		old != nil && reflect.DeepEqual(old.(*storagev1.CSIDriver).Spec.TokenRequests, d.Spec.TokenRequests) {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"}
}

func ofCapacity(c *storagev1.CSIStorageCapacity) (all []string) {
	if c.NodeTopology == nil {
		return nil
	}
	at := field.NewPath("nodeTopology")
	for i, e := range c.NodeTopology.MatchExpressions {
		if text, old := oldNodeLabels[e.Key]; old {
			all = append(all, fmt.Sprintf("%s: %s is %s", at.Child("matchExpressions").Index(i).Child("key"), e.Key, text))
		}
	}
	for _, label := range slices.Sorted(maps.Keys(c.NodeTopology.MatchLabels)) {
		if text, old := oldNodeLabels[label]; old {
			all = append(all, fmt.Sprintf("%s: %s", at.Child("matchLabels").Child(label), text))
		}
	}
	return all
}

func ofStorageClass(c *storagev1.StorageClass) (all []string) {
	for i, topology := range c.AllowedTopologies {
		for j, e := range topology.MatchLabelExpressions {
			if text, old := oldNodeLabels[e.Key]; old {
				all = append(all, fmt.Sprintf("allowedTopologies[%d].matchLabelExpressions[%d].key: %s", i, j, text))
			}
		}
	}
	return all
}

// ofStatic warns of names that are kept for configurations in files.
func ofStatic[T metav1.Object](obj T) []string {
	const static = ".static.k8s.io"
	if !strings.HasSuffix(obj.GetName(), static) {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: names ending with %q are reserved for static manifest-based configurations and cannot be managed via the API", static)}
}
